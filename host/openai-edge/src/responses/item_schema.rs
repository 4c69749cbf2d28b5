//! The schemas of items of kept conversations and of lists of them, and of the bodies that begin and extend a
//! conversation, for the document.

use serde_json::{Value, json};

use super::{request_schema, response_schema};
use http_edge::openapi::Operation;
use http_edge::openapi::schema_parts::{fields, list, object, of, one_of, reference};

/// Most items of one request, as OpenAI has it.
pub(crate) const MOST_ITEMS: usize = 20;

/// An item that is kept.
pub(crate) const ITEM: &str = "OpenAiItem";
/// A page of kept items.
pub(crate) const LIST: &str = "OpenAiItemList";
/// What begins, changes and extends a conversation.
pub(crate) const CREATE: &str = "OpenAiConversationRequest";
pub(crate) const UPDATE: &str = "OpenAiConversationUpdate";
pub(crate) const ADD: &str = "OpenAiItemsRequest";

const ITEM_ID: &str = "msg_01a204ec6206715fbb305322b42db99d";

/// An operation whose answer has items in it.
pub(crate) fn define(operation: Operation) -> Operation {
    operation.defines(response_schema::all()).defines(items_of_lists()).defines([(LIST, page())])
}

fn page() -> Value {
    object(
        "A page of items.",
        fields([
            ("object", one_of(&["list"], "Always the same.")),
            ("data", list("The items.", reference(ITEM))),
            ("first_id", of("string", "The first of them; empty when there is none.", ITEM_ID)),
            ("last_id", of("string", "The last of them: `after` of the next page.", ITEM_ID)),
            ("has_more", of("boolean", "Whether there is another page.", false)),
        ]),
    )
}

/// What the forms of a kept item are called beside those of a response's items.
const USER_FORM: &str = "OpenAiKeptUserItem";
const OUTPUT_FORM: &str = "OpenAiKeptOutputItem";

/// An item, whose fields depend on its type, and the forms that are its own.
pub(crate) fn items_of_lists() -> [(&'static str, Value); 3] {
    let head = |kind: &str, id: &str| {
        [
            ("type", one_of(&[kind], "What it is.")),
            ("id", of("string", "Names it.", id)),
            ("status", one_of(&["completed"], "Always the same.")),
        ]
    };
    let text = fields([
        ("type", one_of(&["input_text"], "What it is.")),
        ("text", of("string", "What it says.", "What is 6 * 7?")),
    ]);
    let image = fields([
        ("type", one_of(&["input_image"], "What it is.")),
        ("image_url", of("string", "The image, or where it is.", "https://example.com/cat.png")),
        ("detail", one_of(&["auto", "low", "high"], "How closely the model is to look.")),
    ]);
    let part = json!({
        "description": "A text, or an image.", "anyOf": [object("A text.", text), object("An image.", image)],
    });
    let mut message = fields(head("message", ITEM_ID));
    message.extend(fields([
        ("role", one_of(&["user"], "Who says it.")),
        ("content", list("What is said.", part)),
    ]));
    let mut output = fields(head("function_call_output", "fco_01a204ec6206715fbb305322b42db99d"));
    output.extend(fields([
        ("call_id", of("string", "Which call it answers.", "call_1")),
        ("output", of("string", "The answer.", "a cat")),
    ]));
    let forms = [USER_FORM, OUTPUT_FORM, response_schema::ITEM].map(reference);
    [
        (ITEM, json!({ "description": "An item of a conversation.", "anyOf": forms })),
        (USER_FORM, object("What the user said.", message)),
        (OUTPUT_FORM, object("The answer to the call of a function.", output)),
    ]
}

/// The body of `POST /v1/conversations`.
pub(crate) fn create() -> Value {
    json!({
        "type": "object", "description": "What a conversation begins with.",
        "properties": { "items": items(&json!(["array", "null"])), "metadata": metadata() },
    })
}

/// The body of `POST /v1/conversations/{conversation_id}`.
pub(crate) fn update() -> Value {
    json!({
        "type": "object", "required": ["metadata"], "description": "What is attached to it from now on.",
        "properties": { "metadata": metadata() },
    })
}

/// The body of `POST /v1/conversations/{conversation_id}/items`.
pub(crate) fn add() -> Value {
    json!({
        "type": "object", "required": ["items"], "description": "What is added.",
        "properties": { "items": items(&json!("array")) },
    })
}

fn items(kind: &Value) -> Value {
    json!({
        "type": kind, "items": request_schema::item_reference(), "maxItems": MOST_ITEMS,
        "description": "What was said. A conversation keeps no instructions.",
        "examples": [[{ "role": "user", "content": "I am Ada." }]],
    })
}

fn metadata() -> Value {
    json!({
        "type": ["object", "null"], "maxProperties": 16,
        "additionalProperties": { "type": "string", "maxLength": 512 },
        "description": "Up to 16 names of up to 64 characters, with a text each.", "examples": [{ "order": "4711" }],
    })
}
