//! Servers over HTTP.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::Toolbox;
use agent_core::words::{Principal, ToolOutcome};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_servers::eventually;
use tool_host::{CallKey, HttpMode, HttpOutcome, HttpRecorder, HttpRequestRecord};

use super::fake::{Fake, Reply, refusal, stream, text, tool, tools};
use super::{fault, host};
use crate::harness::{Host, call_as, generous};

/// A server with the tool `a`, a host under a policy with these lines for it, and the folder of the policy.
async fn serving(lines: &str) -> (Fake, Host, TempDir) {
    let fake = Fake::new(|_, _| tools(&[tool("a", "Does it.")])).await;
    let (host, home) = host(&fake.policy(&format!("allow = [\"a\"]\n{lines}")), generous(), |_| {}).await;
    (fake, host, home)
}

fn request(method: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": "s", "method": method, "params": {} }).to_string()
}

fn answer(result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": "<id>", "result": result }).to_string()
}

#[tokio::test]
async fn the_allowed_tools_of_a_server_are_in_the_catalog_and_answer_like_any_tool() {
    let fake = Fake::new(|method, params| match (method, params["name"].as_str()) {
        ("tools/list", _) => {
            let mut search = tool("search", "Searches.");
            search["annotations"] = json!({ "readOnlyHint": true });
            search["inputSchema"]["required"] = json!(["query"]);
            tools(&[search, tool("getUser", ""), tool("deleteAll", "Deletes.")])
        }
        (_, Some("search")) => Reply::Events(vec![
            json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} }).to_string(),
            answer(&json!({ "content": [], "structuredContent": params["arguments"] })),
        ]),
        _ => Reply::Result(
            json!({ "isError": true, "content": [{ "type": "text", "text": "no user abc-12345678" }] }),
        ),
    })
    .await;
    let secret =
        "[[mcp.secret]]\nname = \"key\"\nenv = \"KEY\"\nheader = \"authorization\"\nprefix = \"Bearer \"";
    let policy = fake.policy(&format!("allow = [\"search\", \"getUser\"]\ntiers = [\"premium\"]\n{secret}"));
    let (host, _home) = host(&policy, generous(), |config| {
        config.environment =
            std::sync::Arc::new(|name: &str| (name == "KEY").then(|| "abc-12345678".to_owned()));
    })
    .await;
    assert_eq!(host.faults(), Vec::<String>::new());
    assert_eq!(host.names(), ["docs_get_user", "docs_search"]);
    assert!(host.host.current_for(Principal::nobody()).catalog().tools().is_empty(), "it is for one tier");

    let premium = Principal { tier: Some("premium".into()), ..Principal::nobody().clone() };
    let set = host.host.current_for(&premium);
    let ask = async |tool: &str, arguments: Value| call_as(&*set, &premium, tool, arguments).await;
    let found = ask("docs_search", json!({ "query": "x" })).await;
    assert_eq!((found.receipt.outcome, found.content.as_str()), (ToolOutcome::Ok, r#"{"query":"x"}"#));
    let component = found.receipt.component.clone().unwrap();
    assert!(component.starts_with("docs@sha256:"), "{component}");
    assert!(!found.receipt.is_per_user(), "it says that it only reads");
    assert_eq!(found.receipt.detail.as_ref().unwrap().exchanges.len(), 1);
    let misfit = ask("docs_search", json!({})).await;
    assert_eq!(misfit.receipt.outcome, ToolOutcome::InvalidArguments);
    let failed = ask("docs_get_user", json!({})).await;
    assert_eq!(failed.receipt.outcome, ToolOutcome::Failed);
    assert!(failed.content.contains("no user") && !failed.content.contains("abc-12345678"), "{failed:?}");
    assert!(failed.receipt.is_per_user(), "what it did is not known");

    let received = fake.received();
    let methods: Vec<_> = received.iter().map(|one| one.message["method"].as_str().unwrap()).collect();
    let expected = ["initialize", "notifications/initialized", "tools/list", "tools/call", "tools/call"];
    assert_eq!(methods, expected, "one session, and nothing else was asked");
    for (at, one) in received.iter().enumerate() {
        assert!(one.head.contains("authorization: bearer abc-12345678"), "{}", one.head);
        assert_eq!(one.head.contains("mcp-session-id: s1"), at > 0, "{}", one.head);
        assert_eq!(one.head.contains("mcp-protocol-version: 2025-06-18"), at > 0, "{}", one.head);
    }
}

#[tokio::test]
async fn a_server_that_lists_badly_is_a_fault_and_has_no_tools() {
    let endless = |_: &str, params: &Value| {
        let page = params["cursor"].as_str().unwrap_or("0").parse::<u32>().unwrap();
        Reply::Result(json!({ "tools": [tool("a", "")], "nextCursor": (page + 1).to_string() }))
    };
    let fake = Fake::new(endless).await;
    let policy = fake.policy("allow = [\"a\"]");
    let (endless, _home) = host(&policy, generous(), |_| {}).await;
    assert!(fault(&endless).contains("says more than it may"), "{}", fault(&endless));
    assert_eq!(fake.count("tools/list"), 10);

    type Case = (&'static str, fn(&str, &Value) -> Reply);
    let cases: [Case; 6] = [
        ("says more than it may", |_, _| tools(&[tool("a", &"x".repeat(3 << 20))])),
        ("cannot be reached", |_, _| {
            Reply::Raw("HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".into())
        }),
        ("does not keep to the protocol", |_, _| Reply::Result(json!({ "tools": "none" }))),
        ("went away before it answered", |_, _| Reply::Close),
        ("asks for what it does not get", |_, _| Reply::Events(vec![request("roots/list"); 9])),
        ("none of the tools", |_, _| tools(&[tool("b", "")])),
    ];
    for (expected, answer) in cases {
        let fake = Fake::new(answer).await;
        let (host, _home) = host(&fake.policy("allow = [\"a\"]"), generous(), |_| {}).await;
        assert!(fault(&host).contains(expected), "{expected}: {}", fault(&host));
        assert_eq!(host.names(), Vec::<String>::new(), "{expected}");
    }
}

#[tokio::test]
async fn an_empty_cursor_is_that_of_no_page() {
    let fake = Fake::new(|_, _| Reply::Result(json!({ "tools": [tool("a", "")], "nextCursor": "" }))).await;
    let (host, _home) = host(&fake.policy("allow = [\"a\"]"), generous(), |_| {}).await;
    assert_eq!(
        (host.names(), fake.count("tools/list")),
        (vec!["docs_a".to_owned()], 1),
        "{:?}",
        host.faults()
    );
}

#[tokio::test]
async fn a_call_ends_well_or_in_words_whatever_the_server_does() {
    type Case = (&'static str, fn(&str, &Value) -> Reply, ToolOutcome, &'static str);
    let cases: [Case; 8] = [
        ("forbids", |_, _| refusal("403 Forbidden", "no"), ToolOutcome::Failed, "HTTP 403 Forbidden: no"),
        ("hangs", |_, _| Reply::Hang, ToolOutcome::TimedOut, "did not finish within"),
        ("floods", |_, _| text(&"x".repeat(3 << 20)), ToolOutcome::OutputLimit, "returned more than"),
        ("says much", |_, _| text(&"x".repeat(2000)), ToolOutcome::OutputLimit, "more than 1000 bytes"),
        ("dies", |_, _| Reply::Close, ToolOutcome::Failed, "unavailable: the MCP server"),
        ("lies", |_, _| Reply::Result(json!({})), ToolOutcome::InvalidOutput, "does not match"),
        (
            "asks",
            |_, _| {
                let sampling = request("sampling/createMessage");
                Reply::Events(vec![sampling, request("ping"), answer(&json!({ "content": [] }))])
            },
            ToolOutcome::Ok,
            "\"\"",
        ),
        (
            "shows",
            |_, _| {
                Reply::Result(
                    json!({ "content": [{ "type": "image", "data": "AAAA", "mimeType": "image/png" }] }),
                )
            },
            ToolOutcome::Ok,
            "an image (image/png, about 3 bytes)",
        ),
    ];
    for (what, answer, outcome, said) in cases {
        let (fake, host, _home) = serving("limits = { timeout-ms = 3000, output-bytes = 1000 }").await;
        assert_eq!(host.names(), ["docs_a"], "{what}: {:?}", host.faults());
        fake.answers(answer);
        let begun = Instant::now();
        let returned = host.call("docs_a", json!({})).await;
        assert_eq!(
            (returned.receipt.outcome, host.last_outcome()),
            (outcome, outcome),
            "{what}: {returned:?}"
        );
        assert!(returned.content.contains(said), "{what}: {}", returned.content);
        assert!(begun.elapsed() < Duration::from_secs(15), "{what}");
        assert_eq!(fake.count("tools/call"), 1, "{what}: it may have had an effect, so it is not made again");
        if what == "asks" {
            let replies =
                fake.received().into_iter().filter(|one| one.message["id"] == "s").map(|one| one.message);
            let replies: Vec<_> = replies.collect();
            assert_eq!(replies[0]["error"]["code"], -32601, "{replies:?}");
            assert_eq!(replies[1]["result"], json!({}), "{replies:?}");
        }
    }
}

#[tokio::test]
async fn a_server_may_ask_many_times_whether_somebody_is_there() {
    let (fake, host, _home) = serving("").await;
    fake.answers(|_, _| {
        let pings = std::iter::repeat_n(request("ping"), 20);
        Reply::Events(pings.chain([answer(&json!({ "content": [] }))]).collect())
    });
    let returned = host.call("docs_a", json!({})).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::Ok, "{returned:?}");
}

/// The runs of the exchanges that were recorded.
#[derive(Default)]
struct RecordedRuns(Mutex<Vec<String>>);

impl HttpRecorder for RecordedRuns {
    fn record(&self, call: CallKey<'_>, _request: HttpRequestRecord, _outcome: HttpOutcome) {
        self.0.lock().push(call.run_id.to_owned());
    }
}

/// Nobody replays them, and the id of the session stands in them.
#[tokio::test]
async fn exchanges_with_a_server_are_recorded_of_no_run() {
    let fake = Fake::new(|method, _| match method {
        "tools/list" => tools(&[tool("a", "Does it.")]),
        _ => text("here"),
    })
    .await;
    let recorded = Arc::new(RecordedRuns::default());
    let recorder = recorded.clone();
    let (host, _home) = host(&fake.policy("allow = [\"a\"]"), generous(), |config| {
        config.http = HttpMode::Network { recorder: Some(recorder) };
    })
    .await;
    let call = agent_core::words::ToolCall { id: "1".into(), name: "docs_a".into(), arguments: json!({}) };
    let deadline = Instant::now() + Duration::from_secs(60);
    let request = agent_core::ports::ToolRequest::outside_of_runs("r", &call, deadline);
    let request = agent_core::ports::ToolRequest { run_id: "run_1", ..request };
    let returned = host.host.current_for(Principal::nobody()).call(request).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::Ok, "{returned:?}");
    let runs = recorded.0.lock();
    assert!(!runs.is_empty() && runs.iter().all(String::is_empty), "{runs:?}");
}

