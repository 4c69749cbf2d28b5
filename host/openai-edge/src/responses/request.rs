//! The body of `POST /v1/responses`, in which `references` has put kept items in the place of references to
//! them.

use agent_core::words::{Options, ReplyRules, ToolCall, Turn};
use serde_json::{Value, json};

use super::super::input::conversation::{Conversation, RunInput, check_length};
use super::super::input::parameters::{self, Fields, OF_OUTPUT, STREAM, TEMPERATURE};
use super::super::input::{allowed_tools, approvals, compaction, content, functions, metadata, rules};
use super::super::items::UNANSWERED;
use super::super::run::conversation_state::Place;
use http_edge::variant_b::error::Problem;

/// What a client asks.
#[derive(Debug, PartialEq)]
pub(crate) struct ResponsesRequest {
    pub(crate) input: String,
    /// The history as well.
    pub(crate) options: Options,
    pub(crate) stream: bool,
    /// What the response repeats of its request.
    pub(crate) echo: Echo,
}

/// What a response repeats of its request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Echo {
    pub(crate) instructions: Value,
    pub(crate) metadata: Value,
    pub(crate) tools: Value,
    pub(crate) tool_choice: Value,
    pub(crate) format: Value,
    pub(crate) parallel_tool_calls: bool,
    pub(crate) place: Place,
}

/// What a request without parameters has repeated: for a response whose own is not known any more.
impl Default for Echo {
    fn default() -> Self {
        Self {
            instructions: Value::Null,
            metadata: json!({}),
            tools: json!([]),
            tool_choice: "auto".into(),
            format: rules::repeated(&ReplyRules::default(), true),
            parallel_tool_calls: true,
            place: Place::default(),
        }
    }
}

/// Reads what is asked after `turns`.
pub(crate) fn read(fields: Fields, place: &Place, turns: &[Turn]) -> Result<ResponsesRequest, Problem> {
    parameters::check_model(&fields)?;
    let before = turns.last().map(|turn| turn.messages.as_slice()).unwrap_or_default();
    let mut conversation = Conversation::after(before);
    let instructions = content::text_if_any(fields.get("instructions"), "instructions")?;
    conversation.system(instructions);
    read_input(&fields, &mut conversation)?;
    parameters::check(&fields, parameters::OF_RESPONSES)?;
    let max_tokens = parameters::read(&fields, &OF_OUTPUT)?;
    let temperature = parameters::read(&fields, &TEMPERATURE)?;
    let stream = parameters::read(&fields, &STREAM)?.unwrap_or_default();
    let functions = functions::read(&fields, None)?;
    let rules = rules::of_response(&fields)?;
    let RunInput { input, history } = conversation.finish("input")?;
    let mut options = Options { max_tokens, temperature, functions, history, rules, ..Options::default() };
    allowed_tools::apply(&fields, &mut options)?;
    let echo = echo(fields, place, &options.rules)?;
    Ok(ResponsesRequest { input, options, stream, echo })
}

/// Reads `input`, a text or a list of items.
pub(crate) fn read_input(fields: &Fields, conversation: &mut Conversation) -> Result<(), Problem> {
    match fields.get("input") {
        None => return Err(Problem::missing("input")),
        Some(Value::String(text)) => conversation.user(text.as_str().into()),
        // Also beside instructions, which ask nothing.
        Some(Value::Array(items)) if items.is_empty() => {
            return Err(Problem::invalid("input", "it must have at least one item."));
        }
        Some(Value::Array(items)) => {
            check_length(items.len(), "input")?;
            for (index, item) in items.iter().enumerate() {
                read_item(item, &format!("input[{index}]"), conversation)?;
            }
        }
        Some(_) => return Err(Problem::wrong_type("input", "a string or a list")),
    }
    Ok(())
}

