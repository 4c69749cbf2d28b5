//! Which bodies are valid, and what is said of the others:
//! host/docs/interface/node-clients.md#validation-issues, a row each.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn issues(body: Value) -> Value {
    serde_json::to_value(read_agent_request(body).unwrap_err().0).unwrap()
}

fn wrong_type(expected: &str, received: &str, path: &[&str]) -> Value {
    let message = format!("Expected {expected}, received {received}");
    json!({"code": "invalid_type", "expected": expected, "received": received, "path": path, "message": message})
}

fn bound(code: &str, (name, bound): (&str, u32), kind: &str, message: &str, path: &[&str]) -> Value {
    json!({"code": code, name: bound, "type": kind, "origin": kind, "inclusive": true, "exact": false,
           "message": message, "path": path})
}

#[test]
fn the_keys_of_an_issue_stand_in_the_order_of_zod() {
    let written = |body| serde_json::to_string(&read_agent_request(body).unwrap_err().0).unwrap();
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
fn a_query_is_a_string() {
    let required = json!({"code": "invalid_type", "expected": "string", "received": "undefined",
                          "path": ["query"], "message": "Required"});
    assert_eq!(issues(json!({})), json!([required]));
    assert_eq!(issues(json!({"Query": "x"})), json!([required]));
    for (query, received) in [
        (json!(5), "number"),
        (json!(null), "null"),
        (json!(true), "boolean"),
        (json!(["x"]), "array"),
        (json!({"x": 1}), "object"),
    ] {
        assert_eq!(issues(json!({"query": query})), json!([wrong_type("string", received, &["query"])]));
    }
}

#[test]
fn a_query_has_1_to_1000_code_points() {
    let message = "String must contain at least 1 character(s)";
    let short = bound("too_small", ("minimum", 1), "string", message, &["query"]);
    assert_eq!(issues(json!({"query": ""})), json!([short]));
    let message = "String must contain at most 1000 character(s)";
    let long = bound("too_big", ("maximum", 1000), "string", message, &["query"]);
    for character in ["x", "é", "👋"] {
        assert!(read_agent_request(json!({"query": character.repeat(1_000)})).is_ok(), "{character}");
        assert_eq!(issues(json!({"query": character.repeat(1_001)})), json!([long]), "{character}");
    }
    assert!(read_agent_request(json!({"query": " "})).is_ok(), "blanks are characters");
}

#[test]
fn a_body_is_an_object() {
    for (body, received) in [
        (json!([]), "array"),
        (json!(null), "null"),
        (json!("x"), "string"),
        (json!(5), "number"),
        (json!(false), "boolean"),
    ] {
        let expected = json!([wrong_type("object", received, &[])]);
        assert_eq!(issues(body.clone()), expected);
        assert_eq!(serde_json::to_value(read_query(body.clone()).unwrap_err().0).unwrap(), expected);
        assert_eq!(serde_json::to_value(read_job_request(body.clone()).unwrap_err().0).unwrap(), expected);
        assert_eq!(serde_json::to_value(read_gateway_request(body).unwrap_err().0).unwrap(), expected);
    }
}

#[test]
fn options_are_an_object_or_absent() {
    for (options, received) in [(json!(null), "null"), (json!([]), "array"), (json!("x"), "string")] {
        let expected = json!([wrong_type("object", received, &["options"])]);
        assert_eq!(issues(json!({"query": "x", "options": options})), expected);
    }
    let options = |body| read_agent_request(body).unwrap().options;
    assert_eq!(options(json!({"query": "x"})), Options::default());
    assert_eq!(options(json!({"query": "x", "options": {}})), Options::default());
}

#[test]
fn options_are_numbers_within_their_ranges() {
    let options = |options: Value| {
        let options = read_agent_request(json!({"query": "x", "options": options})).unwrap().options;
        (options.max_tokens, options.temperature)
    };
    assert_eq!(options(json!({"maxTokens": 100, "temperature": 0})), (Some(100), Some(0.0)));
    assert_eq!(options(json!({"maxTokens": 10_000, "temperature": 2})), (Some(10_000), Some(2.0)));
    assert_eq!(options(json!({"maxTokens": 150.5, "temperature": 0.7})), (Some(150), Some(0.7)));
    assert_eq!(options(json!({"max_tokens": 1, "topP": 1})), (None, None));

    let of = |options: Value| issues(json!({"query": "x", "options": options}));
    let path: &[&str] = &["options", "maxTokens"];
    let least = "Number must be greater than or equal to 100";
    let most = "Number must be less than or equal to 10000";
    for tokens in [json!(99), json!(99.9), json!(0), json!(-1e300)] {
        let expected = bound("too_small", ("minimum", 100), "number", least, path);
        assert_eq!(of(json!({"maxTokens": tokens})), json!([expected]));
    }
    for tokens in [json!(10_001), json!(10_000.1), json!(u64::MAX)] {
        let expected = bound("too_big", ("maximum", 10_000), "number", most, path);
        assert_eq!(of(json!({"maxTokens": tokens})), json!([expected]));
    }
    for (tokens, received) in [(json!("500"), "string"), (json!(null), "null"), (json!([500]), "array")] {
        let expected = json!([wrong_type("number", received, path)]);
        assert_eq!(of(json!({"maxTokens": tokens})), expected);
    }
    let path: &[&str] = &["options", "temperature"];
    let (least, most) =
        ("Number must be greater than or equal to 0", "Number must be less than or equal to 2");
    let cold = bound("too_small", ("minimum", 0), "number", least, path);
    let hot = bound("too_big", ("maximum", 2), "number", most, path);
    assert_eq!(of(json!({"temperature": -0.1})), json!([cold]));
    assert_eq!(of(json!({"temperature": 2.1})), json!([hot]));
    assert_eq!(of(json!({"temperature": "1"})), json!([wrong_type("number", "string", path)]));
}

#[test]
fn tools_are_a_list_of_up_to_64_names() {
    let tools = |tools: Value| {
        read_agent_request(json!({"query": "x", "options": { "tools": tools }})).unwrap().options.tools
    };
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(tools(json!(["add", "", "add"])), list(&["add", "", "add"]));
    assert_eq!(tools(json!([])), list(&[]));
    assert_eq!(tools(json!(vec!["a"; 64])), list(&["a"; 64]));

    let of = |tools: Value| issues(json!({"query": "x", "options": { "tools": tools }}));
    let path: &[&str] = &["options", "tools"];
    for (tools, received) in [(json!(null), "null"), (json!("add"), "string"), (json!({}), "object")] {
        assert_eq!(of(tools), json!([wrong_type("array", received, path)]));
    }
    let message = "Array must contain at most 64 element(s)";
    let many = bound("too_big", ("maximum", 64), "array", message, path);
    assert_eq!(of(json!(vec![5; 65])), json!([many]));
    let element = |index: usize, received: &str| {
        let mut issue = wrong_type("string", received, path);
        issue["path"].as_array_mut().unwrap().push(index.into());
        issue
    };
    assert_eq!(of(json!([5, "add", null])), json!([element(0, "number"), element(2, "null")]));
}

#[test]
fn all_issues_are_said_at_once_in_the_order_of_the_schema() {
    let body = json!({"options": {"tools": 1, "temperature": 9, "maxTokens": 5}, "query": 5});
    let least = "Number must be greater than or equal to 100";
    let most = "Number must be less than or equal to 2";
    assert_eq!(
        issues(body),
        json!([
            wrong_type("string", "number", &["query"]),
            bound("too_small", ("minimum", 100), "number", least, &["options", "maxTokens"]),
            bound("too_big", ("maximum", 2), "number", most, &["options", "temperature"]),
            wrong_type("array", "number", &["options", "tools"]),
        ])
    );
}

#[test]
fn keys_that_nobody_asked_for_are_ignored() {
    let request = read_agent_request(json!({"stream": true, "query": "x", "options": {"n": []}})).unwrap();
    assert_eq!(
        request,
        AgentRequest { query: "x".into(), options: Options::default(), conversation_id: None }
    );
}

#[test]
fn the_query_of_a_job_may_be_long_but_not_empty() {
    let long = "x".repeat(50_000);
    let request = |webhook_url: Option<&str>| JobRequest {
        query: long.clone(),
        webhook_url: webhook_url.map(str::to_owned),
        conversation_id: None,
    };
    assert_eq!(read_job_request(json!({"query": long})).unwrap(), request(None));
    let url = "https://example.com/hook";
    assert_eq!(read_job_request(json!({"query": long, "webhookUrl": url})).unwrap(), request(Some(url)));
    for wrong in [json!(1), json!(null), json!("x".repeat(2_049))] {
        assert!(read_job_request(json!({"query": long, "webhookUrl": wrong})).is_err());
    }
    assert!(read_job_request(json!({"query": ""})).is_err());
    assert!(read_job_request(json!({})).is_err());
}

#[test]
fn a_conversation_is_named_by_a_short_plain_id_or_not_at_all() {
    let body = |id: Value| json!({"query": "x", "options": {"conversationId": id}});
    let ids = |id: Value| {
        let of_run = read_agent_request(body(id.clone())).map(|request| request.conversation_id);
        let of_job = read_job_request(body(id)).map(|request| request.conversation_id);
        assert_eq!(of_run, of_job);
        of_run.ok()
    };
    assert_eq!(ids(json!("trip-1")), Some(Some("trip-1".to_owned())));
    for wrong in
        [json!(""), json!("a b"), json!("é"), json!("-a"), json!(1), json!(null), json!("a".repeat(65))]
    {
        assert_eq!(ids(wrong.clone()), None, "{wrong}");
    }
    // Of a job's options nothing else is looked at.
    for options in [json!(null), json!("x"), json!({"unheardOf": "many"})] {
        assert_eq!(
            read_job_request(json!({"query": "x", "options": options})).unwrap().conversation_id,
            None
        );
    }
}

#[test]
fn only_the_word_high_is_urgent() {
    let is_urgent = |body| read_gateway_request(body).unwrap().is_urgent;
    assert!(is_urgent(json!({"query": "x", "priority": "high"})));
    for priority in [json!("High"), json!("low"), json!(""), json!(null), json!(1), json!(["high"])] {
        assert!(!is_urgent(json!({"query": "x", "priority": priority})));
    }
    assert!(!is_urgent(json!({"query": "x"})));
    assert!(read_gateway_request(json!({"priority": "high"})).is_err());
}

#[test]
fn the_log_learns_which_fields_and_not_what_is_in_them() {
    let body = json!({"query": {"zebra": 1}, "options": {"maxTokens": "zebra", "tools": ["zebra", 1]}});
    let issues = read_agent_request(body).unwrap_err().to_string();
    let fields = "`query` `options.maxTokens` `options.tools.1`";
    assert_eq!(issues, format!("the request does not match its schema in: {fields}"));
    let issues = read_agent_request(json!(["zebra"])).unwrap_err().to_string();
    assert_eq!(issues, "the request does not match its schema in: the whole body");
}

/// Anything that is JSON, a few levels deep.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-5.0..12_000.0).prop_map(Value::from),
        ".{0,5}".prop_map(Value::from),
        (990..1_010usize).prop_map(|length| "ä".repeat(length).into()),
    ];
    let key = prop_oneof![
        Just("query"),
        Just("options"),
        Just("maxTokens"),
        Just("temperature"),
        Just("tools"),
        Just("x")
    ];
    leaf.prop_recursive(3, 20, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Requests that are nearly valid.
fn requests() -> impl Strategy<Value = Value> {
    let optional = |strategy| prop_oneof![Just(None), prop::strategy::Strategy::prop_map(strategy, Some)];
    let tools = prop_oneof![values(), prop::collection::vec(".{0,3}", 0..70).prop_map(Value::from)];
    let fields = (
        optional(values().boxed()),
        optional(values().boxed()),
        optional(values().boxed()),
        optional(tools.boxed()),
    );
    fields.prop_map(|(query, max_tokens, temperature, tools)| {
        let fields = |pairs: Vec<(&str, Option<Value>)>| -> Value {
            let given = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
            Value::Object(given.collect())
        };
        let options = fields(vec![("maxTokens", max_tokens), ("temperature", temperature), ("tools", tools)]);
        fields(vec![("query", query), ("options", Some(options))])
    })
}

/// The rules once more, in other words.
fn is_valid(body: &Value) -> bool {
    let within = |value: Option<&Value>, least: f64, most: f64| {
        value.is_none_or(|value| value.as_f64().is_some_and(|number| (least..=most).contains(&number)))
    };
    let Some(fields) = body.as_object() else { return false };
    let are_names = |tools: Option<&Value>| {
        let is_list = |list: &Vec<Value>| list.len() <= 64 && list.iter().all(Value::is_string);
        tools.is_none_or(|tools| tools.as_array().is_some_and(is_list))
    };
    let query = fields.get("query").and_then(Value::as_str);
    let options = fields.get("options");
    query.is_some_and(|query| (1..=1_000).contains(&query.chars().count()))
        && options.is_none_or(|options| {
            options.is_object()
                && within(options.get("maxTokens"), 100.0, 10_000.0)
                && within(options.get("temperature"), 0.0, 2.0)
                && are_names(options.get("tools"))
        })
}

proptest! {
    #[test]
    fn a_body_is_valid_if_and_only_if_the_rules_say_so(body in prop_oneof![values(), requests()]) {
        match read_agent_request(body.clone()) {
            Ok(request) => {
                prop_assert!(is_valid(&body));
                prop_assert_eq!(request.query, body["query"].as_str().unwrap());
                prop_assert!(request.options.max_tokens.is_none_or(|tokens| (100..=10_000).contains(&tokens)));
            }
            Err(issues) => {
                prop_assert!(!is_valid(&body));
                // One for each field, and one for each of the tools.
                prop_assert!((1..=3 + 64).contains(&issues.0.len()), "{}", issues);
            }
        }
        let _any = (read_query(body.clone()), read_job_request(body.clone()), read_gateway_request(body));
    }
}

#[test]
fn options_that_a_route_has_not_are_refused_by_name() {
    let options = json!({"tools": [], "history": null, "maxTokens": 100, "temperature": 1, "unheard": 1,
                         "conversationId": "trip"});
    let body = |options: Value| json!({"query": "hi", "options": options});
    let refused = |name: &str| {
        let message = format!("Unrecognized key '{name}': only POST /api/agent takes this option");
        json!({"code": "unrecognized_keys", "keys": [name], "path": ["options"], "message": message})
    };
    let mut all = json!(["maxTokens", "temperature", "tools", "history"].map(refused));
    let written = |issues: Issues| serde_json::to_value(issues.0).unwrap();
    assert_eq!(written(read_job_request(body(options.clone())).unwrap_err()), all);
    let takers = "only POST /api/agent and POST /api/agent/async take this option";
    let message = format!("Unrecognized key 'conversationId': {takers}");
    let conversation = json!({"code": "unrecognized_keys", "keys": ["conversationId"], "path": ["options"], "message": message});
    all.as_array_mut().unwrap().push(conversation.clone());
    assert_eq!(written(read_query(body(options.clone())).unwrap_err()), all);
    assert_eq!(written(read_gateway_request(body(options)).unwrap_err()), all);
    let alone = json!({"conversationId": null});
    assert_eq!(written(read_query(body(alone)).unwrap_err()), json!([conversation]));
    for harmless in [json!({"unheard": 1}), json!({}), json!(null), json!([]), json!("tools")] {
        assert!(read_query(body(harmless.clone())).is_ok(), "{harmless}");
        assert!(read_job_request(body(harmless.clone())).is_ok(), "{harmless}");
        assert!(read_gateway_request(body(harmless.clone())).is_ok(), "{harmless}");
    }
    let job = read_job_request(body(json!({"conversationId": "trip"}))).unwrap();
    assert_eq!(job.conversation_id.as_deref(), Some("trip"));
}
