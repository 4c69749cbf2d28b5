//! The forms of the bodies of errors.

use serde_json::{Value, json};

use super::schema_parts::{of, reference};

/// `{"error": text}`.
pub(super) fn error() -> Value {
    json!({
        "type": "object", "required": ["error"], "description": "Why a request was refused, or what went wrong.",
        "properties": { "error": of("string", "A text for people.", "Invalid input") },
    })
}

/// `{"error": {"message", "type", "param", "code"}}`.
pub(super) fn openai_error() -> Value {
    json!({
        "type": "object", "required": ["error"], "description": "An error in OpenAI's form.",
        "properties": { "error": {
            "type": "object", "required": ["message", "type", "param", "code"], "description": "What went wrong.",
            "examples": [{ "message": "Missing required parameter: 'model'.", "type": "invalid_request_error", "param": "model", "code": "missing_required_parameter" }],
            "properties": {
                "message": of("string", "A text for people.", "Missing required parameter: 'model'."),
                "type": of("string", "What kind of error it is.", "invalid_request_error"),
                "param": of(["string", "null"], "Where in the request it is.", "model"),
                "code": of(["string", "null"], "Its name for programs.", "missing_required_parameter"),
            },
        } },
    })
}

/// `{"error": [issue, …]}`.
pub(super) fn validation() -> Value {
    json!({
        "type": "object", "required": ["error"], "description": "Everything that is wrong with a request.",
        "properties": { "error": {
            "type": "array", "minItems": 1, "description": "One issue for each mistake, in the order of the schema.",
            "items": reference("Issue"),
        } },
    })
}

/// An issue as zod 3 writes it, with zod 4's `origin` beside `type`.
pub(super) fn issue() -> Value {
    let text = |description: &str, example: &str| of("string", description, example);
    let bound = |description: &str, example: u32| json!({ "type": "integer", "minimum": 0, "description": description, "examples": [example] });
    let texts = |description: &str, example: &str| json!({ "type": "array", "items": { "type": "string" }, "description": description, "examples": [[example]] });
    json!({
        "type": "object", "required": ["code", "path", "message"],
        "description": "One thing that is wrong with a request. Which fields there are beside these three depends on `code`.",
        "properties": {
            "code": {
                "type": "string", "description": "What kind of mistake it is.", "examples": ["too_small"],
                "enum": ["invalid_type", "too_small", "too_big", "invalid_enum_value", "unrecognized_keys", "custom"],
            },
            "path": {
                "type": "array", "description": "Where it is: names of fields, and places in lists counted from 0.",
                "items": { "type": ["string", "integer"] }, "examples": [["options", "tools", 0]],
            },
            "message": text("The same for people.", "String must contain at least 1 character(s)"),
            "expected": text("`invalid_type`: the kind of value that belongs there.", "string"),
            "received": text("What was there instead.", "undefined"),
            "minimum": bound("`too_small`: the least that may be.", 1),
            "maximum": bound("`too_big`: the most that may be.", 1000),
            "type": text("What the bound is one of.", "string"),
            "origin": text("The same, as zod 4 calls it.", "string"),
            "inclusive": of("boolean", "Whether the bound itself may be.", true),
            "exact": of("boolean", "Whether nothing else may be.", false),
            "options": texts("`invalid_enum_value`: what may be there.", "waiting"),
            "keys": texts("`unrecognized_keys`: the key.", "thresold"),
        },
    })
}
