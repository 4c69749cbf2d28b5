//! The parameters that replies have to keep to: the format of the answer, which tool is called first, how
//! many are called at once, and where a reply ends.

use agent_core::words::{OutputFormat, ReplyRules, RequiredCall};
use run_service::output_check::check_schema;
use serde_json::{Value, json};

use super::super::models;
use super::allowed_tools;
use super::functions::Named;
use super::parameters::{self, Fields, switch};
use http_edge::openapi::schema_parts::of;
use http_edge::request::Field;
use http_edge::variant_b::error::Problem;

/// Most texts of `stop`, as OpenAI has it, and most bytes of one.
const MOST_STOPS: usize = 4;
const LONGEST_STOP: usize = 256;

/// The forms that an answer may have.
pub(crate) const FORMATS: [&str; 3] = ["text", "json_object", "json_schema"];

/// Whether a reply may call several tools at once.
pub(crate) const PARALLEL: Field =
    switch("parallel_tool_calls").about("Whether a reply may call several tools.").example(|| json!(true));

/// What a chat completion's replies have to keep to.
pub(crate) fn of_chat(fields: &Fields) -> Result<ReplyRules, Problem> {
    let format = fields.get("response_format");
    let output = read_format(format, Some("json_schema"), "response_format")?;
    Ok(ReplyRules { output, stop: read_stop(fields.get("stop"))?, ..of_both(fields)? })
}

/// What a response's replies have to keep to.
pub(crate) fn of_response(fields: &Fields) -> Result<ReplyRules, Problem> {
    let format = match fields.get("text") {
        None => None,
        Some(Value::Object(text)) => text.get("format"),
        Some(_) => return Err(Problem::wrong_type("text", "an object")),
    };
    Ok(ReplyRules { output: read_format(format, None, "text.format")?, ..of_both(fields)? })
}

fn of_both(fields: &Fields) -> Result<ReplyRules, Problem> {
    let first_call = read_choice(fields.get("tool_choice"))?;
    let one_call = parameters::read(fields, &PARALLEL)? == Some(false);
    Ok(ReplyRules { first_call, one_call, ..ReplyRules::default() })
}

/// `within` is where a format has its name and its schema.
fn read_format(
    format: Option<&Value>,
    within: Option<&str>,
    param: &str,
) -> Result<Option<OutputFormat>, Problem> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(None) };
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(OutputFormat { name: "output".to_owned(), schema: None })),
        Some("json_schema") => {
            let Named { name, described, at } = Named::read(format, within, param)?;
            match described.get("schema") {
                Some(schema @ Value::Object(_)) => {
                    Ok(Some(OutputFormat { name: name.to_owned(), schema: Some(schema.clone()) }))
                }
                _ => Err(Problem::wrong_type(format!("{at}.schema"), "an object")),
            }
        }
        _ => {
            let why = "The agent answers in 'text', 'json_object' or 'json_schema'.";
            Err(Problem::unsupported_value(format!("{param}.type"), why))
        }
    }
}

fn read_choice(choice: Option<&Value>) -> Result<Option<RequiredCall>, Problem> {
    let Some(choice) = choice else { return Ok(None) };
    let name = || {
        let name = choice.pointer("/function/name").or(choice.get("name")).and_then(Value::as_str);
        name.map(|name| RequiredCall::Tool(name.to_owned()))
    };
    match choice.as_str().or(choice.get("type").and_then(Value::as_str)) {
        Some("auto" | "none") if choice.is_string() => Ok(None),
        Some("required") if choice.is_string() => Ok(Some(RequiredCall::Any)),
        Some("function") => name().map(Some).ok_or_else(|| Problem::missing("tool_choice.name")),
        // All tools of the agent are one server's.
        Some("mcp") if choice.get("server_label").is_none_or(|label| *label == models::AGENT) => {
            Ok(Some(name().unwrap_or(RequiredCall::Any)))
        }
        Some("allowed_tools") => match allowed_tools::described(choice).get("mode").and_then(Value::as_str) {
            Some("auto") => Ok(None),
            Some("required") => Ok(Some(RequiredCall::Any)),
            _ => Err(Problem::invalid("tool_choice.mode", "it must be 'auto' or 'required'.")),
        },
        Some("mcp") => Err(Problem::invalid("tool_choice", "the server of the agent's tools is 'agent'.")),
        _ => Err(Problem::unsupported_value(
            "tool_choice",
            "Send 'auto', 'none', 'required', the name of a function or of one of the agent's tools, or 'allowed_tools'.",
        )),
    }
}

fn read_stop(stop: Option<&Value>) -> Result<Vec<String>, Problem> {
    let stops = match stop {
        None => return Ok(vec![]),
        Some(Value::Array(stops)) => stops.as_slice(),
        Some(stop) => std::slice::from_ref(stop),
    };
    if stops.len() > MOST_STOPS {
        return Err(Problem::invalid("stop", &format!("it may have at most {MOST_STOPS} texts.")));
    }
    let read = |stop: &Value| match stop.as_str() {
        Some(stop) if (1..=LONGEST_STOP).contains(&stop.len()) => Ok(stop.to_owned()),
        Some(_) => Err(Problem::invalid("stop", &format!("each text must have 1 to {LONGEST_STOP} bytes."))),
        None => Err(Problem::wrong_type("stop", "a string or a list of strings")),
    };
    stops.iter().map(read).collect()
}