fn echo(mut fields: Fields, place: &Place, rules: &ReplyRules) -> Result<Echo, Problem> {
    let metadata = json!(metadata::read(fields.get("metadata"))?);
    let of_format = |name: &str| fields.get("text").and_then(|text| text.get("format")?.get(name));
    // The answer is held against its schema whether that was sent or not.
    let mut format = rules::repeated(rules, of_format("strict") != Some(&false.into()));
    if let Some(given @ Value::String(_)) = of_format("description")
        && let Some(own) = format.get_mut("description")
    {
        own.clone_from(given);
    }
    // Also parts are repeated as one text: readers of responses know no other form.
    let instructions = match fields.get("instructions") {
        None => Value::Null,
        given => content::text_if_any(given, "instructions")?.into(),
    };
    Ok(Echo {
        instructions,
        tools: functions::repeated(&fields),
        tool_choice: fields.remove("tool_choice").unwrap_or_else(|| "auto".into()),
        format,
        parallel_tool_calls: !rules.one_call,
        metadata,
        place: place.clone(),
    })
}

pub(crate) fn read_item(item: &Value, param: &str, conversation: &mut Conversation) -> Result<(), Problem> {
    let Value::Object(fields) = item else { return Err(Problem::wrong_type(param, "an object")) };
    let kind = match fields.get("type") {
        None | Some(Value::Null) => "message",
        Some(Value::String(kind)) => kind,
        Some(_) => return Err(Problem::wrong_type(format!("{param}.type"), "a string")),
    };
    match kind {
        "message" => return read_message(fields, param, conversation),
        // What a client called, and what it answered.
        "function_call" => {
            let call = read_call(fields, "call_id", param, conversation)?;
            conversation.call(call);
        }
        "function_call_output" => {
            let (id, at) = (text(fields, "call_id", param)?, format!("{param}.output"));
            conversation.answer(id, content::text(fields.get("output"), &at)?);
        }
        // What the agent itself called in an earlier response.
        "mcp_call" => {
            let call = read_call(fields, "id", param, conversation)?;
            let text = |name| fields.get(name).and_then(Value::as_str);
            let error = item.pointer("/error/content/0/text").and_then(Value::as_str);
            let answer = text("output").or(error).or(text("error"));
            // One in whose middle the run waited stands behind it once more, as a whole.
            conversation.answered_call(call, answer.unwrap_or(UNANSWERED).to_owned());
        }
        "compaction" => conversation.user(compaction::read(fields, param)?.into()),
        // What came of them stands behind them, and answers that end the input are taken before it is read.
        approvals::REQUEST | approvals::RESPONSE => {}
        // What another model thought says nothing to this one.
        "reasoning" => {}
        _ => {
            let why = "The agent reads messages, calls of functions with their outputs, and answers to approval requests.";
            return Err(Problem::unsupported_value(format!("{param}.type"), why));
        }
    }
    Ok(())
}

fn read_message(fields: &Fields, param: &str, conversation: &mut Conversation) -> Result<(), Problem> {
    let (content, at) = (fields.get("content"), format!("{param}.content"));
    let said = || content::text(content, &at);
    match fields.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => conversation.system(said()?),
        Some("user") => conversation.user(content::of_user(content, &at)?),
        Some("assistant") => conversation.assistant(said()?, vec![]),
        Some(_) => {
            let roles = "it must be 'system', 'developer', 'user' or 'assistant'.";
            return Err(Problem::invalid(format!("{param}.role"), roles));
        }
        None => return Err(Problem::missing(&format!("{param}.role"))),
    }
    Ok(())
}

fn read_call(
    fields: &Fields,
    id: &str,
    param: &str,
    conversation: &mut Conversation,
) -> Result<ToolCall, Problem> {
    let (id, name) = (text(fields, id, param)?, text(fields, "name", param)?);
    Ok(conversation.read_call(id, name, text(fields, "arguments", param)?))
}

fn text(fields: &Fields, name: &str, param: &str) -> Result<String, Problem> {
    let text = fields.get(name).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| Problem::missing(&format!("{param}.{name}")))
}

#[cfg(test)]
mod tests {
    use agent_core::testing::answer;
    use agent_core::words::Message;
    use serde_json::json;

    use super::super::super::input::check_refused;
    use super::*;

