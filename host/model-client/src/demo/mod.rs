//! `demo/rules`: rules in the place of a model, so that somebody without a key can see the service work. It
//! is deterministic, says in every answer what it is, and is refused in production (by the configuration).

mod form;
mod rules;

use agent_core::ports::{Model, ModelError, ModelRequest};
use agent_core::words::{Catalog, Finish, Message, ModelReply, ToolCall, ToolSpec, Usage};
use boxed_async::boxed_async;
use json_schema::syntax::Keywords;
use serde_json::{Map, Value, json};

use rules::{Intent, enumerate, intents, written_call};

/// The bytes of a token, roughly, in English.
const BYTES_PER_TOKEN: u64 = 4;

/// The tools that the rules know, and what to ask for to see them used.
const KNOWN: [(&str, &str); 3] = [
    ("calculate", "arithmetic (\"What is 12 * (3 + 4)?\")"),
    ("current_time", "the time (\"What time is it in Tokyo?\")"),
    ("text_stats", "statistics of a text (\"Count the words in: to be or not to be\")"),
];

/// Name of a tool, and arguments.
type Call = (String, Map<String, Value>);

/// A model of a few rules: it recognizes arithmetic, the time and word counts, calls the tools for them if
/// they are there, and answers with what the tools return. Any other tool it calls when the call is written
/// out: `call greet {"name": "Ada"}`.
#[derive(Debug, Clone, Copy, Default)]
pub struct DemoModel;

#[boxed_async]
impl Model for DemoModel {
    fn name(&self) -> &str {
        "demo/rules"
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let (content, tool_calls) = next(request.messages, request.tools);
        let wants_json = request.rules.output.as_ref().filter(|_| tool_calls.is_empty());
        let content = wants_json.map(|format| form::filled(format, &content)).unwrap_or(content);
        let (content, finish) = shorten(content, u64::from(request.max_tokens) * BYTES_PER_TOKEN);
        let asked = |call: &ToolCall| call.name.len() + call.arguments.to_string().len();
        let written = content.len() + tool_calls.iter().map(asked).sum::<usize>();
        let read = request.tools.prompt_bytes() + request.messages.iter().map(size).sum::<u64>();
        let usage = Usage {
            input_tokens: read.div_ceil(BYTES_PER_TOKEN),
            output_tokens: (written as u64).div_ceil(BYTES_PER_TOKEN),
            ..Usage::default()
        };
        if let Some(deltas) = request.deltas.filter(|_| !content.is_empty()) {
            deltas.text(&content);
        }
        Ok(ModelReply { content, tool_calls, usage: Some(usage), finish, model: self.name().to_owned() })
    }
}

