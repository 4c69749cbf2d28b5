//! An MCP server over HTTP, by hand: it says whatever a test has it say.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use test_servers::{HttpConnection, HttpRequest, HttpServer};

/// What it answers to a message.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Result(Value),
    /// Server-sent events with these messages, and then the stream ends.
    Events(Vec<String>),
    /// A head and a body.
    Raw(String),
    Close,
    /// Nothing.
    Hang,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) message: Value,
}

type Answer = dyn Fn(&str, &Value) -> Reply + Send + Sync;

/// A server on a free port of this machine.
pub(crate) struct Fake {
    server: HttpServer,
    answer: Arc<Mutex<Arc<Answer>>>,
    refuses_replies: Arc<AtomicBool>,
    has_no_sessions: Arc<AtomicBool>,
}

impl Fake {
    /// One that answers the handshake, and every other request by its method and parameters as the function
    /// says. That of a request to resume a stream is `GET`.
    pub(crate) async fn new(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let answer: Arc<Answer> = Arc::new(answer);
        let answer = Arc::new(Mutex::new(answer));
        let (refuses_replies, has_no_sessions) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let (answers, refuses) = (answer.clone(), refuses_replies.clone());
        let without_session = has_no_sessions.clone();
        let serve = move |connection: HttpConnection| {
            let (answers, refuses) = (answers.clone(), refuses.clone());
            let without_session = without_session.clone();
            async move {
                let _closed = serve(connection, answers, refuses, without_session).await;
            }
        };
        Self { server: HttpServer::start(serve).await, answer, refuses_replies, has_no_sessions }
    }

    /// Answers otherwise from now on.
    pub(crate) fn answers(&self, answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) {
        *self.answer.lock() = Arc::new(answer);
    }

    /// Knows the session no longer when what it asked for is answered, from now on.
    pub(crate) fn refuses_replies(&self) {
        self.refuses_replies.store(true, Ordering::Relaxed);
    }

    /// Gives no id of a session, from now on.
    pub(crate) fn has_no_sessions(&self) {
        self.has_no_sessions.store(true, Ordering::Relaxed);
    }

    /// The lines of a policy that let it in as `docs`, with these beside them.
    pub(crate) fn policy(&self, lines: &str) -> String {
        let url = format!("http://{}/mcp", self.server.address());
        format!("[[mcp]]\nname = \"docs\"\nurl = \"{url}\"\nplain-http = true\nprivate = true\n{lines}\n")
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        let received = |request: HttpRequest| Received {
            head: request.head.to_lowercase(),
            message: message_of(&request),
        };
        self.server.requests().into_iter().map(received).collect()
    }

    /// How often it got a request of that method.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.received().iter().filter(|received| received.message["method"] == method).count()
    }
}

/// The answer to `tools/list` with these tools, on one page.
pub(crate) fn tools(tools: &[Value]) -> Reply {
    Reply::Result(json!({ "tools": tools }))
}

/// A tool that takes anything.
pub(crate) fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

/// The answer to `tools/call` with this text.
pub(crate) fn text(text: &str) -> Reply {
    Reply::Result(json!({ "content": [{ "type": "text", "text": text }] }))
}

async fn serve(
    mut connection: HttpConnection,
    answer: Arc<Mutex<Arc<Answer>>>,
    refuses_replies: Arc<AtomicBool>,
    has_no_sessions: Arc<AtomicBool>,
) -> Option<()> {
    loop {
        let request = connection.read_request().await?;
        let message = message_of(&request);
        let (id, method) = (message["id"].clone(), message["method"].as_str());
        let reply = match (method, &id) {
            (Some("initialize"), _) => Reply::Result(json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "fake", "version": "0" },
            })),
            (None, _) if request.is_for("GET ") => {
                let answer = answer.lock().clone();
                answer("GET", &Value::Null)
            }
            (Some(method), id) if !id.is_null() => {
                let answer = answer.lock().clone();
                answer(method, &message["params"])
            }
            (None, _) if refuses_replies.load(Ordering::Relaxed) => {
                Reply::Raw("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".into())
            }
            // A notification, or an answer to what it asked.
            _ => Reply::Raw("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".into()),
        };
        let raw = match reply {
            Reply::Result(result) => {
                let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
                let session =
                    if has_no_sessions.load(Ordering::Relaxed) { "" } else { "\r\nmcp-session-id: s1" };
                head_of("application/json", &format!("content-length: {}{session}", body.len())) + &body
            }
            Reply::Events(messages) => {
                let events = messages.iter().map(|message| {
                    let message = message.replace("\"<id>\"", &id.to_string());
                    format!("event: message\ndata: {message}\n\n")
                });
                head_of("text/event-stream", "connection: close") + &events.collect::<String>()
            }
            Reply::Raw(raw) => raw,
            Reply::Close => return None,
            Reply::Hang => {
                std::future::pending::<()>().await;
                return None;
            }
        };
        if !connection.write(&raw).await || raw.contains("connection: close") {
            return None;
        }
    }
}

/// An HTTP status with an error that is of no request.
pub(crate) fn refusal(status: &str, reason: &str) -> Reply {
    let error = json!({ "code": -32000, "message": reason });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string();
    let length = body.len();
    Reply::Raw(format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    ))
}

/// Server-sent events as they are, and then the stream ends.
pub(crate) fn stream(events: &str) -> Reply {
    Reply::Raw(head_of("text/event-stream", "connection: close") + events)
}

fn head_of(kind: &str, more: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{more}\r\n\r\n")
}

/// The message in a request; null when there is none.
fn message_of(request: &HttpRequest) -> Value {
    serde_json::from_str(&request.body).unwrap_or_default()
}
