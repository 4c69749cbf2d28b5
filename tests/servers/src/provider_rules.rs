//! What OpenAI and Anthropic demand of the conversation in a request, as far as they are known to refuse what
//! breaks it, and in which order they read it. Tests that play a provider hold every request against these
//! rules.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Collects broken rules, in words.
#[derive(Debug, Default)]
pub struct Violations(pub Vec<String>);

impl Violations {
    /// Notes that a rule was broken unless it was `kept`.
    pub fn unless(&mut self, kept: bool, rule: &str) {
        if !kept {
            self.0.push(rule.to_owned());
        }
    }

    /// OpenAI: every call is answered, by a message of its own, before anybody says anything else.
    pub fn openai_messages(&mut self, messages: &[Value]) {
        let first = messages.iter().find(|message| message["role"] != "system");
        self.unless(first.is_some_and(|first| first["role"] == "user"), "begins with the user");
        // Templates of many models refuse another one.
        let is_told = |message: &Value| message["role"] == "system";
        self.unless(!messages.iter().skip(1).any(is_told), "instructions are one message, the first");
        let (mut open, mut seen) = (HashSet::new(), HashSet::new());
        for message in messages {
            if message["role"] == "tool" {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                self.unless(open.remove(id), "a tool message answers an open call");
                self.unless(message["content"].is_string(), "a tool message has content");
                continue;
            }
            self.unless(open.is_empty(), "every call is answered before anything else is said");
            let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
            let has_parts = message["role"] == "user"
                && message["content"].as_array().is_some_and(|parts| are_parts(parts));
            let has_content = message["content"].is_string() || has_parts;
            self.unless(has_content || !calls.is_empty(), "a message has content");
            for call in calls {
                let id = call["id"].as_str().unwrap_or_default();
                self.unless(!id.is_empty() && seen.insert(id), "ids of calls are unique");
                open.insert(id);
                self.unless(call["type"] == "function", "type of a call");
                self.unless(call["function"]["name"].as_str().is_some_and(is_name), "name of a call");
                self.unless(call["function"]["arguments"].is_string(), "arguments are text");
            }
        }
        self.unless(open.is_empty(), "every call is answered");
    }

    /// Anthropic: turns alternate, and the turn after one with calls begins with the answers to all of them.
    pub fn anthropic_turns(&mut self, turns: &[Value]) {
        self.unless(!turns.is_empty(), "there are messages");
        let (mut open, mut seen) = (HashSet::new(), HashSet::new());
        for (turn, role) in turns.iter().zip(["user", "assistant"].into_iter().cycle()) {
            self.unless(turn["role"] == role, "roles alternate and begin with the user");
            let blocks = turn["content"].as_array().map(Vec::as_slice).unwrap_or_default();
            self.unless(!blocks.is_empty(), "a turn has content");
            let results = blocks.iter().take_while(|block| block["type"] == "tool_result");
            for id in results.map(|result| result["tool_use_id"].as_str().unwrap_or_default()) {
                let answers = role == "user" && open.remove(id);
                self.unless(answers, "a result answers a call of the turn before");
            }
            self.unless(open.is_empty(), "every call is answered in the next turn, before anything else");
            for block in blocks.iter().skip_while(|block| block["type"] == "tool_result") {
                match block["type"].as_str() {
                    Some("text") => {
                        let text = block["text"].as_str().unwrap_or_default();
                        self.unless(!text.trim().is_empty(), "text is not blank");
                    }
                    Some("tool_use") => {
                        let id = block["id"].as_str().unwrap_or_default();
                        self.unless(is_name(id) && seen.insert(id), "ids of calls are unique and plain");
                        open.insert(id);
                        self.unless(role == "assistant", "only the assistant calls");
                        self.unless(block["input"].is_object(), "input is an object");
                        self.unless(block["name"].as_str().is_some_and(is_name), "name of a call");
                    }
                    Some("image") => {
                        let source = &block["source"];
                        let is_whole = match source["type"].as_str() {
                            Some("base64") => source["media_type"].is_string() && source["data"].is_string(),
                            Some("url") => source["url"].is_string(),
                            _ => false,
                        };
                        self.unless(role == "user" && is_whole, "an image of the user");
                    }
                    _ => self.unless(false, "type of a block"),
                }
            }
        }
        self.unless(open.is_empty(), "every call is answered");
    }
}

/// Texts and images, in the form of each.
fn are_parts(parts: &[Value]) -> bool {
    let is_part = |part: &Value| match part["type"].as_str() {
        Some("text") => part["text"].as_str().is_some_and(|text| !text.is_empty()),
        Some("image_url") => part["image_url"]["url"].is_string(),
        _ => false,
    };
    !parts.is_empty() && parts.iter().all(is_part)
}

/// Whether both providers take it as a name.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

/// The blocks of a request in the order in which providers read them: tools, instructions, turns; and behind
/// how many of them there is a mark. The marks themselves are no part of what is compared.
pub fn blocks_read(body: &Value) -> (Vec<String>, Vec<usize>) {
    let (mut blocks, mut marks) = (Vec::new(), Vec::new());
    let turns = list(&body["messages"]).flat_map(|turn| match turn["content"].as_array() {
        Some(content) => content.iter().map(|block| (turn["role"].clone(), block.clone())).collect(),
        None => vec![(Value::Null, turn.clone())],
    });
    let beginnings =
        list(&body["tools"]).chain(list(&body["system"])).map(|block| (Value::Null, block.clone()));
    for (role, mut block) in beginnings.chain(turns) {
        let mark =
            block.as_object_mut().and_then(|fields: &mut Map<String, Value>| fields.remove("cache_control"));
        blocks.push(format!("{role}{block}"));
        marks.extend(mark.map(|_| blocks.len()));
    }
    (blocks, marks)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
