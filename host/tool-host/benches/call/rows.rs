//! What else a call may cost: many callers, typed values, a request, a call within a call.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{CallEnds, NestedTools, Question, ToolRequest, ToolSet, Toolbox};
use agent_core::words::{ToolCall, ToolReturn};
use boxed_async::boxed_async;
use bytes::Bytes;
use futures::future::join_all;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use test_servers::{HttpConnection, HttpServer};
use tokio::runtime::Handle;
use tool_host::PolicyFile;

use crate::callers::quantile;
use crate::components::{component, digest};
use crate::{call, expression, start};

const CALLS: usize = 400;

/// Calls that one script makes.
const NESTED: u32 = 50;

pub(crate) async fn print(guest_runtime: &Handle) {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let server = answer_at_once().await;
    let put = |name: &str, bytes: &[u8]| fs::write(tools.join(format!("{name}.wasm")), bytes).unwrap();
    for name in ["calculator", "clock", "json-query", "text-stats"] {
        put(name, &component("tools", name));
    }
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/typed-inventory.wasm");
    put("inventory", &fs::read(fixture).unwrap());
    let (fetch, eval) = (component("tools-granted", "http-fetch"), component("tools-granted", "code-eval"));
    put("http-fetch", &fetch);
    put("code-eval", &eval);
    let port = server.address().port();
    let lines = format!(
        "{}[[component.http]]\nscheme = \"http\"\nhost = \"127.0.0.1\"\nport = {port}\nprivate = true\n{}toolbox = true\n",
        entry("http-fetch", &fetch),
        entry("code-eval", &eval)
    );
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, lines).unwrap();
    let host = start(&tools, PolicyFile::At(policy), guest_runtime).await;
    let set = host.everything();

    many_callers(&*set).await;
    typed_and_text(&*set).await;
    requests(&*set, server.address()).await;
    nested(&set).await;
}

fn entry(name: &str, bytes: &[u8]) -> String {
    format!("[[component]]\nname = \"{name}\"\ndigest = \"{}\"\n", digest(bytes))
}

/// Four tools in turn.
async fn many_callers(set: &dyn ToolSet) {
    println!("four tools on all cores, {CALLS} calls of each caller at most");
    for callers in [1, 8, 64] {
        let each = CALLS / callers.min(8);
        let begun = Instant::now();
        join_all((0..callers).map(|caller| async move {
            for number in 0..each {
                match (caller + number) % 4 {
                    0 => call(set, "calculate", expression()).await,
                    1 => call(set, "current_time", json!({})).await,
                    2 => {
                        let list = json!({ "json": [number, 2, 3], "query": "map(. * 2)" });
                        call(set, "json_query", list).await;
                    }
                    _ => {
                        call(set, "text_stats", json!({ "text": format!("to be or not to be {number}") }))
                            .await
                    }
                }
            }
        }))
        .await;
        let rate = (callers * each) as f64 / begun.elapsed().as_secs_f64();
        println!("  {callers:>2} callers   {rate:>8.0} calls/s");
    }
}

async fn typed_and_text(set: &dyn ToolSet) {
    let typed = median(async || {
        call(set, "stock_reserve", json!({ "sku": "tea-250", "quantity": 5 })).await;
    })
    .await;
    let text = median(async || call(set, "calculate", expression()).await).await;
    println!(
        "typed call {:.1} µs, JSON call {:.1} µs: {:.2} times",
        micros(typed),
        micros(text),
        micros(typed) / micros(text)
    );
}

async fn requests(set: &dyn ToolSet, server: SocketAddr) {
    let url = format!("http://{server}/");
    let tool = median(async || call(set, "fetch", json!({ "url": url })).await).await;
    let plain = plain_requests(server).await;
    let added = micros(tool) - micros(plain);
    println!(
        "a request by a tool {:.0} µs, by hyper on a kept connection {:.0} µs: {added:.0} µs added (aim: 150)",
        micros(tool),
        micros(plain)
    );
}

/// Sends the tool's request with the HTTP library alone.
async fn plain_requests(server: SocketAddr) -> Duration {
    let stream = tokio::net::TcpStream::connect(server).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "it ends with the bench")]
    tokio::spawn(connection);
    let sender = tokio::sync::Mutex::new(sender);
    median(async || {
        let request = http::Request::get("/").header("host", "bench").body(Empty::<Bytes>::new()).unwrap();
        let mut sender = sender.lock().await;
        // Of the answer before, the connection may still have to notice that it has ended.
        sender.ready().await.unwrap();
        let response = sender.send_request(request).await.unwrap();
        response.into_body().collect().await.unwrap();
    })
    .await
}

/// The run's tools without a run: no journal and no limits.
struct Tools(Arc<dyn ToolSet>);

#[boxed_async]
impl NestedTools for Tools {
    fn names(&self) -> Vec<String> {
        self.0.catalog().nestable().map(|tool| tool.name.clone()).collect()
    }

    async fn call(&self, name: &str, arguments: &str) -> Result<ToolReturn, CallEnds> {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let call = ToolCall { id: "call_1.0".into(), name: name.into(), arguments };
        Ok(self.0.call(ToolRequest::outside_of_runs("bench", &call, deadline())).await)
    }

    async fn ask(&self, _question: Question<'_>) -> Result<ToolReturn, CallEnds> {
        Err(CallEnds)
    }
}

async fn nested(set: &Arc<dyn ToolSet>) {
    let tools = Tools(set.clone());
    let script = async |calls: u32| {
        let code = format!(
            "for (let n = 0; n < {calls}; n++) tools.text_stats({{text: `${{n}} ${{Math.random()}}`}}); {calls}"
        );
        let call =
            ToolCall { id: "call_1".into(), name: "run_code".into(), arguments: json!({ "code": code }) };
        let request = ToolRequest::outside_of_runs("bench", &call, deadline());
        let returned = set.call(ToolRequest { nested: Some(&tools), ..request }).await;
        assert_eq!(returned.receipt.outcome.as_str(), "ok", "{}", returned.content);
    };
    let (none, all) = (median(async || script(0).await).await, median(async || script(NESTED).await).await);
    let rate = f64::from(NESTED) / (all - none).as_secs_f64();
    println!("a script {:.1} ms; {rate:.0} nested calls/s in one script", micros(none) / 1e3);
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

async fn median(call: impl AsyncFn()) -> Duration {
    let mut times = Vec::new();
    for _ in 0..CALLS / 4 {
        let begun = Instant::now();
        call().await;
        times.push(begun.elapsed());
    }
    quantile(&mut times, 0.5)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A server that keeps connections and gives one small answer.
async fn answer_at_once() -> HttpServer {
    HttpServer::start(|mut connection: HttpConnection| async move {
        while connection.read_request().await.is_some() {
            connection
                .write("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nhi")
                .await;
        }
    })
    .await
}
