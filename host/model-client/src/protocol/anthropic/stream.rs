//! Streamed messages: events, put together into the body of a response.

use agent_core::event_stream::StreamEvent;
use json_schema::MemoryBudget;
use serde_json::{Value, json};

use crate::protocol::UnreadableReply;
use crate::protocol::reply_limits::check_calls;
use crate::protocol::streamed_reply::{Part, ReplyAssembler};

/// The most blocks of one reply that are kept, those that are not read included.
const MOST_BLOCKS: usize = 1024;

/// A message under way.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    blocks: Vec<Block>,
    calls: usize,
    stop_reason: Option<Value>,
    stop_details: Value,
    usage: serde_json::Map<String, Value>,
}

#[derive(Debug)]
struct Block {
    index: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text(String),
    /// A call: its beginning, and its input as text.
    ToolUse(Value, String),
    Other,
}

impl ReplyAssembler for Assembler {
    fn take(&mut self, event: &StreamEvent) -> Result<Part, UnreadableReply> {
        let mut event = MemoryBudget::default().read(event.data.as_bytes())?;
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.add_usage(event.pointer_mut("/message/usage").map(Value::take).unwrap_or_default());
            }
            "content_block_start" => return self.begin(&mut event),
            "content_block_delta" => return Ok(self.go_on(&event)),
            "message_delta" => {
                if let Some(Value::Object(delta)) = event.get_mut("delta")
                    && let Some(reason @ Value::String(_)) = delta.remove("stop_reason")
                {
                    self.stop_reason = Some(reason);
                    self.stop_details = delta.remove("stop_details").unwrap_or_default();
                }
                self.add_usage(event.get_mut("usage").map(Value::take).unwrap_or_default());
            }
            "message_stop" => return Ok(Part::End),
            "error" => return Ok(Part::Error(event.to_string().into_bytes())),
            // Pings, ends of blocks, and what newer versions add.
            _ => {}
        }
        Ok(Part::Other(0))
    }

    fn is_whole(&self) -> bool {
        self.stop_reason.is_some()
    }

    fn into_body(self: Box<Self>) -> Option<Vec<u8>> {
        let stop_reason = self.stop_reason?;
        let mut memory = MemoryBudget::default();
        let content = self.blocks.into_iter().filter_map(|block| match block.kind {
            Kind::Text(text) => Some(json!({ "type": "text", "text": text })),
            Kind::ToolUse(mut block, input) => {
                // What is no JSON is shown to the model again as it wrote it.
                if let (Value::Object(block), false) = (&mut block, input.trim().is_empty()) {
                    let input = memory.read(input.as_bytes()).unwrap_or(Value::String(input));
                    block.insert("input".into(), input);
                }
                Some(block)
            }
            Kind::Other => None,
        });
        let content: Vec<_> = content.collect();
        let usage = Some(Value::Object(self.usage)).filter(|usage| usage != &json!({}));
        let body = json!({
            "content": content, "stop_reason": stop_reason, "stop_details": self.stop_details, "usage": usage,
        });
        Some(body.to_string().into_bytes())
    }
}

impl Assembler {
    /// Counts are those so far, so that the last of each counts.
    fn add_usage(&mut self, usage: Value) {
        if let Value::Object(usage) = usage {
            self.usage.extend(usage.into_iter().filter(|(_, count)| count.is_u64()));
        }
    }

    fn begin(&mut self, event: &mut Value) -> Result<Part, UnreadableReply> {
        let index = event["index"].as_u64().unwrap_or_default();
        let block = event.get_mut("content_block").map(Value::take).unwrap_or_default();
        let mut begun = Part::Other(0);
        let kind = match block["type"].as_str() {
            Some("text") => {
                let text = block["text"].as_str().unwrap_or_default().to_owned();
                if !text.is_empty() {
                    begun = Part::Text(text.clone());
                }
                Kind::Text(text)
            }
            Some("tool_use") => {
                self.calls += 1;
                check_calls(self.calls)?;
                begun = Part::Other(block.to_string().len());
                Kind::ToolUse(block, String::new())
            }
            _ => Kind::Other,
        };
        if self.blocks.len() >= MOST_BLOCKS {
            return Err(UnreadableReply::invalid(&format!("it holds more than {MOST_BLOCKS} blocks")));
        }
        self.blocks.push(Block { index, kind });
        Ok(begun)
    }

    fn go_on(&mut self, event: &Value) -> Part {
        let index = event["index"].as_u64().unwrap_or_default();
        let block = self.blocks.iter_mut().rev().find(|block| block.index == index);
        let delta = &event["delta"];
        match block.map(|block| &mut block.kind) {
            Some(Kind::Text(text)) => match delta["text"].as_str() {
                Some(more) if !more.is_empty() => {
                    text.push_str(more);
                    Part::Text(more.to_owned())
                }
                Some(_) | None => Part::Other(0),
            },
            Some(Kind::ToolUse(_, input)) => {
                let more = delta["partial_json"].as_str().unwrap_or_default();
                input.push_str(more);
                Part::Other(more.len())
            }
            Some(Kind::Other) | None => Part::Other(0),
        }
    }
}
