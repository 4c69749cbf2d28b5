//! Tool calls that a model wrote into its text.
//!
//! Models are trained on their maker's own syntax of a call, and a server without the parser for it passes
//! the syntax on as text. Such a text is parsed into calls if every call in it is complete and names a tool
//! of the request; otherwise it stays text.
//!
//! | models | form |
//! |---|---|
//! | Hermes, Qwen 2.5 and 3 | `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, any number of times |
//! | Qwen 3 Coder | `<tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>` |
//! | Llama 3.1 | `<function=NAME>{…}</function>`, also without `>` (Groq), and `<\|python_tag\|>{"name": …, "parameters": {…}}` |
//! | Llama 3.2 | the bare object of the line above, alone |
//! | Mistral | `[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`, newer: `[TOOL_CALLS]NAME[ARGS]{…}` |

use agent_core::ports::{ModelRequest, ToolChoice};
use agent_core::words::{Catalog, Finish, ModelReply, ToolCall};
use json_schema::syntax::Keywords;
use serde_json::{Deserializer, Map, Value};

use super::reply_limits::check_calls;
use super::tool_call_ids::CallIds;

/// Longest text that is looked at. JSON takes up to 130 times its text as values, and calls that models write
/// are shorter.
const MOST_BYTES: usize = 256 << 10;

/// A text that holds calls.
#[derive(Debug, PartialEq)]
struct ParsedText {
    /// The rest of the text.
    text: String,
    /// Names of known tools, and arguments.
    calls: Vec<(String, Map<String, Value>)>,
}

type Call = (String, Map<String, Value>);

/// Moves the calls in the text of a reply to its `tool_calls`, unless it has some already or none were
/// allowed.
pub(crate) fn extract_calls(reply: &mut ModelReply, request: &ModelRequest<'_>) {
    let may = request.tool_choice != ToolChoice::None && reply.finish == Finish::Done;
    if !may || !reply.tool_calls.is_empty() {
        return;
    }
    if let Some(ParsedText { text, calls }) = parse(&reply.content, request.tools) {
        let mut ids = CallIds::after(request.messages);
        let call = |(name, arguments)| ToolCall::of_object(ids.claim(None), name, arguments);
        reply.tool_calls = calls.into_iter().map(call).collect();
        reply.content = text;
    }
}

fn parse(text: &str, tools: &Catalog) -> Option<ParsedText> {
    // Every form has one of these characters, and most answers have none.
    if tools.tools().is_empty() || !text.contains(['<', '[', '{']) || text.len() > MOST_BYTES {
        return None;
    }
    // A call within the model's reasoning is not one that it makes.
    let (thoughts, said) = match text.trim_start().starts_with("<think>").then(|| text.find("</think>")) {
        Some(Some(end)) => text.split_at(end + "</think>".len()),
        Some(None) => return None,
        None => ("", text),
    };
    let found = between(said, "<tool_call>", "</tool_call>", |inner| tagged(inner, tools))
        .or_else(|| between(said, "<function=", "</function>", |inner| function(inner, tools)))
        .or_else(|| after(said, "<|python_tag|>", |inner| listed(inner, tools)))
        .or_else(|| after(said, "[TOOL_CALLS]", |inner| mistral(inner, tools)))
        .or_else(|| Some(ParsedText { text: String::new(), calls: bare(said, tools)? }))?;
    if found.calls.is_empty() || check_calls(found.calls.len()).is_err() {
        return None;
    }
    let beside = format!("{thoughts}{}", found.text);
    Some(ParsedText { text: beside.trim().to_owned(), ..found })
}

/// Calls between two marks. The last end mark may be missing: some servers use it as a stop sequence.
fn between(
    text: &str,
    begin: &str,
    end: &str,
    read: impl Fn(&str) -> Option<Vec<Call>>,
) -> Option<ParsedText> {
    let (mut beside, mut calls, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, inside)) = rest.split_once(begin) {
        let (inner, behind) = inside.split_once(end).unwrap_or((inside, ""));
        calls.extend(read(inner)?);
        beside.push_str(before);
        rest = behind;
    }
    beside.push_str(rest);
    (!calls.is_empty()).then_some(ParsedText { text: beside, calls })
}

/// Calls from a mark to the end.
fn after(text: &str, mark: &str, read: impl Fn(&str) -> Option<Vec<Call>>) -> Option<ParsedText> {
    let (before, inner) = text.split_once(mark)?;
    Some(ParsedText { text: before.to_owned(), calls: read(inner)? })
}

fn tagged(inner: &str, tools: &Catalog) -> Option<Vec<Call>> {
    match inner.trim().strip_prefix("<function=") {
        Some(inner) => function(inner.strip_suffix("</function>").unwrap_or(inner), tools),
        None => listed(inner, tools),
    }
}

