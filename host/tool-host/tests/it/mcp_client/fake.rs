//! An MCP server over HTTP, by hand: it says whatever a test has it say.
#![expect(clippy::disallowed_methods, reason = "a server of a test runs beside it")]

use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What it answers to a message.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Answers with this result.
    Result(Value),
    /// Server-sent events with these messages, and then the stream ends.
    Events(Vec<String>),
    /// A head and a body.
    Raw(String),
    /// The connection is closed.
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

/// A server on a free port of this machine. It ends with the test's runtime.
pub(crate) struct Fake {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    answer: Arc<Mutex<Arc<Answer>>>,
    refuses_replies: Arc<AtomicBool>,
}

impl Fake {
    /// One that answers the handshake, and every other request by its method and parameters as the function
    /// says.
    pub(crate) async fn new(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let answer: Arc<Answer> = Arc::new(answer);
        let this = Self {
            address: listener.local_addr().unwrap(),
            received: Arc::default(),
            answer: Arc::new(Mutex::new(answer)),
            refuses_replies: Arc::default(),
        };
        let (received, answer) = (this.received.clone(), this.answer.clone());
        let refuses_replies = this.refuses_replies.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (received, answer) = (received.clone(), answer.clone());
                tokio::spawn(serve(stream, received, answer, refuses_replies.clone()));
            }
        });
        this
    }

    /// Answers otherwise from now on.
    pub(crate) fn answers(&self, answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) {
        *self.answer.lock() = Arc::new(answer);
    }

    /// Knows the session no longer when what it asked for is answered, from now on.
    pub(crate) fn refuses_replies(&self) {
        self.refuses_replies.store(true, Ordering::Relaxed);
    }

    /// The lines of a policy that let it in as `docs`, with these beside them.
    pub(crate) fn policy(&self, lines: &str) -> String {
        let url = format!("http://{}/mcp", self.address);
        format!("[[mcp]]\nname = \"docs\"\nurl = \"{url}\"\nplain-http = true\nprivate = true\n{lines}\n")
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
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
    mut stream: TcpStream,
    received: Arc<Mutex<Vec<Received>>>,
    answer: Arc<Mutex<Arc<Answer>>>,
    refuses_replies: Arc<AtomicBool>,
) -> Option<()> {
    let mut buffer = vec![];
    loop {
        let (head, body) = Box::pin(read(&mut stream, &mut buffer)).await?;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        received.lock().push(Received { head, message: message.clone() });
        let (id, method) = (message["id"].clone(), message["method"].as_str());
        let reply = match (method, &id) {
            (Some("initialize"), _) => Reply::Result(json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "fake", "version": "0" },
            })),
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
                head_of("application/json", &format!("content-length: {}\r\nmcp-session-id: s1", body.len()))
                    + &body
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
        stream.write_all(raw.as_bytes()).await.ok()?;
        if raw.contains("connection: close") {
            return None;
        }
    }
}

fn head_of(kind: &str, more: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{more}\r\n\r\n")
}

/// A head and its body. Nothing when the connection has ended.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if buffer.len() >= end + 4 + length {
                let body = buffer[end + 4..end + 4 + length].to_vec();
                buffer.drain(..end + 4 + length);
                return Some((head, body));
            }
        }
        let mut piece = [0; 16 << 10];
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        buffer.extend_from_slice(&piece[..read]);
    }
}
