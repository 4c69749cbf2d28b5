//! The schemas of request bodies, for the document. They name what is looked at; everything else may be
//! there.

use agent_core::words::MOST_IMAGES;
use serde_json::{Value, json};

use super::super::input::parameters::{OF_COMPLETIONS, OF_OUTPUT, STREAM, TEMPERATURE};
use super::super::input::{compaction, images, rules};
use super::super::models;
use super::super::run::conversation_state::{PREVIOUS, STORE};
use super::background::BACKGROUND;
use http_edge::openapi::schema_parts::{always, of, reference};
use http_edge::request::Field;
use http_edge::variant_b::bodies::CONVERSATION_ID;

/// The names of the bodies.
pub(crate) const CHAT: &str = "OpenAiChatRequest";
pub(crate) const RESPONSE: &str = "OpenAiResponseRequest";

/// An item that a client sends.
const ITEM: &str = "OpenAiInputItem";

/// What the forms of an item are called, in the order of [`item_forms`].
const ITEM_FORMS: [&str; 9] = [
    "OpenAiUserItem",
    "OpenAiMessageItem",
    "OpenAiFunctionCallItem",
    "OpenAiFunctionOutputItem",
    "OpenAiMcpCallItem",
    "OpenAiApprovalRequestItem",
    "OpenAiApprovalAnswerItem",
    "OpenAiReasoningItem",
    COMPACTION,
];

/// The item that stands for a conversation in fewer words.
pub(crate) const COMPACTION: &str = "OpenAiCompactionItem";