/// `NAME>` and then the arguments, as JSON or one by one. JSON may follow the name at once.
fn function(inner: &str, tools: &Catalog) -> Option<Vec<Call>> {
    let (name, rest) = inner.split_at(inner.find(['>', '{'])?);
    let (name, rest) = (name.trim(), rest.strip_prefix('>').unwrap_or(rest).trim());
    let tool = tools.get(name)?;
    if rest.starts_with('{') {
        let Value::Object(arguments) = serde_json::from_str(rest).ok()? else { return None };
        return Some(vec![(name.to_owned(), arguments)]);
    }
    let mut arguments = Map::new();
    let mut rest = rest;
    while let Some(parameter) = rest.strip_prefix("<parameter=") {
        let (key, value) = parameter.split_once('>')?;
        let (value, behind) = value.split_once("</parameter>")?;
        let schema = Keywords::of(&tool.input_schema).property(key.trim());
        arguments.insert(key.trim().to_owned(), parameter_value(value, schema));
        rest = behind.trim_start();
    }
    rest.is_empty().then(|| vec![(name.to_owned(), arguments)])
}

/// The value of a parameter that was written without quotes: text if the schema says so, else JSON if it
/// parses.
fn parameter_value(value: &str, schema: Option<&Value>) -> Value {
    let value = value.strip_prefix('\n').unwrap_or(value);
    let value = value.strip_suffix('\n').unwrap_or(value);
    let is_text = schema.is_some_and(|schema| Keywords::of(schema).text("type") == Some("string"));
    let parsed = if is_text { None } else { serde_json::from_str(value.trim()).ok() };
    parsed.unwrap_or_else(|| value.into())
}

/// JSON objects that are calls, alone, in a list, or with `;` between them, up to the end.
fn listed(inner: &str, tools: &Catalog) -> Option<Vec<Call>> {
    let mut calls = Vec::new();
    let mut rest = inner.trim();
    while !rest.is_empty() {
        let (value, behind) = json(rest)?;
        calls.extend(calls_of(&value, tools)?);
        rest = skip_separators(behind);
    }
    (!calls.is_empty()).then_some(calls)
}

fn mistral(inner: &str, tools: &Catalog) -> Option<Vec<Call>> {
    if inner.trim_start().starts_with(['[', '{']) {
        return listed(inner, tools);
    }
    let mut calls = Vec::new();
    for call in inner.split("[TOOL_CALLS]") {
        let begin = call.find('{')?;
        let (head, arguments) = call.split_at(begin);
        let name = head.trim().strip_suffix("[ARGS]").unwrap_or(head).trim();
        // An id may stand between the name and the arguments.
        let name = name.split("[CALL_ID]").next()?.trim();
        let (Value::Object(arguments), behind) = json(arguments)? else { return None };
        if !skip_separators(behind).is_empty() {
            return None;
        }
        calls.push((tools.get(name)?.name.clone(), arguments));
    }
    Some(calls)
}

/// A text that is one call or a list of them, without any other text or any key that calls do not have.
fn bare(text: &str, tools: &Catalog) -> Option<Vec<Call>> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let objects: Vec<_> = value.as_array().map_or_else(|| vec![&value], |list| list.iter().collect());
    let plain = |object: &&Value| {
        let keys = object.as_object().is_some_and(|object| {
            object.keys().all(|key| ["type", "id", "name", "parameters", "arguments"].contains(&key.as_str()))
        });
        keys && (object.get("parameters").is_some() || object.get("arguments").is_some())
    };
    if objects.iter().all(plain) { calls_of(&value, tools) } else { None }
}

/// The next JSON value, and what follows it.
fn json(text: &str) -> Option<(Value, &str)> {
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, text.get(values.byte_offset()..)?))
}

/// What follows a call, without separators and end marks.
fn skip_separators(text: &str) -> &str {
    let mut text = text.trim();
    for mark in [";", ",", "<|eom_id|>", "<|eot_id|>", "<|im_end|>", "</s>"] {
        text = text.strip_prefix(mark).unwrap_or(text).trim();
    }
    text
}

fn calls_of(value: &Value, tools: &Catalog) -> Option<Vec<Call>> {
    match value {
        Value::Array(list) => list.iter().map(|value| call_of(value, tools)).collect(),
        _ => Some(vec![call_of(value, tools)?]),
    }
}

fn call_of(value: &Value, tools: &Catalog) -> Option<Call> {
    let call = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value);
    let name = &tools.get(call.get("name")?.as_str()?)?.name;
    let arguments = match call.get("arguments").or_else(|| call.get("parameters")) {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(Value::String(text)) => serde_json::from_str(text).ok()?,
        Some(_) => return None,
    };
    Some((name.clone(), arguments))
}

