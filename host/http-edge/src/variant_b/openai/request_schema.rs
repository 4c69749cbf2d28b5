//! The schemas of request bodies, for the document. They name what is looked at; everything else may be there.

use serde_json::{Value, json};

use super::super::conversations;
use super::models;

/// The body of `POST /v1/chat/completions`.
pub(super) fn chat() -> (&'static str, Value) {
    let message = json!({
        "type": "object", "required": ["role"], "description": "A message.",
        "properties": {
            "role": {
                "type": "string", "enum": ["system", "developer", "user", "assistant", "tool"], "examples": ["user"],
                "description": "Who says it.",
            },
            "content": content("text"),
        },
    });
    let mut schema = json!({
        "type": "object", "required": ["model", "messages"], "description": "What the agent is asked.",
        "properties": {
            "model": model(),
            "messages": {
                "type": "array", "minItems": 1, "items": message, "examples": [[{ "role": "user", "content": "What is 6 * 7?" }]],
                "description": "The conversation. The newest message is what the agent answers; what the token budget has \
                                no room for is left out, the oldest turns first.",
            },
            "max_completion_tokens": tokens(),
            "max_tokens": tokens(),
        },
    });
    add_common(&mut schema);
    ("OpenAiChatRequest", schema)
}

/// The body of `POST /v1/responses`.
pub(super) fn response() -> (&'static str, Value) {
    let item = json!({
        "type": "object", "description": "A message, or an item of an earlier response.",
        "properties": {
            "type": {
                "type": ["string", "null"], "description": "What it is: a message unless it says something else.",
                "examples": ["message"],
            },
            "role": {
                "type": "string", "enum": ["system", "developer", "user", "assistant"], "examples": ["user"],
                "description": "Who says it.",
            },
            "content": content("input_text"),
        },
    });
    let mut schema = json!({
        "type": "object", "required": ["model", "input"], "description": "What the agent is asked.",
        "properties": {
            "model": model(),
            "input": {
                "anyOf": [{ "type": "string" }, { "type": "array", "minItems": 1, "items": item }],
                "description": "A text, or the whole conversation.", "examples": ["What is 6 * 7?"],
            },
            "instructions": {
                "type": ["string", "null"], "description": "What the model is told after what the deployment tells it.",
                "examples": ["Be brief."],
            },
            "max_output_tokens": tokens(),
            "metadata": {
                "type": ["object", "null"], "description": "Repeated by the response.", "examples": [{ "order": "4711" }],
            },
            "store": {
                "type": ["boolean", "null"], "default": true, "examples": [true],
                "description": "Whether the response is kept, to be read and gone on from.",
            },
            "previous_response_id": {
                "type": ["string", "null"], "description": "The kept response that this one goes on from.",
                "examples": ["resp_01a204ec6206715fbb305322b42db99d"],
            },
            "conversation": {
                "anyOf": [
                    conversations::id_schema(), { "type": "null" },
                    { "type": "object", "required": ["id"], "properties": { "id": conversation_id() } },
                ],
                "description": "The kept conversation that this response is part of, or an object with its `id`.",
                "examples": ["trip-to-rome"],
            },
        },
    });
    add_common(&mut schema);
    ("OpenAiResponseRequest", schema)
}

fn add_common(schema: &mut Value) {
    let common = [
        (
            "temperature",
            json!({
                "type": ["number", "null"], "minimum": 0, "maximum": 2, "examples": [0],
                "description": "How freely the model chooses its words.",
            }),
        ),
        (
            "stream",
            json!({
                "type": ["boolean", "null"], "examples": [false], "description": "Whether the answer is a stream.",
            }),
        ),
    ];
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.extend(common.map(|(name, schema)| (name.to_owned(), schema)));
    }
}

fn model() -> Value {
    json!({
        "type": "string", "enum": [models::AGENT], "examples": [models::AGENT],
        "description": "The agent. Any other is a 404.",
    })
}

fn content(kind: &str) -> Value {
    let part = json!({
        "type": "object", "required": ["type", "text"], "description": "A part.",
        "properties": {
            "type": { "type": "string", "enum": [kind], "description": "A text.", "examples": [kind] },
            "text": { "type": "string", "description": "What it says.", "examples": ["What is 6 * 7?"] },
        },
    });
    json!({
        "anyOf": [{ "type": "string" }, { "type": "array", "items": part }],
        "description": "A text, or parts that are texts.", "examples": ["What is 6 * 7?"],
    })
}

fn conversation_id() -> Value {
    let mut schema = conversations::id_schema();
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), "Names it.".into());
    }
    schema
}

fn tokens() -> Value {
    json!({
        "type": ["integer", "null"], "minimum": 1, "examples": [1000],
        "description": "Most tokens that the model may write in one reply.",
    })
}