/// The next thing to say, and the tools to call.
fn next(messages: &[Message], tools: &Catalog) -> (String, Vec<ToolCall>) {
    let results: Vec<_> = messages
        .iter()
        .rev()
        .map_while(|message| match message {
            Message::Tool { name, content, .. } => Some(format!("{name} returned {content}")),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect();
    if !results.is_empty() {
        let results: Vec<_> = results.into_iter().rev().collect();
        return (format!("[demo model] {}", results.join("; ")), Vec::new());
    }
    let text = messages.iter().rev().find_map(|message| match message {
        Message::User { content } => Some(content.texts().collect::<Vec<_>>().join("\n")),
        Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    let text = text.unwrap_or_default();
    let calls = match written_out(&text, tools) {
        Some(Ok(call)) => vec![call],
        Some(Err(problem)) => return (format!("[demo model] {problem}"), Vec::new()),
        None => intents(&text).into_iter().filter_map(|intent| call(intent, tools)).collect(),
    };
    let calls: Vec<_> = calls
        .into_iter()
        .enumerate()
        // Numbered by its place, so that no id occurs twice in a conversation.
        .map(|(n, (name, arguments))| {
            ToolCall::of_object(format!("demo_{}_{n}", messages.len()), name, arguments)
        })
        .collect();
    let has_images = messages.iter().any(|message| message.images() > 0);
    let content = match (calls.is_empty(), has_images) {
        (false, _) => String::new(),
        (true, false) => introduction(tools),
        (true, true) => introduction(tools) + " I cannot see images.",
    };
    (content, calls)
}

/// The call that a text spells out, or why it cannot be made; nothing when the text is none.
fn written_out(text: &str, tools: &Catalog) -> Option<Result<Call, String>> {
    let (tool, arguments) = written_call(text)?;
    let is_there = tools.get(tool).is_some();
    let is_call = if is_there {
        arguments.is_empty() || arguments.starts_with(['{', '[', '\'', '"'])
    } else {
        arguments.starts_with('{')
    };
    if !is_call {
        return None;
    }
    if !is_there {
        let names: Vec<_> = tools.tools().iter().map(|tool| tool.name.as_str()).collect();
        let others = if names.is_empty() { "none".to_owned() } else { enumerate(&names) };
        return Some(Err(format!("There is no tool {tool}. The tools are: {others}.")));
    }
    let arguments = if arguments.is_empty() { "{}" } else { arguments };
    Some(match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(arguments) => Ok((tool.to_owned(), arguments)),
        Err(error) => Err(format!("What follows call {tool} is no JSON object: {error}.")),
    })
}

/// The tool for a intent and its arguments, if it is there.
fn call(intent: Intent, tools: &Catalog) -> Option<Call> {
    let (tool, names, value) = match intent {
        Intent::Calculate(expression) => ("calculate", ["expression", "expr"], Some(expression)),
        Intent::Time(zone) => ("current_time", ["time_zone", "zone"], zone),
        Intent::Statistics(text) => ("text_stats", ["text", "input"], Some(text)),
    };
    let spec = tools.get(tool)?;
    let name = property(spec, names);
    let needed = Keywords::of(&spec.input_schema).required().any(|required| required == name);
    let value = value.or_else(|| needed.then(|| "UTC".to_owned()));
    let arguments = value.into_iter().map(|value| (name.clone(), json!(value))).collect();
    Some((spec.name.clone(), arguments))
}

/// The property of a tool's arguments that takes the value: one of the names it should have, else the only
/// required one. Tools are swapped while we run, and the next version may have renamed it.
fn property(spec: &ToolSpec, names: [&str; 2]) -> String {
    let schema = Keywords::of(&spec.input_schema);
    let known = names.into_iter().find(|name| schema.property(name).is_some());
    match (known, schema.list("required")) {
        (None, [Value::String(only)]) => only.clone(),
        (known, _) => known.unwrap_or(names[0]).to_owned(),
    }
}

/// What the demo says when no rule fits.
fn introduction(tools: &Catalog) -> String {
    let is_there = |(name, _): &&(&str, &str)| tools.get(name).is_some();
    let can: Vec<_> = KNOWN.iter().filter(is_there).map(|(_, what)| *what).collect();
    let known = |tool: &ToolSpec| KNOWN.iter().any(|(name, _)| *name == tool.name);
    let others: Vec<_> =
        tools.tools().iter().filter(|tool| !known(tool)).map(|tool| tool.name.as_str()).collect();
    let mut text = "[demo model] I am a handful of rules in the place of a language model.".to_owned();
    if can.is_empty() {
        text.push_str(" None of the tools that my rules know is installed.");
    } else {
        text.push_str(&format!(" Ask me for {}.", enumerate(&can)));
    }
    if let Some((first, rest)) = others.split_first() {
        let example = format!(" I make any call that is written out, arguments as JSON: call {first} {{…}}.");
        text.push_str(&example);
        if !rest.is_empty() {
            text.push_str(&format!(" There is also {}.", enumerate(rest)));
        }
    }
    text.push_str(" LLM_MODEL and LLM_API_KEY put a real model in my place.");
    text
}

/// As much of a text as the most tokens allow.
fn shorten(mut text: String, most: u64) -> (String, Finish) {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if text.len() <= most {
        return (text, Finish::Done);
    }
    text.truncate(text.floor_char_boundary(most));
    (text, Finish::Length)
}

fn size(message: &Message) -> u64 {
    let asked = |call: &ToolCall| call.name.len() + call.arguments.to_string().len();
    let bytes = match message {
        Message::System { content } | Message::Tool { content, .. } => content.len(),
        Message::User { content } => content.text().len(),
        Message::Assistant { content, tool_calls } => {
            content.len() + tool_calls.iter().map(asked).sum::<usize>()
        }
    };
    bytes as u64
}

#[cfg(test)]
mod tests;