#[cfg(test)]
mod tests {
    use agent_core::words::ToolSpec;
    use serde_json::json;

    use super::*;

    fn tools() -> Catalog {
        let properties = json!({ "a": { "type": "number" }, "text": { "type": "string" } });
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: "d".into(),
            input_schema: json!({ "type": "object", "properties": properties }),
            ..ToolSpec::default()
        };
        Catalog::new(vec![tool("add"), tool("echo")], "digest".into())
    }

    fn calls(text: &str) -> Option<(String, Value)> {
        let ParsedText { text, calls } = parse(text, &tools())?;
        let calls = calls.into_iter().map(|(name, arguments)| json!({ name: arguments }));
        Some((text, calls.collect()))
    }

    #[test]
    fn calls_in_the_text_are_found_in_every_makers_syntax() {
        let (add, echo) = (json!([{ "add": { "a": 1 } }]), json!([{ "echo": { "text": "5" } }]));
        let both = json!([{ "add": { "a": 1 } }, { "echo": { "text": "5" } }]);
        let (one, two) =
            (r#"{"name":"add","arguments":{"a":1}}"#, r#"{"name":"echo","arguments":{"text":"5"}}"#);
        for (text, beside, expected) in [
            (format!("<tool_call>\n{one}\n</tool_call>"), "", &add),
            (
                format!("Let me see.\n<tool_call>{one}</tool_call>\n<tool_call>{two}</tool_call>"),
                "Let me see.",
                &both,
            ),
            (format!("<tool_call>{one}"), "", &add),
            (
                format!("<think>I call <tool_call> now</think><tool_call>{one}</tool_call>"),
                { "<think>I call <tool_call> now</think>" },
                &add,
            ),
            (r#"<tool_call>{"name":"add","arguments":"{\"a\":1}"}</tool_call>"#.into(), "", &add),
            (
                "<tool_call>\n<function=echo>\n<parameter=text>\n5\n</parameter>\n</function>\n</tool_call>"
                    .into(),
                "",
                &echo,
            ),
            ("<tool_call><function=add><parameter=a>1</parameter></function></tool_call>".into(), "", &add),
            (r#"<function=add>{"a":1}</function>"#.into(), "", &add),
            (format!("<|python_tag|>{one}<|eom_id|>"), "", &add),
            (format!("<|python_tag|>{one}; {two}"), "", &both),
            (format!("[TOOL_CALLS] [{one}, {two}]"), "", &both),
            (format!("[TOOL_CALLS]{one}</s>"), "", &add),
            (
                r#"[TOOL_CALLS]add[ARGS]{"a":1}[TOOL_CALLS]echo[CALL_ID]x1[ARGS]{"text":"5"}"#.into(),
                "",
                &both,
            ),
            (r#"[TOOL_CALLS]add{"a":1}"#.into(), "", &add),
            (r#"{"name": "add", "parameters": {"a": 1}}"#.into(), "", &add),
            (format!("[{one},{two}]"), "", &both),
            (r#"{"type":"function","name":"add","parameters":{"a":1}}"#.into(), "", &add),
        ] {
            assert_eq!(calls(&text), Some((beside.to_owned(), expected.clone())), "{text}");
        }
    }

    #[test]
    fn what_is_no_complete_call_of_a_known_tool_stays_text() {
        for text in [
            "",
            "3",
            "The answer is 3.",
            "{}",
            "[]",
            r#"{"name":"add"}"#,
            r#"{"name":"add","parameters":{"a":1},"note":"an example"}"#,
            r#"{"name":"nobody","parameters":{}}"#,
            r#"Call it so: {"name":"add","parameters":{"a":1}}"#,
            r#"<tool_call>{"name":"nobody","arguments":{}}</tool_call>"#,
            r#"<tool_call>{"name":"add","arguments":{"a":1}</tool_call>"#,
            r#"<tool_call>{"name":"add","arguments":[1]}</tool_call>"#,
            r#"<tool_call>{"name":"add","arguments":{}}</tool_call><tool_call>{"name":"#,
            "<tool_call></tool_call>",
            "Models write <tool_call> before a call.",
            r#"<think><tool_call>{"name":"add","arguments":{}}</tool_call>"#,
            "<function=nobody>{}</function>",
            "<function=add><parameter=a>1</function>",
            "<|python_tag|>print(1)",
            "[TOOL_CALLS]",
            "[TOOL_CALLS]nobody{}",
            r#"[TOOL_CALLS]add{"a":1} and more"#,
        ] {
            assert_eq!(calls(text), None, "{text}");
        }
        let one = r#"<tool_call>{"name":"add","arguments":{}}</tool_call>"#;
        assert!(parse(&one.repeat(129), &tools()).is_none(), "more than can be meant");
        assert!(parse(one, &Catalog::default()).is_none());
    }
}