/// What the bodies with items refer to: an item, and each form that it may have, by a name of its own,
/// because generators of clients lose forms without one.
pub(crate) fn items() -> [(&'static str, Value); 10] {
    let [user, message, call, output, mcp_call, request, answer, thought, compaction] = item_forms();
    let forms = ITEM_FORMS.map(reference);
    let item = json!({ "description": "A message, or an item of an earlier response.", "anyOf": forms });
    let [a, b, c, d, e, f, g, h, i] = ITEM_FORMS;
    [
        (ITEM, item),
        (a, user),
        (b, message),
        (c, call),
        (d, output),
        (e, mcp_call),
        (f, request),
        (g, answer),
        (h, thought),
        (i, compaction),
    ]
}

/// A reference to an item that a client sends.
pub(crate) fn item_reference() -> Value {
    reference(ITEM)
}

/// The body of `POST /v1/chat/completions`.
pub(crate) fn chat() -> Value {
    let mut schema = json!({
        "type": "object", "required": ["model", "messages"], "description": "What the agent is asked.",
        "properties": {
            "model": model(),
            "messages": {
                "type": "array", "minItems": 1, "items": chat_message(), "examples": [[{ "role": "user", "content": "What is 6 * 7?" }]],
                "description": "The conversation. The newest message is what the agent answers; what the token budget has \
                                no room for is left out, the oldest turns first.",
            },
            "response_format": rules::format_schema(Some("json_schema")),
            "stop": rules::stop_schema(),
            "tool_choice": rules::choice_schema(),
        },
    });
    let [preferred, other] = OF_COMPLETIONS;
    add(&mut schema, [preferred, other, TEMPERATURE, STREAM, rules::PARALLEL]);
    schema
}

/// The body of `POST /v1/responses`.
pub(crate) fn response() -> Value {
    let mut schema = json!({
        "type": "object", "required": ["model", "input"], "description": "What the agent is asked.",
        "properties": {
            "model": model(),
            "input": input("A text, or the whole conversation."),
            "instructions": of(["string", "null"], "What the model is told after what the deployment tells it.", "Be brief."),
            "metadata": of(["object", "null"], "Repeated by the response.", json!({ "order": "4711" })),
            "text": {
                "type": ["object", "null"], "description": "The form of the answer.",
                "properties": { "format": rules::format_schema(None) }, "examples": [{ "format": { "type": "text" } }],
            },
            "tool_choice": rules::choice_schema(),
            "conversation": {
                "anyOf": [
                    CONVERSATION_ID.schema(), { "type": "null" },
                    { "type": "object", "required": ["id"], "properties": { "id": CONVERSATION_ID.about("Names it.").described() } },
                ],
                "description": "The kept conversation that this response is part of, or an object with its `id`.",
                "examples": ["trip-to-rome"],
            },
        },
    });
    add(&mut schema, [OF_OUTPUT, TEMPERATURE, STREAM, STORE, BACKGROUND, PREVIOUS, rules::PARALLEL]);
    schema
}

/// The body of `POST /v1/responses/compact`.
pub(crate) fn compact() -> Value {
    let mut schema = json!({
        "type": "object", "required": ["model"], "description": "What is put in fewer words.",
        "properties": {
            "model": model(),
            "input": input("A text, or the whole conversation. It may be absent beside `previous_response_id`."),
            "instructions": of(["string", "null"], "What the model is told beside, such as what matters.", "Names matter."),
        },
    });
    add(&mut schema, [PREVIOUS]);
    schema
}

fn input(description: &str) -> Value {
    json!({
        "anyOf": [{ "type": "string" }, { "type": "array", "minItems": 1, "items": item_reference() }],
        "description": description, "examples": ["What is 6 * 7?"],
    })
}

/// What has to be there depends on who says it.
fn chat_message() -> Value {
    let role = |roles: &[&str]| json!({ "type": "string", "enum": roles, "description": "Who says it.", "examples": [roles.last()] });
    let calls = json!({
        "type": ["array", "null"], "description": "The tools that were called. Their answers follow.",
        "items": {
            "type": "object", "required": ["id", "function"], "description": "A call.",
            "properties": {
                "id": of("string", "Names the call.", "call_1"),
                "function": {
                    "type": "object", "required": ["name", "arguments"], "description": "What was called.",
                    "properties": {
                        "name": of("string", "The function.", "look"),
                        "arguments": of("string", "JSON, as text.", "{}"),
                    },
                },
            },
        },
    });
    let text_if_any = json!({
        "anyOf": [content("text"), { "type": "null" }], "description": "A text, or none.", "examples": ["42"],
    });
    json!({ "description": "A message.", "anyOf": [
        {
            "type": "object", "required": ["role", "content"], "description": "What the model is asked.",
            "properties": { "role": role(&["user"]), "content": content_of_user("text", &images::chat_part()) },
        },
        {
            "type": "object", "required": ["role", "content"], "description": "What the model is told.",
            "properties": { "role": role(&["system", "developer"]), "content": content("text") },
        },
        {
            "type": "object", "required": ["role"], "description": "What the model said.",
            "properties": {
                "role": role(&["assistant"]), "content": text_if_any, "tool_calls": calls,
                "refusal": of(["string", "null"], "What it said in place of an answer.", "The reply is not JSON."),
            },
        },
        {
            "type": "object", "required": ["role", "content", "tool_call_id"], "description": "The answer to a call.",
            "properties": {
                "role": role(&["tool"]),
                "content": content("text"),
                "tool_call_id": of("string", "Which call it answers.", "call_1"),
            },
        },
    ] })
}

/// What has to be there depends on what it is.
fn item_forms() -> [Value; 9] {
    let kind = |kind: &str| always(kind, "What it is.");
    let text = |description: &str, example: &str| of("string", description, example);
    let (name, arguments) = (text("What was called.", "look"), text("JSON, as text.", "{}"));
    [
        message_item(&["user"], &content_of_user("input_text", &images::response_part())),
        message_item(&["system", "developer", "assistant"], &content("input_text")),
        json!({
            "type": "object", "required": ["type", "call_id", "name", "arguments"],
            "description": "The call of a function of the client.",
            "properties": {
                "type": kind("function_call"), "call_id": text("Names the call.", "call_1"), "name": name, "arguments": arguments,
            },
        }),
        json!({
            "type": "object", "required": ["type", "call_id", "output"], "description": "The answer to one.",
            "properties": {
                "type": kind("function_call_output"), "call_id": text("Which call it answers.", "call_1"),
                "output": content("input_text"),
            },
        }),
        json!({
            "type": "object", "required": ["type", "id", "name", "arguments"],
            "description": "A call of one of the agent's tools, with its answer.",
            "properties": {
                "type": kind("mcp_call"), "id": text("Names the call.", "mcp_1"), "name": name, "arguments": arguments,
                "output": of(["string", "null"], "What it returned.", "42"),
            },
        }),
        json!({
            "type": "object", "required": ["type", "id"],
            "description": "What the agent asked to approve. It is passed over: the answer to it says all.",
            "properties": { "type": kind("mcp_approval_request"), "id": text("Names the request.", "mcpr_01a2:37ddff8e-1.0_3_9f86d081") },
        }),
        json!({
            "type": "object", "required": ["type", "approval_request_id", "approve"],
            "description": "The answer to an approval request, with which its run goes on.",
            "properties": {
                "type": kind("mcp_approval_response"), "approval_request_id": text("Which request it answers.", "mcpr_01a2:37ddff8e-1.0_3_9f86d081"),
                "approve": of("boolean", "Whether the call may be made.", true),
                "reason": { "type": ["string", "null"], "maxLength": 1000, "description": "Why not, which the model is told.", "examples": ["too dear"] },
            },
        }),
        json!({
            "type": "object", "required": ["type"], "description": "What a model thought. It is passed over.",
            "properties": { "type": kind("reasoning") },
        }),
        compaction::schema(),
    ]
}

fn message_item(roles: &[&str], content: &Value) -> Value {
    json!({
        "type": "object", "required": ["role", "content"], "description": "A message.",
        "properties": {
            "type": {
                "type": ["string", "null"], "enum": ["message", null], "description": "What it is, if it says so.",
                "examples": ["message"],
            },
            "role": { "type": "string", "enum": roles, "examples": [roles.last()], "description": "Who says it." },
            "content": content,
        },
    })
}

/// Adds fields that are described where they are read.
fn add<const N: usize>(schema: &mut Value, fields: [Field; N]) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.extend(fields.map(|field| (field.name.to_owned(), field.described())));
    }
}

fn model() -> Value {
    always(models::AGENT, "The agent. Any other is a 404.")
}

fn content(kind: &str) -> Value {
    json!({
        "anyOf": [{ "type": "string" }, { "type": "array", "items": text_part(kind) }],
        "description": "A text, or parts that are texts.", "examples": ["What is 6 * 7?"],
    })
}

/// Content of a user's message, which may have images: a request may have so many that no list here has to
/// say it.
fn content_of_user(kind: &str, image: &Value) -> Value {
    json!({
        "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "anyOf": [text_part(kind), image], "description": "A text, or an image." } },
        ],
        "description": format!("A text, or parts that are texts and images. A request may have {MOST_IMAGES} images."),
        "examples": ["What is 6 * 7?"],
    })
}

fn text_part(kind: &str) -> Value {
    json!({
        "type": "object", "required": ["type", "text"], "description": "A part.",
        "properties": {
            "type": always(kind, "A text."), "text": of("string", "What it says.", "What is 6 * 7?"),
        },
    })
}
