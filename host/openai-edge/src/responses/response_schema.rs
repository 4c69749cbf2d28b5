//! The schemas of a response and of the events of its stream, for the document. They are as strict as those
//! of the Open Responses specification: every field is there, those that say nothing are `null`. Calls of the
//! agent's own tools are items of OpenAI's type `mcp_call`, which that specification leaves to providers.

use serde_json::{Value, json};

use super::super::input::rules;
use super::super::models;
use http_edge::openapi::schema_parts::{Fields, add, fields, if_any, list, object, of, one_of, reference};

pub(crate) const RESPONSE: &str = "OpenAiResponse";
/// An item of its output.
pub(crate) const ITEM: &str = "OpenAiResponseItem";
/// What a message says.
const TEXT: &str = "OpenAiOutputText";
/// Why a tool of the agent failed.
const TOOL_ERROR: &str = "OpenAiToolError";

const RESPONSE_ID: &str = "resp_01a204ec6206715fbb305322b42db99d";
const ITEM_ID: &str = "msg_01a204ec6206715fbb305322b42db99d_0";

/// All of them by their names.
pub(crate) fn all() -> [(&'static str, Value); 5] {
    [
        (RESPONSE, response()),
        (ITEM, item()),
        (TEXT, output_text()),
        (TOOL_ERROR, tool_error()),
        ("OpenAiResponseEvent", event()),
    ]
}

fn response() -> Value {
    let statuses = ["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"];
    let mut response = object("A response: what the agent said and called.", Fields::new());
    for part in [
        fields([
            ("id", of("string", "Names it.", RESPONSE_ID)),
            ("object", one_of(&["response"], "Always the same.")),
            ("created_at", of("integer", "Seconds since 1970.", 1_700_000_000)),
            ("completed_at", of(["integer", "null"], "When it was completed, if it was.", 1_700_000_001)),
            ("status", one_of(&statuses, "How far it is, or how it ended.")),
            ("error", if_any("Why it failed.", error())),
            ("incomplete_details", if_any("Why it is incomplete.", incomplete())),
            ("model", one_of(&[models::AGENT], "The agent.")),
            ("output", list("What the agent said and called.", reference(ITEM))),
            ("usage", if_any("The tokens of what it shows of the run, once it has ended.", usage())),
        ]),
        fields([
            ("instructions", of(["string", "null"], "Those of the request.", "Be brief.")),
            ("metadata", of("object", "That of the request.", json!({ "order": "4711" }))),
            ("tools", list("The functions that the request offered.", function())),
            ("tool_choice", rules::choice_schema()),
            ("max_output_tokens", of(["integer", "null"], "That of the request.", 1000)),
            ("temperature", of("number", "That of the request, or 0.", 0)),
            ("store", of("boolean", "Whether it is kept.", true)),
            ("previous_response_id", of(["string", "null"], "What it goes on from.", RESPONSE_ID)),
            ("conversation", if_any("The conversation that it is part of.", conversation())),
        ]),
        constants(),
    ] {
        add(&mut response, part);
    }
    response
}

/// What is the same in all of them, for readers who expect it.
fn constants() -> Fields {
    let format =
        object("A format.", fields([("type", one_of(&rules::FORMATS, "Of the form of the answer."))]));
    let effort = of(["string", "null"], "The model's own.", Value::Null);
    let reasoning = fields([("effort", effort.clone()), ("summary", effort)]);
    let nobody = of(["string", "null"], "Not looked at.", Value::Null);
    fields([
        ("background", of("boolean", "Whether nobody waits for it.", false)),
        ("truncation", one_of(&["auto"], "The oldest turns are left out when there is no room.")),
        ("parallel_tool_calls", of("boolean", "Whether a reply may call several tools.", true)),
        ("max_tool_calls", of(["integer", "null"], "Not limited by requests.", Value::Null)),
        ("text", object("The form of what is said.", fields([("format", format)]))),
        ("reasoning", object("How the model thinks.", reasoning)),
        ("top_p", of("number", "Not looked at.", 1)),
        ("top_logprobs", of("integer", "Not looked at.", 0)),
        ("presence_penalty", of("number", "Not looked at.", 0)),
        ("frequency_penalty", of("number", "Not looked at.", 0)),
        ("service_tier", of("string", "Always the same.", "default")),
        ("safety_identifier", nobody.clone()),
        ("prompt_cache_key", nobody.clone()),
        ("user", nobody),
    ])
}

fn error() -> Value {
    object(
        "An error.",
        fields([
            ("code", of("string", "Its name for programs.", "server_error")),
            ("message", of("string", "A text for people.", "Internal server error")),
        ]),
    )
}

fn incomplete() -> Value {
    let reasons = ["max_output_tokens", "content_filter"];
    object(
        "What ended it.",
        fields([("reason", one_of(&reasons, "A limit of any kind, or the provider's filter."))]),
    )
}

fn conversation() -> Value {
    object("A conversation.", fields([("id", of("string", "Names it.", "trip-to-rome"))]))
}

pub(crate) fn usage() -> Value {
    let tokens = |description: &str| of("integer", description, 10);
    let input = fields([
        ("cached_tokens", tokens("What the provider had kept from earlier calls, as far as it says.")),
        ("cache_write_tokens", tokens("What the provider keeps for later calls, as far as it says.")),
    ]);
    object(
        "Tokens.",
        fields([
            ("input_tokens", tokens("What the model read.")),
            ("input_tokens_details", object("Parts of them.", input)),
            ("output_tokens", tokens("What the model wrote.")),
            (
                "output_tokens_details",
                object(
                    "Parts of them.",
                    fields([(
                        "reasoning_tokens",
                        tokens("Thoughts, as far as the provider counts them apart."),
                    )]),
                ),
            ),
            ("total_tokens", tokens("Both.")),
        ]),
    )
}

fn function() -> Value {
    object(
        "A function of the client.",
        fields([
            ("type", one_of(&["function"], "What it is.")),
            ("name", of("string", "Names it.", "look")),
            ("description", of(["string", "null"], "What it does.", "Looks.")),
            ("parameters", of(["object", "null"], "A JSON schema.", json!({ "type": "object" }))),
            ("strict", of("boolean", "Always false: arguments are not held against `parameters`.", false)),
        ]),
    )
}

/// Which fields there are depends on the type.
fn item() -> Value {
    let status = |words: &[&str]| one_of(words, "How far it is, or how it ended.");
    let named = |kind: &'static str, id: &str, more: Fields| {
        let mut item = object(
            "An item.",
            fields([("type", one_of(&[kind], "What it is.")), ("id", of("string", "Names it.", id))]),
        );
        add(&mut item, more);
        item
    };
    let name = of("string", "What was called.", "look");
    let arguments = of("string", "JSON, as text; empty when the item begins.", "{}");
    let message = fields([
        ("status", status(&["in_progress", "completed", "incomplete"])),
        ("role", one_of(&["assistant"], "Who says it.")),
        ("content", list("One text; none when the item begins.", reference(TEXT))),
    ]);
    let function_call = fields([
        ("status", status(&["in_progress", "completed"])),
        ("call_id", of("string", "Names the call for its output.", "call_1")),
        ("name", name.clone()),
        ("arguments", arguments.clone()),
    ]);
    let mcp_call = fields([
        ("status", status(&["in_progress", "completed", "incomplete", "failed"])),
        ("server_label", one_of(&[models::AGENT], "The agent, which calls its tools itself.")),
        ("name", name.clone()),
        ("arguments", arguments.clone()),
        ("output", of(["string", "null"], "What it returned, if it succeeded.", "42")),
        ("error", if_any("Why it failed.", reference(TOOL_ERROR))),
        ("approval_request_id", of(["string", "null"], "The request that the client approved.", Value::Null)),
    ]);
    let approval_request = fields([
        ("server_label", one_of(&[models::AGENT], "The agent, which asks before it calls the tool.")),
        ("name", name),
        ("arguments", arguments),
    ]);
    json!({ "description": "An item of a response's output.", "anyOf": [
        named("message", ITEM_ID, message),
        named("function_call", "fc_01a204ec6206715fbb305322b42db99d_0", function_call),
        named("mcp_call", "mcp_01a204ec6206715fbb305322b42db99d_0", mcp_call),
        named("mcp_approval_request", "mcpr_01a2:37ddff8e-1.0_3_9f86d081", approval_request),
    ] })
}