#[tokio::test]
async fn a_session_that_the_server_has_ended_is_begun_anew() {
    for refused in [
        Reply::Raw("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".into()),
        refusal("400 Bad Request", "No valid session ID provided"),
    ] {
        let (fake, host, _home) = serving("").await;
        let forgotten = std::sync::atomic::AtomicBool::new(false);
        fake.answers(move |_, _| match forgotten.swap(true, std::sync::atomic::Ordering::Relaxed) {
            false => refused.clone(),
            true => text("here"),
        });
        let returned = host.call("docs_a", json!({})).await;
        assert_eq!((returned.receipt.outcome, returned.content.as_str()), (ToolOutcome::Ok, r#""here""#));
        assert_eq!(fake.count("initialize"), 2);
        // A session that has answered nothing was not forgotten.
        fake.answers(|_, _| refusal("400 Bad Request", "not this way"));
        let returned = host.call("docs_a", json!({})).await;
        assert!(returned.content.contains("HTTP 400 Bad Request: not this way"), "{returned:?}");
        assert_eq!(fake.count("initialize"), 3);
    }
}

#[tokio::test]
async fn a_server_is_told_that_a_call_was_given_up_and_that_its_session_is_over() {
    let (fake, host, _home) = serving("limits = { timeout-ms = 1000 }").await;
    fake.answers(|_, _| Reply::Hang);
    let returned = host.call("docs_a", json!({})).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::TimedOut, "{returned:?}");
    let told = eventually("the session to be ended", async || {
        let received = fake.received();
        received.last().is_some_and(|last| last.head.starts_with("delete /mcp ")).then_some(received)
    })
    .await;
    let [.., call, cancelled, over] = &*told else { panic!("{told:?}") };
    assert_eq!(call.message["method"], "tools/call", "{told:?}");
    assert_eq!(cancelled.message["method"], "notifications/cancelled", "{told:?}");
    assert_eq!(cancelled.message["params"]["requestId"], call.message["id"], "{told:?}");
    for one in [cancelled, over] {
        assert!(one.head.contains("mcp-session-id: s1"), "{}", one.head);
    }
}

/// The server could take the request for that of another connection, which counts its own alike.
#[tokio::test]
async fn a_server_without_sessions_is_not_told_that_a_call_was_given_up() {
    let fake = Fake::new(|_, _| tools(&[tool("a", "Does it.")])).await;
    fake.has_no_sessions();
    let (host, _home) = host(&fake.policy("allow = [\"a\"]"), generous(), |_| {}).await;
    fake.answers(|_, _| Reply::Close);
    let returned = host.call("docs_a", json!({})).await;
    assert_ne!(returned.receipt.outcome, ToolOutcome::Ok, "{returned:?}");
    // With its handshake this call takes three requests, and what would be told is sent before them.
    fake.answers(|_, _| text("here"));
    let returned = host.call("docs_a", json!({})).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::Ok, "{returned:?}");
    let received = fake.received();
    assert!(!received.iter().any(|one| one.head.contains("mcp-session-id")), "{received:?}");
    assert_eq!(fake.count("notifications/cancelled"), 0, "{received:?}");
}