/// Refuses a schema that no output can be held against.
pub(crate) async fn check(rules: &ReplyRules, param: &str) -> Result<(), Problem> {
    let Some(format) = &rules.output else { return Ok(()) };
    check_schema(format).await.map_err(|problem| Problem::invalid(param, &format!("the schema {problem}.")))
}

/// The format as a response repeats it, with every field.
pub(crate) fn repeated(rules: &ReplyRules, strict: bool) -> Value {
    match &rules.output {
        None => json!({ "type": "text" }),
        Some(OutputFormat { schema: None, .. }) => json!({ "type": "json_object" }),
        Some(OutputFormat { name, schema }) => json!({
            "type": "json_schema", "name": name, "schema": schema, "description": null, "strict": strict,
        }),
    }
}

/// The schema of a format, for the document; `within` is where it has its name and its schema.
pub(crate) fn format_schema(within: Option<&str>) -> Value {
    let name = of("string", "What the schema is called.", "sum");
    let schema = of("object", "The JSON Schema of the answer.", json!({ "type": "object" }));
    let described = json!({ "name": name, "schema": schema });
    let properties = match within {
        Some(within) => json!({ within: {
            "type": "object", "description": "The schema, with a name.", "required": ["name", "schema"],
            "properties": described,
        } }),
        None => described,
    };
    let mut format = json!({
        "type": ["object", "null"], "required": ["type"], "examples": [{ "type": "json_object" }],
        "description": "The form of the answer: any text, any JSON object, or JSON of a schema.",
        "properties": { "type": {
            "type": "string", "enum": FORMATS, "description": "Which form.",
            "examples": ["json_schema"],
        } },
    });
    if let (Some(own), Value::Object(more)) = (format["properties"].as_object_mut(), properties) {
        own.extend(more);
    }
    format
}

/// The schema of `tool_choice`, for the document.
pub(crate) fn choice_schema() -> Value {
    json!({
        "anyOf": [{ "type": "string", "enum": ["auto", "none", "required"] }, { "type": "object" }, { "type": "null" }],
        "description": "Whether the first reply has to call a tool, and which.", "examples": ["auto"],
    })
}

/// The schema of `stop`, for the document.
pub(crate) fn stop_schema() -> Value {
    let text = json!({ "type": "string", "minLength": 1, "maxLength": LONGEST_STOP });
    json!({
        "anyOf": [text, { "type": "array", "maxItems": MOST_STOPS, "items": text }, { "type": "null" }],
        "description": "Texts at which a reply ends.", "examples": ["END"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(body: Value) -> Result<ReplyRules, Problem> {
        of_chat(&parameters::fields(body).unwrap())
    }

    #[test]
    fn rules_are_read_in_both_forms_of_the_protocol() {
        let schema = json!({"type": "object"});
        let output = Some(OutputFormat { name: "sum".into(), schema: Some(schema.clone()) });
        let rules = ReplyRules {
            output,
            stop: vec!["END".into()],
            first_call: Some(RequiredCall::Tool("look".into())),
            one_call: true,
        };
        let asked = json!({
            "response_format": {"type": "json_schema", "json_schema": {"name": "sum", "schema": schema, "strict": true}},
            "tool_choice": {"type": "function", "function": {"name": "look"}}, "parallel_tool_calls": false,
            "stop": "END",
        });
        assert_eq!(chat(asked), Ok(rules.clone()));
        let asked = json!({
            "text": {"format": {"type": "json_schema", "name": "sum", "schema": schema}},
            "tool_choice": {"type": "function", "name": "look"}, "parallel_tool_calls": false,
        });
        let read = of_response(&parameters::fields(asked).unwrap()).unwrap();
        assert_eq!(read, ReplyRules { stop: vec![], ..rules });
        assert_eq!(repeated(&read, true)["schema"], schema);
        let any =
            chat(json!({"response_format": {"type": "json_object"}, "tool_choice": "required"})).unwrap();
        assert_eq!((any.output.unwrap().schema, any.first_call), (None, Some(RequiredCall::Any)));
        for harmless in [
            json!({"response_format": {"type": "text"}, "tool_choice": "auto", "stop": [], "parallel_tool_calls": true}),
            json!({"tool_choice": "none", "stop": null}),
        ] {
            assert_eq!(chat(harmless), Ok(ReplyRules::default()));
        }
    }

    #[test]
    fn what_cannot_be_kept_to_is_refused_by_name() {
        for (body, code, param) in [
            (json!({"stop": ["a", "b", "c", "d", "e"]}), "invalid_value", "stop"),
            (json!({"stop": ""}), "invalid_value", "stop"),
            (json!({"stop": [1]}), "invalid_type", "stop"),
            (json!({"tool_choice": {"type": "custom", "name": "a"}}), "unsupported_value", "tool_choice"),
            (json!({"tool_choice": {"type": "allowed_tools"}}), "invalid_value", "tool_choice.mode"),
            (json!({"tool_choice": {"type": "function"}}), "missing_required_parameter", "tool_choice.name"),
            (json!({"response_format": {"type": "grammar"}}), "unsupported_value", "response_format.type"),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}}),
                "invalid_value",
                "response_format.json_schema.name",
            ),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}),
                "invalid_type",
                "response_format.json_schema.schema",
            ),
            (json!({"parallel_tool_calls": "no"}), "invalid_type", "parallel_tool_calls"),
        ] {
            super::super::check_refused(chat(body), code, param);
        }
    }
}