fn tool_error() -> Value {
    let part = fields([
        ("type", one_of(&["text"], "What it is.")),
        ("text", of("string", "A text for the model.", "1/0")),
    ]);
    let failure = fields([
        ("type", one_of(&["mcp_tool_execution_error"], "What it is.")),
        ("content", list("Why.", object("A part.", part))),
    ]);
    object("An error.", failure)
}

fn output_text() -> Value {
    object(
        "A text.",
        fields([
            ("type", one_of(&["output_text"], "What it is.")),
            ("text", of("string", "What it says.", "42")),
            ("annotations", empty()),
            ("logprobs", empty()),
        ]),
    )
}

/// Which fields there are depends on the type.
fn event() -> Value {
    let text = |description: &str| of("string", description, "42");
    let index = |description: &str| of("integer", description, 0);
    let in_item = || {
        fields([
            ("item_id", of("string", "The item.", ITEM_ID)),
            ("output_index", index("Where it is in the output.")),
        ])
    };
    let with = |mut inner: Fields, more: Fields| {
        inner.extend(more);
        inner
    };
    let in_content =
        |more: Fields| with(with(in_item(), fields([("content_index", index("Which part of it."))])), more);
    let more_of = |more: Fields| with(in_item(), more);
    let whole = fields([("response", explained("As it is now.", &reference(RESPONSE)))]);
    let item = fields([
        ("output_index", index("Where it is in the output.")),
        ("item", explained("As it is now.", &reference(ITEM))),
    ]);
    let part = in_content(fields([("part", explained("As it is now.", &reference(TEXT)))]));
    let delta = fields([("delta", text("What comes next."))]);
    let arguments = fields([("arguments", text("All of them."))]);
    let named = fields([("name", of("string", "What is called.", "look"))]);
    let of_text = |name: &str, description: &str| {
        in_content(fields([(name, text(description)), ("logprobs", empty())]))
    };
    let variants: [(&[&str], Fields); 10] = [
        (&["response.created", "response.queued", "response.in_progress"], whole.clone()),
        (&["response.completed", "response.incomplete", "response.failed"], whole),
        (&["response.output_item.added", "response.output_item.done"], item),
        (&["response.content_part.added", "response.content_part.done"], part),
        (&["response.output_text.delta"], of_text("delta", "What comes next.")),
        (&["response.output_text.done"], of_text("text", "All of it.")),
        (&["response.function_call_arguments.delta", "response.mcp_call_arguments.delta"], more_of(delta)),
        (&["response.function_call_arguments.done"], more_of(with(named, arguments.clone()))),
        (&["response.mcp_call_arguments.done"], more_of(arguments)),
        (
            &["response.mcp_call.in_progress", "response.mcp_call.completed", "response.mcp_call.failed"],
            in_item(),
        ),
    ];
    let numbered = |(types, more): (&[&str], Fields)| {
        let head = [
            ("type", one_of(types, "What happened.")),
            ("sequence_number", index("Its place in the stream.")),
        ];
        object("An event.", with(fields(head), more))
    };
    json!({
        "description": "An event of a response's stream, which ends with `data: [DONE]`.",
        "anyOf": variants.map(numbered),
    })
}

fn empty() -> Value {
    json!({ "type": "array", "description": "Always empty.", "items": {}, "maxItems": 0 })
}

fn explained(description: &str, reference: &Value) -> Value {
    json!({ "description": description, "$ref": reference["$ref"] })
}