#[tokio::test]
async fn a_call_is_not_made_again_when_its_session_ends_under_it() {
    let (fake, host, _home) = serving("").await;
    fake.answers(|_, _| Reply::Events(vec![request("ping"), answer(&json!({ "content": [] }))]));
    fake.refuses_replies();
    let returned = host.call("docs_a", json!({})).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::Failed, "{returned:?}");
    assert!(returned.content.contains("the session ended during the call"), "{returned:?}");
    assert_eq!(fake.count("tools/call"), 1);
}

/// As 2025-11-25 has it: the server names an event, says how soon to come again, and closes the stream.
#[tokio::test]
async fn a_stream_that_the_server_closes_before_the_answer_is_resumed() {
    const PRIMED: &str = "id: e1\nretry: 1\ndata:\n\n";
    let (fake, host, _home) = serving("").await;
    let has_waited = std::sync::atomic::AtomicBool::new(false);
    fake.answers(move |method, _| match method {
        "GET" if has_waited.swap(true, std::sync::atomic::Ordering::Relaxed) => {
            // The third request of the session, behind its handshake and the list.
            let answer = answer(&json!({ "content": [{ "type": "text", "text": "here" }] }));
            stream(&format!("data: {}\n\n", answer.replace("\"<id>\"", "3")))
        }
        "GET" => stream("id: e2\ndata:\n\n"),
        _ => stream(PRIMED),
    });
    let returned = host.call("docs_a", json!({})).await;
    assert_eq!((returned.receipt.outcome, returned.content.as_str()), (ToolOutcome::Ok, r#""here""#));
    let resumed: Vec<_> =
        fake.received().into_iter().map(|one| one.head).filter(|head| head.starts_with("get ")).collect();
    assert_eq!(resumed.len(), 2, "{resumed:?}");
    for (head, id) in resumed.iter().zip(["e1", "e2"]) {
        assert!(head.contains(&format!("last-event-id: {id}")), "{head}");
        assert!(head.contains("mcp-session-id: s1"), "{head}");
    }
    // The server may have carried the call out.
    fake.answers(|method, _| match method {
        "GET" => Reply::Raw("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".into()),
        _ => stream(PRIMED),
    });
    let returned = host.call("docs_a", json!({})).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::Failed, "{returned:?}");
    assert_eq!(fake.count("tools/call"), 2, "neither is made again");
}

#[tokio::test]
async fn nothing_is_sent_to_a_private_address_that_is_not_granted() {
    let fake = Fake::new(|_, _| tools(&[tool("a", "")])).await;
    let policy = fake.policy("allow = [\"a\"]").replace("private = true\n", "");
    let (host, _home) = host(&policy, generous(), |_| {}).await;
    assert!(fault(&host).contains("cannot be reached"), "{}", fault(&host));
    assert_eq!(fake.received().len(), 0);
}
