//! The schemas of request bodies, for the document: what `schema.rs` takes, with its limits. A test holds the two against
//! each other.

use agent_core::words::MOST_CHOSEN_TOOLS;
use serde_json::{Value, json};

use super::conversations;
use super::schema::{
    HIGH, LONGEST_URL, MAX_TOKENS, MOST_CHARACTERS, OF_A_CONVERSATION, OF_A_REQUEST, TEMPERATURE,
};
use crate::history;

/// The body of `POST /api/agent`.
pub(super) fn agent_request() -> (&'static str, Value) {
    let [least_tokens, most_tokens] = MAX_TOKENS;
    let [coldest, hottest] = TEMPERATURE;
    let options = json!({
        "type": "object", "description": "Wishes for this run.",
        "properties": {
            "maxTokens": {
                "type": "number", "minimum": least_tokens, "maximum": most_tokens, "examples": [1000],
                "description": "Most tokens that the model may write in one reply. A fraction is cut off.",
            },
            "temperature": {
                "type": "number", "minimum": coldest, "maximum": hottest, "examples": [0],
                "description": "How freely the model chooses its words.",
            },
            "tools": {
                "type": "array", "maxItems": MOST_CHOSEN_TOOLS, "items": { "type": "string" },
                "description": "Names of the only tools that the run has. Without it the run has all that the caller may use.",
                "examples": [["calculate"]],
            },
            "history": history::schema(),
            "conversationId": conversation_id(),
        },
    });
    let schema = json!({
        "type": "object", "required": ["query"], "description": "What the agent is asked.",
        "properties": { "query": query(), "options": options },
    });
    ("AgentRequest", schema)
}

/// The body of `POST /api/serverless`.
pub(super) fn query_request() -> (&'static str, Value) {
    let schema = json!({
        "type": "object", "required": ["query"], "description": "What the agent is asked.",
        "properties": { "query": query(), "options": options_without_conversation() },
    });
    ("QueryRequest", schema)
}

/// The body of `POST /api/agent/async`.
pub(super) fn job_request() -> (&'static str, Value) {
    let schema = json!({
        "type": "object", "required": ["query"], "description": "What the agent is asked.",
        "properties": { "query": {
            "type": "string", "minLength": 1, "description": "The user's text. The body's limit bounds it.",
            "examples": ["What is 6 * 7?"],
        }, "webhookUrl": {
            "type": "string", "format": "uri", "maxLength": LONGEST_URL, "examples": ["https://example.com/hook"],
            "description": "Where the end of the job is sent (Standard Webhooks), if the service has a secret to sign it with.",
        }, "options": options_of_job() },
    });
    ("JobRequest", schema)
}

/// The body of `POST /api/gateway`.
pub(super) fn gateway_request() -> (&'static str, Value) {
    let schema = json!({
        "type": "object", "required": ["query"], "description": "What the agent is asked, and how urgent that is.",
        "properties": {
            "query": query(), "options": options_without_conversation(),
            // Without a type: any other value, of whatever kind, is not urgent.
            "priority": {
                "description": format!("`{HIGH}` for the dedicated cluster, if there is one. Anything else is worked here."),
                "examples": [HIGH],
            },
        },
    });
    ("GatewayRequest", schema)
}

/// Options without those that only `POST /api/agent` takes. Whatever is no object is not looked at.
fn options_of_job() -> Value {
    json!({
        "description": of_a_request(), "properties": { OF_A_CONVERSATION: conversation_id() },
        "not": { "anyOf": naming(&OF_A_REQUEST) }, "examples": [{ OF_A_CONVERSATION: "trip-to-rome" }],
    })
}

/// Options of routes that have no conversations: what any other route knows is refused.
fn options_without_conversation() -> Value {
    let description =
        format!("{} Only it and `POST /api/agent/async` take `{OF_A_CONVERSATION}`.", of_a_request());
    let refused = [&OF_A_REQUEST[..], &[OF_A_CONVERSATION]].concat();
    json!({
        "description": description, "properties": {}, "not": { "anyOf": naming(&refused) }, "examples": [{}],
    })
}

fn of_a_request() -> String {
    format!("Wishes for the run. Only `POST /api/agent` takes `{}`.", OF_A_REQUEST.join("`, `"))
}

/// Objects with a field of one of these names.
fn naming(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({ "type": "object", "required": [name] })).collect()
}

fn conversation_id() -> Value {
    let mut schema = conversations::id_schema();
    if let Value::Object(schema) = &mut schema {
        let description = "The kept conversation that the run is part of, in the namespace of the caller; the first run with \
            an id begins it. What was said in it stands in front of the run, before `history`, and the run is appended when it \
            ends well. One run at a time is part of a conversation: another one is refused with 409, a job waits.";
        schema.insert("description".to_owned(), description.into());
    }
    schema
}

fn query() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": MOST_CHARACTERS,
        "description": "The user's text. Characters are Unicode code points.", "examples": ["What is 6 * 7?"],
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::variant_b::schema::{read_agent_request, read_gateway_request, read_job_request, read_query};

    /// Values that are right, nearly right and quite wrong.
    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-200i64..20_000).prop_map(Value::from),
            (-1.0..3.0).prop_map(Value::from),
            "\\PC{0,3}".prop_map(Value::from),
            (998usize..1003).prop_map(|length| Value::from("é".repeat(length))),
            (62usize..67).prop_map(|length| json!(vec!["add"; length])),
            Just(json!(["add", 1])),
            Just(json!([])),
            Just(json!("user")),
            Just(json!([{"role": "user", "content": "é"}])),
            Just(json!([{"role": "tool", "content": ""}])),
            (198usize..203).prop_map(|length| json!(vec![json!({"role": "system", "content": "a"}); length])),
        ];
        let keys = prop::sample::select(vec![
            "query",
            "options",
            "priority",
            "maxTokens",
            "temperature",
            "tools",
            "webhookUrl",
            "conversationId",
            "history",
            "role",
            "content",
        ]);
        leaf.prop_recursive(2, 12, 4, move |inner| {
            prop::collection::btree_map(keys.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|fields| json!(fields))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn the_document_and_the_readers_take_the_same_bodies(
            query in values(), options in values(), extra in values(), whole in values()
        ) {
            let fits = |schema: &Value, body: &Value| jsonschema::is_valid(schema, body);
            for body in [
                json!({ "query": query, "options": options }),
                json!({ "query": "q", "options": options, "priority": extra }),
                json!({ "query": query }),
                whole,
            ] {
                prop_assert_eq!(fits(&agent_request().1, &body), read_agent_request(body.clone()).is_ok(), "{}", &body);
                prop_assert_eq!(fits(&query_request().1, &body), read_query(body.clone()).is_ok(), "{}", &body);
                prop_assert_eq!(fits(&job_request().1, &body), read_job_request(body.clone()).is_ok(), "{}", &body);
                prop_assert_eq!(fits(&gateway_request().1, &body), read_gateway_request(body.clone()).is_ok(), "{}", &body);
            }
        }
    }
}
