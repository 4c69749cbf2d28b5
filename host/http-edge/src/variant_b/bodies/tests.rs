//! Which bodies are valid, and what is said of the others, to the letter of zod 3:
//! host/docs/interface/node-clients.md#validation-issues, a row each.

use std::fmt::Debug;

use proptest::prelude::*;

use super::*;
use crate::request::{Issues, read};

pub(in crate::variant_b) fn written<T: Debug>(read: Result<T, Issues>) -> Value {
    serde_json::to_value(read.unwrap_err().0).unwrap()
}

fn issues(body: Value) -> Value {
    written(read::<AgentRequest>(body))
}

fn agent(body: Value) -> AgentRequest {
    read(body).unwrap()
}

/// What is said of a field that is missing, or of one of another type.
pub(in crate::variant_b) fn wrong_type(expected: &str, received: &str, path: &Value) -> Value {
    let message = match received {
        "undefined" => "Required".to_owned(),
        received => format!("Expected {expected}, received {received}"),
    };
    json!({"code": "invalid_type", "expected": expected, "received": received, "path": path, "message": message})
}

/// What is said of a value beyond a bound, of the kind that its message begins with.
pub(in crate::variant_b) fn bound(code: &str, bound: u32, message: &str, path: &Value) -> Value {
    let kind = message.split(' ').next().unwrap().to_lowercase();
    let name = if code == "too_small" { "minimum" } else { "maximum" };
    json!({"code": code, name: bound, "type": kind, "origin": kind, "inclusive": true, "exact": false,
           "message": message, "path": path})
}

#[test]
fn the_keys_of_an_issue_stand_in_the_order_of_zod() {
    let written = |body| serde_json::to_string(&read::<AgentRequest>(body).unwrap_err().0).unwrap();
    assert_eq!(
        written(json!({})),
        r#"[{"code":"invalid_type","expected":"string","received":"undefined","path":["query"],"message":"Required"}]"#
    );
    assert_eq!(
        written(json!({"query": ""})),
        r#"[{"code":"too_small","minimum":1,"type":"string","origin":"string","inclusive":true,"exact":false,"message":"String must contain at least 1 character(s)","path":["query"]}]"#
    );
}

#[test]
fn a_body_is_an_object_with_a_query_of_1_to_1000_code_points() {
    for (body, received) in [
        (json!([]), "array"),
        (json!(null), "null"),
        (json!("x"), "string"),
        (json!(5), "number"),
        (json!(false), "boolean"),
    ] {
        let expected = json!([wrong_type("object", received, &json!([]))]);
        assert_eq!(issues(body.clone()), expected);
        assert_eq!(written(read::<QueryRequest>(body.clone())), expected);
        assert_eq!(written(read::<JobRequest>(body.clone())), expected);
        assert_eq!(written(read::<GatewayRequest>(body.clone())), expected);
        if !body.is_string() {
            let of_query = wrong_type("string", received, &json!(["query"]));
            assert_eq!(issues(json!({"query": body})), json!([of_query]));
        }
    }
    assert_eq!(issues(json!({"Query": "x"})), json!([wrong_type("string", "undefined", &json!(["query"]))]));
    let short = bound("too_small", 1, "String must contain at least 1 character(s)", &json!(["query"]));
    assert_eq!(issues(json!({"query": ""})), json!([short]));
    let long = bound("too_big", 1000, "String must contain at most 1000 character(s)", &json!(["query"]));
    for character in ["x", "é", "👋", " "] {
        assert_eq!(agent(json!({"query": character.repeat(1_000)})).query, character.repeat(1_000));
        assert_eq!(issues(json!({"query": character.repeat(1_001)})), json!([long]), "{character}");
    }
}

