//! Components that send requests: what the policy grants them, what it takes away again, and what they never
//! see.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use agent_core::ports::Toolbox as _;
use agent_core::words::{ToolOutcome, ToolReturn};
use parking_lot::Mutex;
use serde_json::json;
use test_servers::{HttpRequest, HttpServer};
use tool_host::{Config, PolicyFile, StartError, ToolHost};

use crate::harness::{Host, WithPolicy, built, call_on, config, generous, ok};

const SECRET: &str = "hunter2-hunter2";

/// A server that answers every request with what it was asked.
struct Echo(HttpServer);

impl Echo {
    async fn start() -> Self {
        Self::answering("").await
    }

    /// With this in the head of its answers.
    async fn answering(header: &'static str) -> Self {
        let answer = move |request: &HttpRequest| {
            let head = &request.head;
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n{header}content-length: {}\r\nconnection: close\r\n\r\n{head}",
                head.len()
            )
        };
        Self(HttpServer::answering(answer).await)
    }

    fn asked(&self) -> Vec<String> {
        self.0.requests().into_iter().map(|request| request.head).collect()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.address())
    }

    fn line(&self, more: &str) -> String {
        let (host, port) = (self.0.address().ip(), self.0.address().port());
        format!("[[component.http]]\nscheme = \"http\"\nhost = \"{host}\"\nport = {port}\n{more}\n")
    }
}

fn entry(more: &str) -> String {
    crate::harness::entry("http-fetch", &fetcher(), more)
}

fn fetcher() -> Vec<u8> {
    built("tools-granted", "http-fetch")
}

async fn start(policy: &str) -> WithPolicy {
    start_with(policy, |_| {}).await
}

/// A host over the component that has the secret in its environment.
async fn start_with(policy: &str, change: impl FnOnce(&mut Config)) -> WithPolicy {
    let change = |config: &mut Config| {
        config.environment = Arc::new(|name| (name == "KEY").then(|| SECRET.to_owned()));
        change(config);
    };
    WithPolicy::start_with(&[("http-fetch.wasm", &fetcher())], policy, change).await
}

impl WithPolicy {
    async fn fetch(&self, url: &str) -> ToolReturn {
        self.host.call("fetch", json!({ "url": url })).await
    }
}

