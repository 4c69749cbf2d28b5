//! `/mcp`: the tools for clients that speak the Model Context Protocol. What its official clients make of it
//! is an acceptance test; here are the protocol's rules about HTTP, each with who breaks it.

use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{EchoTools, SwappedTools};
use axum::body::Body;
use futures::StreamExt as _;
use http::{Request, StatusCode};
use http_edge::{Hosts, Origins};
use insta::assert_snapshot;
use run_service::direct_calls::DirectCalls;
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::ServiceExt as _;

use crate::harness::{Answer, Answers, Fakes, b, bearer, request, token, with, with_token};

const BOTH: &str = "application/json, text/event-stream";

fn serving(tools: EchoTools) -> (Fakes, Arc<SwappedTools>) {
    let tools = Arc::new(SwappedTools::new(tools));
    let calls = DirectCalls::new(tools.clone(), Duration::from_secs(30));
    (Fakes::configured(Answers, |edge| b(edge).tool_calls = calls), tools)
}

pub(super) fn message(body: &Value) -> Request<Body> {
    posted(body.to_string())
}

fn posted(body: impl Into<Body>) -> Request<Body> {
    let request = with(request("POST", "/mcp", body), "accept", BOTH);
    with(request, "content-type", "application/json")
}

pub(super) fn asked(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn call(id: u64, name: &str) -> Value {
    asked(id, "tools/call", &json!({ "name": name, "arguments": { "a": 1 } }))
}

fn initialize(version: &str) -> Value {
    let client = json!({ "name": "test", "version": "0" });
    asked(1, "initialize", &json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client }))
}

/// As a request of 2026-07-28 has it: each stands for itself.
fn of_its_own(body: Value) -> Request<Body> {
    of_client(body, &json!({}))
}

/// A request of 2026-07-28 by a client that can do this.
pub(super) fn of_client(mut body: Value, capabilities: &Value) -> Request<Body> {
    body["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" },
    });
    let method = body["method"].as_str().unwrap().to_owned();
    let request = with(message(&body), "mcp-protocol-version", "2026-07-28");
    let request = with(request, "mcp-method", &method);
    let params = &body["params"];
    match params["name"].as_str().or(params["taskId"].as_str()) {
        Some(name) => with(request, "mcp-name", name),
        None => request,
    }
}

async fn send(fakes: &Fakes, request: Request<Body>) -> Answer {
    fakes.service.send(bearer("u1", request)).await
}