#[test]
fn options_are_an_object_of_numbers_within_their_ranges_or_absent() {
    let options = |options: Value| agent(json!({"query": "x", "options": options})).options.of_run();
    assert_eq!(agent(json!({"query": "x"})).options.of_run(), Options::default());
    for (given, tokens, temperature) in [
        (json!({}), None, None),
        (json!({"maxTokens": 100, "temperature": 0}), Some(100), Some(0.0)),
        (json!({"maxTokens": 10_000, "temperature": 2}), Some(10_000), Some(2.0)),
        (json!({"maxTokens": 150.5, "temperature": 0.7}), Some(150), Some(0.7)),
        (json!({"max_tokens": 1, "topP": 1, "n": []}), None, None),
    ] {
        let read = options(given.clone());
        assert_eq!((read.max_tokens, read.temperature), (tokens, temperature), "{given}");
    }
    let [of_options, of_tokens, of_temperature] =
        [json!(["options"]), json!(["options", "maxTokens"]), json!(["options", "temperature"])];
    let least = bound("too_small", 100, "Number must be greater than or equal to 100", &of_tokens);
    let most = bound("too_big", 10_000, "Number must be less than or equal to 10000", &of_tokens);
    let cold = bound("too_small", 0, "Number must be greater than or equal to 0", &of_temperature);
    let hot = bound("too_big", 2, "Number must be less than or equal to 2", &of_temperature);
    for (given, issue) in [
        (json!(null), wrong_type("object", "null", &of_options)),
        (json!([]), wrong_type("object", "array", &of_options)),
        (json!("x"), wrong_type("object", "string", &of_options)),
        (json!({"maxTokens": 99}), least.clone()),
        (json!({"maxTokens": 99.9}), least.clone()),
        (json!({"maxTokens": 0}), least.clone()),
        (json!({"maxTokens": -1e300}), least.clone()),
        (json!({"maxTokens": 10_001}), most.clone()),
        (json!({"maxTokens": 10_000.1}), most.clone()),
        (json!({"maxTokens": u64::MAX}), most),
        (json!({"maxTokens": "500"}), wrong_type("number", "string", &of_tokens)),
        (json!({"maxTokens": null}), wrong_type("number", "null", &of_tokens)),
        (json!({"maxTokens": [500]}), wrong_type("number", "array", &of_tokens)),
        (json!({"temperature": -0.1}), cold),
        (json!({"temperature": 2.1}), hot.clone()),
        (json!({"temperature": "1"}), wrong_type("number", "string", &of_temperature)),
    ] {
        assert_eq!(issues(json!({"query": "x", "options": given})), json!([issue]), "{given}");
    }
    // All at once, in the order of the fields.
    let all = json!({"options": {"tools": 1, "temperature": 9, "maxTokens": 5}, "query": 5});
    let of_query = wrong_type("string", "number", &json!(["query"]));
    let of_tools = wrong_type("array", "number", &json!(["options", "tools"]));
    assert_eq!(issues(all), json!([of_query, least, hot, of_tools]));
}

#[test]
fn tools_are_a_list_of_up_to_64_names() {
    let body = |tools: &Value| json!({"query": "x", "options": {"tools": tools}});
    let tools = |tools: &Value| agent(body(tools)).options.tools;
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(tools(&json!(["add", "", "add"])), list(&["add", "", "add"]));
    assert_eq!(tools(&json!([])), list(&[]));
    assert_eq!(tools(&json!(vec!["a"; 64])), list(&["a"; 64]));
    let path = json!(["options", "tools"]);
    let many = bound("too_big", 64, "Array must contain at most 64 element(s)", &path);
    let element =
        |index: usize, received: &str| wrong_type("string", received, &json!(["options", "tools", index]));
    for (wrong, expected) in [
        (json!(null), json!([wrong_type("array", "null", &path)])),
        (json!("add"), json!([wrong_type("array", "string", &path)])),
        (json!({}), json!([wrong_type("array", "object", &path)])),
        (json!(vec![5; 65]), json!([many])),
        (json!([5, "add", null]), json!([element(0, "number"), element(2, "null")])),
    ] {
        assert_eq!(issues(body(&wrong)), expected, "{wrong}");
    }
}