fn text(returned: &ToolReturn) -> String {
    let page = ok(returned);
    page["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_lines_it_is_refused_and_lines_let_it_in() {
    let granted = start("# nothing").await;
    let faults = granted.host.faults();
    assert_eq!((faults.len(), granted.host.names().len()), (1, 0));
    assert!(faults[0].starts_with("http-fetch.wasm: imports wasi:http, "), "{faults:?}");
    assert!(
        faults[0].contains("TOOLS_POLICY") && faults[0].contains("jco componentize --disable http"),
        "{faults:?}"
    );
    granted.change(&entry("[[component.http]]\nhost = \"host.example\"\n")).await;
    assert_eq!(granted.host.faults(), Vec::<String>::new());
    assert_eq!(granted.host.names(), ["fetch"]);
    // The host to fill in is nobody's.
    let refused = granted.fetch("https://elsewhere.example.org/").await;
    assert_eq!(refused.receipt.outcome, ToolOutcome::Failed);
    assert!(refused.content.starts_with("Error: denied: "), "{}", refused.content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_granted_gets_the_secret_and_the_guest_does_not() {
    let echo = Echo::start().await;
    let secret = "[[component.secret]]\nname = \"key\"\nenv = \"KEY\"\nheader = \"Authorization\"\nprefix = \"Bearer \"\n\
                  hosts = [\"127.0.0.1\"]\n";
    let granted = start(&entry(&(echo.line("private = true") + secret))).await;
    assert_eq!(granted.host.faults(), Vec::<String>::new());
    let read = text(&granted.fetch(&echo.url("/page?q=1")).await);
    let asked = echo.asked();
    assert!(asked[0].starts_with("GET /page?q=1 HTTP/1.1\r\n"), "{asked:?}");
    assert!(asked[0].contains(&format!("authorization: Bearer {SECRET}")), "{asked:?}");
    assert!(read.contains("Bearer [secret key]") && !read.contains(SECRET), "{read}");
    // What is sent with a secret in it is not sent.
    let stolen = granted.fetch(&echo.url(&format!("/?stolen={SECRET}"))).await;
    assert_eq!(stolen.receipt.outcome, ToolOutcome::Failed);
    assert!(!stolen.content.contains(SECRET), "{}", stolen.content);
    assert_eq!(echo.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_line_grants_is_denied_in_words() {
    let echo = Echo::start().await;
    let granted = start(&entry(&echo.line("private = true\npath = \"/open\""))).await;
    text(&granted.fetch(&echo.url("/open/page")).await);
    for url in [
        echo.url("/closed"),
        echo.url("/open/../closed"),
        echo.url("/open%2f..%2fclosed"),
        format!("http://user@{}/open", echo.0.address()),
        format!("https://{}/open", echo.0.address()),
        format!("http://localhost:{}/open", echo.0.address().port()),
        format!("http://2130706434:{}/open", echo.0.address().port()),
    ] {
        let denied = granted.fetch(&url).await;
        assert_eq!(denied.receipt.outcome, ToolOutcome::Failed, "{url}: {}", denied.content);
    }
    assert_eq!(echo.asked().len(), 1);
    // Naming a host alone grants no private address.
    granted.change(&entry(&echo.line(""))).await;
    let denied = granted.fetch(&echo.url("/")).await;
    assert!(denied.content.contains("no address that tools may reach"), "{}", denied.content);
    assert_eq!(echo.asked().len(), 1);
}

/// A host over a component that misbehaves, with these lines for it.
async fn misbehaving(name: &str, lines: &str) -> WithPolicy {
    let component = crate::harness::misbehaving(name);
    let policy = crate::harness::entry(name, &component, lines);
    WithPolicy::start_with(&[(&format!("{name}.wasm"), &component)], &policy, |_| {}).await
}

/// A server that took the half for the whole would act on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_its_guest_breaks_off_has_no_last_chunk() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, line) = (listener.local_addr().unwrap(), "[[component.http]]\nscheme = \"http\"\n");
    let more = "private = true\nmethods = [\"POST\"]\n";
    let line = format!("{line}host = \"{}\"\nport = {}\n{more}", address.ip(), address.port());
    let misbehaving = misbehaving("breaks-off", &line).await;
    let mut heads = 0;
    for _ in 0..20 {
        let listener = listener.try_clone().unwrap();
        let reading = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let mut received = Vec::new();
            // A reset is an end, too.
            let _end = stream.read_to_end(&mut received);
            String::from_utf8(received).unwrap()
        });
        let returned = misbehaving.host.call("break_off", json!({ "authority": address.to_string() })).await;
        assert_eq!(returned.receipt.outcome, ToolOutcome::Trapped, "{}", returned.content);
        let received = reading.join().unwrap();
        // What is still in a buffer when the guest ends is not sent.
        let Some((head, body)) = received.split_once("\r\n\r\n") else { continue };
        assert!(head.to_ascii_lowercase().contains("transfer-encoding: chunked"), "{head}");
        assert!(!body.ends_with("\r\n0\r\n\r\n") && body != "0\r\n\r\n", "{body}");
        heads += 1;
    }
    assert!(heads > 0);
}

/// A tool that acts outside: unlike a page, what it sends has a body.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_told_as_one_whatever_became_of_the_body_and_is_not_tried_again() {
    let server = Echo::answering("content-encoding: gzip\r\n").await;
    let line = server.line("private = true\npath = \"/open\"\nmethods = [\"GET\"]");
    let misbehaving = misbehaving("acts-outside", &line).await;
    let body = "x".repeat(100_000);
    let denied = misbehaving.host.call("act", json!({ "url": server.url("/open"), "body": body })).await;
    assert!(denied.content.starts_with("Error: denied"), "{}", denied.content);
    assert!(server.asked().is_empty());
    // Idempotent: it would be made again if it could not be answered for now.
    let encoded = misbehaving.host.call("look", json!({ "url": server.url("/open") })).await;
    assert!(encoded.content.starts_with("Error: denied"), "{}", encoded.content);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_away_counts_from_the_next_call_and_what_is_given_from_the_next_run() {
    let (one, other) = (Echo::start().await, Echo::start().await);
    let granted = start(&entry(&one.line("private = true"))).await;
    let run = granted.host.host.everything();
    let fetch = async |url: String| call_on(&*run, "fetch", json!({ "url": url })).await;
    text(&fetch(one.url("/")).await);
    granted.change(&entry(&other.line("private = true"))).await;
    assert_eq!(fetch(one.url("/")).await.receipt.outcome, ToolOutcome::Failed, "taken away");
    assert_eq!(fetch(other.url("/")).await.receipt.outcome, ToolOutcome::Failed, "given to the next run");
    text(&granted.fetch(&other.url("/")).await);
    assert_eq!((one.asked().len(), other.asked().len()), (1, 1));
    // With no lines at all it is not run.
    granted.change("# nothing").await;
    let denied = granted.fetch(&other.url("/")).await;
    assert!(denied.content.starts_with("Error: denied: the operator"), "{}", denied.content);
    assert_eq!(other.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_wrong_leaves_the_last_good_one_in_force_and_ends_a_start() {
    let echo = Echo::start().await;
    let good = entry(&echo.line("private = true"));
    let granted = start(&good).await;
    for wrong in ["", "[[component]]\nname = \"http-fetch\"\nhots = []", &good[..good.len() / 2]] {
        granted.change(wrong).await;
        let faults = granted.host.faults();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(
            faults[0],
            "policy.toml: cannot be used; the last good policy stays in force, and the log says what is wrong"
        );
        text(&granted.fetch(&echo.url("/")).await);
    }
    granted.change(&good).await;
    assert_eq!(granted.host.faults(), Vec::<String>::new());

    let tools = tempfile::tempdir().unwrap();
    let mut wrong = config(tools.path(), generous(), Arc::default());
    wrong.policy = PolicyFile::At(granted.folder.path().join("gone.toml"));
    let error = ToolHost::start(wrong).await.err().unwrap();
    assert!(matches!(error, StartError::Policy(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_in_the_tools_folder_grants_nothing() {
    let echo = Echo::start().await;
    let lines = entry(&echo.line("private = true"));
    let (component, lines) = (fetcher(), lines.as_bytes());
    let files: [(&str, &[u8]); 2] = [("http-fetch.wasm", &component), ("policy.toml", lines)];
    let host = Host::start_with(&files, generous(), |config| {
        config.policy = PolicyFile::Beside(config.folder.clone());
    })
    .await;
    assert_eq!(host.names(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_named_within_the_tools_folder_ends_the_start() {
    let tools = tempfile::tempdir().unwrap();
    let inside = tools.path().join("granted.toml");
    fs::write(&inside, "# nothing").unwrap();
    let mut config = config(tools.path(), generous(), Arc::default());
    config.policy = PolicyFile::At(inside);
    let error = ToolHost::start(config).await.err().unwrap();
    assert!(error.to_string().contains("beside the folder"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_is_replaced_in_its_file_is_used_from_then_on() {
    let echo = Echo::start().await;
    let secret = "[[component.secret]]\nname = \"key\"\nfile = \"key.txt\"\nheader = \"x-key\"\nhosts = [\"127.0.0.1\"]\n";
    let policy = entry(&(echo.line("private = true") + secret));
    let granted = start("# nothing").await;
    let file = granted.folder.path().join("key.txt");
    fs::write(&file, "the-first-one\n").unwrap();
    granted.change(&policy).await;
    text(&granted.fetch(&echo.url("/")).await);
    fs::write(&file, "the-second-one\n").unwrap();
    granted.host.host.reload().await;
    text(&granted.fetch(&echo.url("/")).await);
    // Also while the policy's file cannot be read, and its last good text stays in force.
    fs::write(&file, "the-third-one\n").unwrap();
    granted.change("[[component").await;
    assert!(
        granted.host.faults()[0].starts_with("policy.toml: cannot be used"),
        "{:?}",
        granted.host.faults()
    );
    text(&granted.fetch(&echo.url("/")).await);
    let asked = echo.asked();
    assert!(asked[0].contains("x-key: the-first-one"), "{asked:?}");
    assert!(asked[1].contains("x-key: the-second-one"), "{asked:?}");
    assert!(asked[2].contains("x-key: the-third-one"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_not_read_in_time_ends_the_call_and_is_not_waited_for() {
    let (release, held) = mpsc::channel::<()>();
    let (held, hangs) = (Mutex::new(held), Arc::new(AtomicBool::new(false)));
    let is_hanging = hangs.clone();
    let environment = move |name: &str| {
        if is_hanging.load(Ordering::Relaxed) {
            // Until the test has ended.
            let _ended = held.lock().recv_timeout(Duration::from_secs(60));
        }
        (name == "KEY").then(|| SECRET.to_owned())
    };
    let lines = |path: &str| {
        let secret =
            "[[component.secret]]\nname = \"key\"\nenv = \"KEY\"\nquery = \"key\"\nhosts = [\"a.test\"]\n";
        entry(&format!("[[component.http]]\nhost = \"a.test\"\npath = \"{path}\"\n{secret}"))
    };
    let granted = start_with(&lines("/one"), |config| {
        config.limits.timeout = Duration::from_secs(2);
        config.environment = Arc::new(environment);
    })
    .await;
    let run = granted.host.host.everything();
    // What a run under way is granted by both policies is made by its next call.
    granted.change(&lines("/other")).await;
    hangs.store(true, Ordering::Relaxed);
    let returned = call_on(&*run, "fetch", json!({ "url": "https://a.test/one" })).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::TimedOut);
    assert_eq!(returned.content, "Error: the tool could not be started within 2000 ms. Try again later.");
    drop(release);
}