    /// A request with nothing before it.
    fn read(body: Value) -> Result<ResponsesRequest, Problem> {
        let fields = parameters::fields(body)?;
        let place = Place::read(&fields)?;
        super::read(fields, &place, &[])
    }

    #[test]
    fn a_text_is_a_whole_conversation() {
        let request = read(json!({
            "model": "agent", "input": "hi", "instructions": "be kind", "max_output_tokens": 50,
            "metadata": {"a": "b"}, "store": true,
        }))
        .unwrap();
        let history = vec![Message::System { content: "be kind".into() }];
        let options = Options { max_tokens: Some(50), history, ..Options::default() };
        let echo = Echo {
            instructions: json!("be kind"),
            metadata: json!({"a": "b"}),
            tools: json!([]),
            tool_choice: json!("auto"),
            format: json!({"type": "text"}),
            parallel_tool_calls: true,
            place: Place { store: true, ..Place::default() },
        };
        assert_eq!(request, ResponsesRequest { input: "hi".into(), options, stream: false, echo });
    }

    #[test]
    fn what_a_response_gave_can_be_sent_back() {
        let output = |text: &str| json!([{"type": "output_text", "text": text, "annotations": []}]);
        let request = read(json!({"model": "agent", "input": [
            {"role": "user", "content": "1+2?"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": output("Well")},
            {"type": "mcp_call", "id": "mcp_1", "name": "add", "arguments": "{}", "server_label": "agent", "output": "3"},
            {"type": "mcp_call", "id": "mcp_2", "name": "add", "arguments": "{}", "server_label": "agent", "output": null, "error": {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no"}]}},
            {"type": "mcp_call", "id": "mcp_3", "name": "add", "arguments": "{}", "status": "incomplete", "output": null, "error": null},
            {"type": "message", "role": "assistant", "content": output("3")},
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "look", "arguments": "{}"},
            {"type": "function_call", "id": "fc_2", "call_id": "b", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "x"},
            {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "y"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "sure?"}]},
        ]}))
        .unwrap();
        let call = |id: &str, name: &str| ToolCall { id: id.into(), name: name.into(), arguments: json!({}) };
        let said = |content: &str, tool_calls| Message::Assistant { content: content.into(), tool_calls };
        assert_eq!(request.input, "sure?");
        assert_eq!(
            request.options.history,
            [
                Message::User { content: "1+2?".into() },
                said("Well", vec![]),
                said("", vec![call("mcp_1", "add")]),
                answer("mcp_1", "add", "3"),
                said("", vec![call("mcp_2", "add")]),
                answer("mcp_2", "add", "no"),
                said("", vec![call("mcp_3", "add")]),
                answer("mcp_3", "add", "The call was not answered."),
                said("3", vec![call("a", "look"), call("b", "look")]),
                answer("a", "look", "x"),
                answer("b", "look", "y"),
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        let of = |input: Value| json!({"model": "agent", "input": input});
        for (body, code, param) in [
            (json!({"model": "agent"}), "missing_required_parameter", "input"),
            (of(json!(1)), "invalid_type", "input"),
            (of(json!([])), "invalid_value", "input"),
            (json!({"model": "agent", "instructions": "be kind", "input": []}), "invalid_value", "input"),
            (of(json!(["hi"])), "invalid_type", "input[0]"),
            (of(json!([{"type": {}, "role": "user", "content": "hi"}])), "invalid_type", "input[0].type"),
            (of(json!([{"role": "tool", "content": "hi"}])), "invalid_value", "input[0].role"),
            (of(json!([{"type": "computer_call"}])), "unsupported_value", "input[0].type"),
            (
                of(json!([{"type": "function_call", "name": "a"}])),
                "missing_required_parameter",
                "input[0].call_id",
            ),
            (
                of(json!([{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}])),
                "invalid_value",
                "input[0].content[0].image_url",
            ),
            (
                of(json!([{"role": "assistant", "content": [{"type": "input_image", "image_url": "x"}]}])),
                "unsupported_value",
                "input[0].content[0].type",
            ),
        ] {
            check_refused(read(body), code, param);
        }
    }
}