#[test]
fn a_history_is_a_list_of_messages_each_with_its_issues() {
    let body = |history: &Value| json!({"query": "x", "options": {"history": history}});
    let read = agent(body(&json!([
        {"role": "system", "content": "be kind", "name": "ignored"},
        {"role": "user", "content": "é".repeat(20_000)},
        {"role": "assistant", "content": "hello"},
    ])));
    let said = Message::Assistant { content: "hello".into(), tool_calls: vec![] };
    let told = Message::System { content: "be kind".into() };
    let asked = Message::User { content: "é".repeat(20_000).into() };
    assert_eq!(read.options.of_run().history, [told, asked, said]);
    let at = |path: &[Value]| Value::from([&[json!("options"), json!("history")], path].concat());
    let role = |index: usize, received: &str| {
        let message =
            format!("Invalid enum value. Expected 'user' | 'assistant' | 'system', received '{received}'");
        json!({"code": "invalid_enum_value", "received": received, "options": ["user", "assistant", "system"],
               "path": at(&[json!(index), json!("role")]), "message": message})
    };
    let long = bound(
        "too_big",
        20_000,
        "String must contain at most 20000 character(s)",
        &at(&[json!(0), json!("content")]),
    );
    let many = bound("too_big", 200, "Array must contain at most 200 element(s)", &at(&[]));
    let short = bound(
        "too_small",
        1,
        "String must contain at least 1 character(s)",
        &at(&[json!(3), json!("content")]),
    );
    for (wrong, expected) in [
        (json!("hi"), json!([wrong_type("array", "string", &at(&[]))])),
        (json!(vec![json!({"role": "user", "content": "a"}); 201]), json!([many])),
        (json!([{"role": "user", "content": "é".repeat(20_001)}]), json!([long])),
        (json!([{"role": "t".repeat(99), "content": "a"}]), json!([role(0, &"t".repeat(64))])),
        (
            json!([1, {"role": "tool", "content": 1}, {"role": "user", "content": "a"}, {"content": ""}]),
            json!([
                wrong_type("object", "number", &at(&[json!(0)])),
                role(1, "tool"),
                wrong_type("string", "number", &at(&[json!(1), json!("content")])),
                wrong_type("string", "undefined", &at(&[json!(3), json!("role")])),
                short,
            ]),
        ),
    ] {
        assert_eq!(issues(body(&wrong)), expected);
    }
}

fn no_options() -> AgentOptions {
    AgentOptions {
        max_tokens: None,
        temperature: None,
        tools: None,
        history: None,
        output_schema: None,
        conversation_id: None,
    }
}

#[test]
fn a_job_has_the_options_of_a_request() {
    let options = json!({"maxTokens": 100, "temperature": 1, "tools": ["add"], "conversationId": "trip",
                         "history": [{"role": "user", "content": "hi"}], "outputSchema": {"type": "object"}});
    let body = |options: &Value| json!({"query": "x", "options": options});
    let of_run: AgentRequest = read(body(&options)).unwrap();
    assert_eq!(read::<JobRequest>(body(&options)).unwrap().options, of_run.options);
    let wrong = json!({"maxTokens": 1, "tools": 1, "history": [{}]});
    assert_eq!(written(read::<JobRequest>(body(&wrong))), written(read::<AgentRequest>(body(&wrong))));
}

#[test]
fn a_job_has_a_query_of_any_length_but_none_and_a_webhook() {
    let (long, url) = ("x".repeat(50_000), "https://example.com/hook");
    let request = |webhook_url: Option<&str>| JobRequest {
        query: long.clone(),
        webhook_url: webhook_url.map(str::to_owned),
        options: no_options(),
    };
    assert_eq!(read(json!({"query": long})), Ok(request(None)));
    assert_eq!(read(json!({"query": long, "webhookUrl": url})), Ok(request(Some(url))));
    for wrong in [json!(1), json!(null), json!("x".repeat(2_049))] {
        assert!(read::<JobRequest>(json!({"query": long, "webhookUrl": wrong})).is_err());
    }
    assert!(read::<JobRequest>(json!({"query": ""})).is_err());
    assert!(read::<JobRequest>(json!({})).is_err());
}

#[test]
fn the_gateway_and_the_serverless_handler_take_a_query_of_any_length_but_none() {
    let body = |characters: usize| json!({"query": "x".repeat(characters)});
    assert!(read::<QueryRequest>(body(50_000)).is_ok() && read::<GatewayRequest>(body(50_000)).is_ok());
    assert!(read::<QueryRequest>(body(0)).is_err() && read::<GatewayRequest>(body(0)).is_err());
}