#[tokio::test]
async fn each_version_is_agreed_on_or_the_newest_that_has_a_handshake() {
    let (fakes, _) = serving(EchoTools::new(&[]));
    for (asked, agreed) in [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("tomorrow", "2025-11-25"),
    ] {
        let answer = send(&fakes, message(&initialize(asked))).await;
        let result = &answer.json()["result"];
        assert_eq!((answer.status, &result["protocolVersion"]), (StatusCode::OK, &json!(agreed)), "{asked}");
        assert_eq!(result["capabilities"], json!({ "tools": { "listChanged": true } }), "{asked}");
        assert_eq!(result["serverInfo"]["name"], "agent-host");
        let session = answer.header("mcp-session-id").unwrap_or_default();
        assert_eq!(session.len(), 36, "{asked}: {session}");
    }
    let found = send(&fakes, of_its_own(asked(1, "server/discover", &json!({})))).await;
    let versions = &found.json()["result"]["supportedVersions"];
    assert_eq!(versions, &json!(["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]), "{found}");
    assert_eq!(found.header("mcp-session-id"), None);
}

#[tokio::test]
async fn progress_is_told_to_whoever_names_a_token() {
    let tools = EchoTools::new(&["add"]).reporting(&[("half", Some(0.5)), ("back", Some(0.25))]);
    let (fakes, _) = serving(tools);
    let plain = send(&fakes, message(&call(1, "add"))).await;
    assert_eq!((plain.status, &plain.json()["id"]), (StatusCode::OK, &json!(1)), "{plain}");
    for token in [json!("p1"), json!(7)] {
        let mut asked = call(2, "add");
        asked["params"]["_meta"] = json!({ "progressToken": token });
        let answer = send(&fakes, message(&asked)).await;
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{answer}");
        let data = answer.body.lines().filter_map(|line| line.strip_prefix("data:"));
        let told: Vec<Value> = data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect();
        let [first, second, result] = told.as_slice() else { panic!("{answer}") };
        let method = "notifications/progress";
        let params = json!({ "progressToken": token, "progress": 0.5, "total": 1.0, "message": "half" });
        assert_eq!((&first["method"], &first["params"]), (&json!(method), &params));
        assert_eq!((&second["method"], &second["params"]["message"]), (&json!(method), &json!("back")));
        assert!(second["params"]["progress"].as_f64() > Some(0.5), "it never goes back: {second}");
        assert_eq!((&result["id"], &result["result"]["isError"]), (&json!(2), &json!(false)));
    }
    let mut asked = call(3, "add");
    asked["params"]["_meta"] = json!({ "progressToken": "p".repeat(1_000) });
    assert_eq!(send(&fakes, message(&asked)).await.json()["id"], 3, "a token is no place for more");
}

#[tokio::test]
async fn a_caller_lists_and_calls_their_own_tools_in_every_version() {
    let (fakes, _) = serving(EchoTools::new(&["add", "search"]).only_for_tier("search", "premium"));
    let premium = token("u2", Some("premium"), None);
    for version in ["", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let request = |body: Value| match version {
            "" => message(&body),
            "2026-07-28" => of_its_own(body),
            version => with(message(&body), "mcp-protocol-version", version),
        };
        let names = |listed: &Answer| -> Vec<String> {
            let tools = listed.json()["result"]["tools"].as_array().cloned().unwrap_or_default();
            tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
        };
        let list = || request(asked(7, "tools/list", &json!({})));
        let own = send(&fakes, list()).await;
        assert_eq!(
            (own.header("content-type"), names(&own)),
            (Some("application/json"), vec!["add".to_owned()])
        );
        assert_eq!(own.json()["id"], 7);
        let more = fakes.service.send(with_token(&premium, list())).await;
        assert_eq!(names(&more), ["add", "search"], "{version}");

        let answered = send(&fakes, request(call(8, "add"))).await.json();
        assert_eq!(answered["result"]["content"], json!([{ "type": "text", "text": r#"{"a":1}"# }]));
        assert_eq!(answered["result"]["isError"], false, "{version}");
        for unknown in ["search", "nope"] {
            let answered = send(&fakes, request(call(9, unknown))).await.json();
            assert_eq!(answered["error"]["code"], -32602, "{version} {unknown}: {answered}");
            assert!(!answered.to_string().contains("search"), "nobody learns of others' tools: {answered}");
        }
        // The windows are those of the API: each user has ten requests a minute.
        fakes.windows.fill("user:u1", 0);
    }
}

#[tokio::test]
async fn what_is_no_message_in_a_version_that_is_spoken_is_refused() {
    let (fakes, _) = serving(EchoTools::new(&["add"]));
    let list = || message(&asked(1, "tools/list", &json!({})));
    let get = || with(request("GET", "/mcp", Body::empty()), "accept", "text/event-stream");
    let mut said = String::new();
    for (what, request) in [
        ("json alone", with(list(), "accept", "application/json")),
        ("another type", with(list(), "content-type", "text/plain")),
        ("a version of tomorrow", with(list(), "mcp-protocol-version", "2031-01-01")),
        ("an odd session", with(list(), "mcp-session-id", &"x".repeat(65))),
        ("no json", posted("{")),
        ("nothing", posted("")),
        ("no message", posted(r#"{"hello": 1}"#)),
        ("a batch", posted("[]")),
        ("a stream of nothing", with(get(), "accept", "application/json")),
        ("a stream of tomorrow", with(get(), "mcp-protocol-version", "2031-01-01")),
        ("a stream of today", with(get(), "mcp-protocol-version", "2026-07-28")),
        ("the end of a session", request("DELETE", "/mcp", Body::empty())),
        ("a cursor", message(&asked(1, "tools/list", &json!({ "cursor": "2" })))),
        ("a method that is none", message(&asked(1, "tools/burn", &json!({})))),
        ("parameters of another kind", message(&asked(1, "tools/call", &json!({ "name": ["add"] })))),
        ("a notification", message(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))),
    ] {
        let answer = send(&fakes, request).await;
        said.push_str(&format!("{what}: {} {}\n", answer.status.as_u16(), answer.body));
        fakes.windows.fill("user:u1", 0);
    }
    assert_snapshot!(said, @r#"
    json alone: 406 {"error":"Accept has to name application/json and text/event-stream"}
    another type: 415 {"error":"Content-Type has to be application/json"}
    a version of tomorrow: 400 {"error":"MCP-Protocol-Version is none that is spoken here"}
    an odd session: 400 {"error":"Mcp-Session-Id is none of ours"}
    no json: 400 {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}
    nothing: 400 {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}
    no message: 400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}
    a batch: 400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}
    a stream of nothing: 406 {"error":"Accept has to name text/event-stream"}
    a stream of tomorrow: 400 {"error":"MCP-Protocol-Version is none that is spoken here"}
    a stream of today: 405 {"error":"This version has no stream to read: send subscriptions/listen"}
    the end of a session: 405 {"error":"Method not allowed"}
    a cursor: 200 {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"there is no page of that cursor"}}
    a method that is none: 200 {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"tools/burn"}}
    parameters of another kind: 200 {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"`params` are not what this method takes"}}
    a notification: 202
    "#);
}

/// The SDK gets what was read here, and reads it the same.
#[tokio::test]
async fn messages_are_read_as_the_bodies_of_the_api_are() {
    let (fakes, _) = serving(EchoTools::new(&["add"]));
    for (arguments, read) in [
        (r#"{"a":"\ud83d"}"#, json!({ "a": "\u{fffd}" })),
        (r#"{"a":1,"a":2}"#, json!({ "a": 2 })),
        (r#"{"a":9007199254740993}"#, json!({ "a": 9_007_199_254_740_993_u64 })),
    ] {
        let params = format!(r#"{{"name":"add","arguments":{arguments}}}"#);
        let body = format!(
            "\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"tools/call\",\"params\":{params}}}"
        );
        let answer = send(&fakes, posted(body)).await;
        assert_eq!((answer.status, &answer.json()["id"]), (StatusCode::OK, &json!(2)), "{answer}");
        assert_eq!(answer.json()["result"]["content"][0]["text"], read.to_string(), "{answer}");
    }
}

#[tokio::test]
async fn the_windows_and_the_bounds_of_bodies_are_those_of_the_api() {
    let (fakes, _) = serving(EchoTools::new(&["add"]));
    let list = message(&asked(1, "tools/list", &json!({})));
    let limits: Vec<_> = [send(&fakes, list).await, fakes.post("/api/agent/async", "").await]
        .iter()
        .map(|answer| answer.header("x-ratelimit-remaining").map(str::to_owned))
        .collect();
    assert_eq!(limits, [Some("9".to_owned()), Some("8".to_owned())], "one window for both");
    let large = "x".repeat(110_000);
    let large = message(&asked(1, "tools/call", &json!({ "name": "add", "arguments": { "a": large } })));
    assert_eq!(send(&fakes, large).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    // Bounded is the body as it was sent.
    let digits = format!("[{}0]", "1e15,".repeat(10_000));
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"add","arguments":{{"a":{digits}}}}}}}"#
    );
    assert_eq!(send(&fakes, posted(call)).await.status, StatusCode::OK);
    // Where larger bodies are let in, their values are bounded all the same.
    let fakes = Fakes::configured(Answers, |edge| edge.settings.max_body_bytes = 10 << 20);
    let dense = json!({ "name": "add", "arguments": { "a": vec![json!({ "": 0 }); 30_000] } });
    let dense = asked(1, "tools/call", &dense);
    assert_eq!(send(&fakes, message(&dense)).await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn pages_of_others_neither_send_nor_read() {
    let fakes = Fakes::configured(Answers, |edge| {
        edge.origins = Origins::parse("https://ours.example").unwrap();
        edge.hosts = Hosts::Named;
    });
    let list = || message(&asked(1, "tools/list", &json!({})));
    let get = || with(request("GET", "/mcp", Body::empty()), "accept", "text/event-stream");
    for (origin, status) in
        [("https://evil.example", StatusCode::FORBIDDEN), ("https://ours.example", StatusCode::OK)]
    {
        for request in [list(), get()] {
            let request = with(with(request, "host", "agent.example"), "origin", origin);
            let response = fakes.service.router().oneshot(bearer("u1", request)).await.unwrap();
            assert_eq!(response.status(), status, "{origin}");
        }
    }
}

fn in_session(request: Request<Body>, session: Option<&str>) -> Request<Body> {
    match session {
        Some(session) => with(request, "mcp-session-id", session),
        None => request,
    }
}

/// A call of `u1` that never ends, as a task.
fn hanging(fakes: &Fakes, session: Option<&str>) -> tokio::task::JoinHandle<Answer> {
    let router = fakes.service.router();
    let request = bearer("u1", in_session(message(&call(5, "add")), session));
    #[expect(clippy::disallowed_methods, reason = "a client beside the test")]
    tokio::spawn(async move { Answer::read(router.oneshot(request).await.unwrap()).await })
}

#[tokio::test]
async fn a_call_is_cancelled_by_its_own_client_only() {
    let (fakes, _) = serving(EchoTools::new(&["add"]).hanging());
    let mut call = hanging(&fakes, Some("s1"));
    // Another client of the same user, which counts its requests as this one does.
    let mut without_session = hanging(&fakes, None);
    // Until it is under way; whether it is cannot be seen from outside.
    let cancel = |user: &str, session: Option<&str>, id: u64| {
        let body =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        bearer(user, in_session(message(&body), session))
    };
    let (s1, s2) = (Some("s1"), Some("s2"));
    for (user, session, id) in [("u2", s1, 5), ("u1", s2, 5), ("u1", s1, 6), ("u1", None, 5)] {
        let answer = fakes.service.send(cancel(user, session, id)).await;
        answer.check(StatusCode::ACCEPTED, "");
    }
    assert!(timeout(Duration::from_millis(200), &mut call).await.is_err(), "nobody else ends it");
    fakes.service.send(cancel("u1", s1, 5)).await;
    let answer = timeout(Duration::from_secs(5), call).await.unwrap().unwrap();
    assert_eq!(answer.json()["error"]["code"], -32800, "{answer}");
    assert!(timeout(Duration::from_millis(200), &mut without_session).await.is_err(), "nor that one");
    without_session.abort();
}

#[tokio::test]
async fn a_stream_tells_of_swaps_and_of_those_that_were_missed() {
    let (fakes, tools) = serving(EchoTools::of_digest("sha256:one"));
    let open = async |version: &str, last: Option<&str>| {
        let request = with(request("GET", "/mcp", Body::empty()), "accept", "text/event-stream");
        let request = with(request, "mcp-protocol-version", version);
        let request = if let Some(last) = last { with(request, "last-event-id", last) } else { request };
        let response = fakes.service.router().oneshot(bearer("u1", request)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        response
            .into_body()
            .into_data_stream()
            .map(|chunk| String::from_utf8(chunk.unwrap().to_vec()).unwrap())
    };
    let changed =
        "id: sha256:two\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
    let mut current = open("2025-11-25", None).await;
    let mut older = open("2025-06-18", None).await;
    assert_eq!(current.next().await.unwrap(), "retry: 1000\n\nid: sha256:one\ndata:\n\n");
    assert_eq!(older.next().await.unwrap(), "retry: 1000\n\n");
    tools.swap(EchoTools::of_digest("sha256:two"));
    for stream in [&mut current, &mut older] {
        let next = timeout(Duration::from_secs(5), stream.next()).await.unwrap().unwrap();
        assert_eq!(next, changed);
    }
    let mut returned = open("2025-06-18", Some("sha256:one")).await;
    assert_eq!(returned.next().await.unwrap(), "retry: 1000\n\n");
    assert_eq!(timeout(Duration::from_millis(100), returned.next()).await.unwrap().unwrap(), changed);
}