#[test]
fn a_conversation_is_named_by_a_short_plain_id_or_not_at_all() {
    let body = |id: Value| json!({"query": "x", "options": {"conversationId": id}});
    let ids = |id: Value| {
        let of_run = read::<AgentRequest>(body(id.clone())).map(|request| request.options.conversation_id);
        let of_job = read::<JobRequest>(body(id)).map(|request| request.options.conversation_id);
        assert_eq!(of_run, of_job);
        of_run.ok()
    };
    assert_eq!(ids(json!("trip-1")), Some(Some("trip-1".to_owned())));
    for wrong in
        [json!(""), json!("a b"), json!("é"), json!("-a"), json!(1), json!(null), json!("a".repeat(65))]
    {
        assert_eq!(ids(wrong.clone()), None, "{wrong}");
    }
}

#[test]
fn only_the_word_high_is_urgent() {
    let is_urgent = |body| read::<GatewayRequest>(body).unwrap().is_urgent();
    assert!(is_urgent(json!({"query": "x", "priority": "high"})));
    for priority in [json!("High"), json!("low"), json!(""), json!(null), json!(1), json!(["high"])] {
        assert!(!is_urgent(json!({"query": "x", "priority": priority})));
    }
    assert!(!is_urgent(json!({"query": "x"})));
    assert!(read::<GatewayRequest>(json!({"priority": "high"})).is_err());
}

#[test]
fn options_that_a_route_has_not_are_refused_by_name() {
    let options = json!({"tools": [], "history": null, "maxTokens": 100, "temperature": 1, "unheard": 1,
                         "conversationId": "trip"});
    let body = |options: &Value| json!({"query": "hi", "options": options});
    let refused = |name: &str| {
        let takers = "only POST /api/agent and POST /api/agent/async take this option";
        let message = format!("Unrecognized key '{name}': {takers}");
        json!({"code": "unrecognized_keys", "keys": [name], "path": ["options"], "message": message})
    };
    let all = json!(["maxTokens", "temperature", "tools", "history", "conversationId"].map(refused));
    assert_eq!(written(read::<QueryRequest>(body(&options))), all);
    assert_eq!(written(read::<GatewayRequest>(body(&options))), all);
    let alone = json!({"conversationId": null});
    assert_eq!(written(read::<QueryRequest>(body(&alone))), json!([refused("conversationId")]));
    // Of their options nothing else is looked at.
    for harmless in [json!({"unheard": 1}), json!({}), json!(null), json!([]), json!("tools")] {
        assert!(read::<QueryRequest>(body(&harmless)).is_ok(), "{harmless}");
        assert!(read::<GatewayRequest>(body(&harmless)).is_ok(), "{harmless}");
        let job: JobRequest = read(body(&harmless)).unwrap();
        assert_eq!(job.options, no_options(), "{harmless}");
    }
}

#[test]
fn the_log_learns_which_fields_and_not_what_is_in_them() {
    let body = json!({"query": {"zebra": 1}, "options": {"maxTokens": "zebra", "tools": ["zebra", 1]}});
    let issues = |body| read::<AgentRequest>(body).unwrap_err().to_string();
    let fields = "`query` `options.maxTokens` `options.tools.1`";
    assert_eq!(issues(body), format!("the request does not match its schema in: {fields}"));
    assert_eq!(issues(json!(["zebra"])), "the request does not match its schema in: the whole body");
}

/// Values that are right, nearly right and quite wrong.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-200i64..20_000).prop_map(Value::from),
        (-1.0..3.0).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
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

/// Whether a body fits, as the document has it and as the reader does. What fits is not refused for being
/// unreadable.
fn fits<T: Request + Debug>(body: &Value) -> (bool, bool) {
    let read = read::<T>(body.clone());
    (jsonschema::is_valid(&T::OBJECT.schema(), body), read.is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_document_and_the_readers_take_the_same_bodies(
        query in values(), options in values(), extra in values(), whole in values()
    ) {
        for body in [
            json!({ "query": query, "options": options }),
            json!({ "query": "q", "options": options, "priority": extra }),
            json!({ "query": query }),
            whole,
        ] {
            for (documented, read) in [
                fits::<AgentRequest>(&body),
                fits::<QueryRequest>(&body),
                fits::<JobRequest>(&body),
                fits::<GatewayRequest>(&body),
            ] {
                prop_assert_eq!(documented, read, "{}", &body);
            }
        }
    }
}
