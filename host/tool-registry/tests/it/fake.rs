//! A registry that answers what a test says, on a real socket. Each connection is for one request.

use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use test_servers::Task;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A registry that answers as it was told to.
pub(crate) struct Fake {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    _serving: Task<()>,
}

/// A request that it got.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// `GET /v2/…`
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// What it answers.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Sends these bytes, and then the connection is closed.
    Whole(Vec<u8>),
    /// The server sends these bytes, and then nothing for ever.
    Stalled(Vec<u8>),
    /// Sends these bytes, and then one more in each such time.
    Dripping(Vec<u8>, Duration),
    /// The server sends these bytes, and then more without end.
    Endless(Vec<u8>),
}

impl Fake {
    pub(crate) async fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let (noted, answer) = (requests.clone(), Arc::new(answer));
        let serving = Task::begin(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (noted, answer) = (noted.clone(), answer.clone());
                connections.spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let Some(request) = read(&mut stream).await else { return };
                    noted.lock().push(request.clone());
                    let reply = answer(&request);
                    write(stream.into_inner(), reply).await;
                });
            }
        });
        Self { address, requests, _serving: serving }
    }

    /// `host:port`.
    pub(crate) fn name(&self) -> String {
        self.address.to_string()
    }

    /// `oci://host:port/adder:1`.
    pub(crate) fn reference(&self) -> String {
        format!("oci://{}/adder:1", self.address)
    }

    /// What it was asked, in order.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().clone()
    }

    /// A text that names it, with `REGISTRY` for its address.
    pub(crate) fn anonymous(&self, text: &impl ToString) -> String {
        text.to_string().replace(&self.name(), "REGISTRY")
    }
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_for(&self, part: &str) -> bool {
        self.line.contains(part)
    }
}

impl Reply {
    pub(crate) fn new(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = format!("content-length: {}\r\n", body.len());
        Self::Whole([head(status, headers, &length).as_slice(), body].concat())
    }

    pub(crate) fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::new(200, &[], body)
    }

    pub(crate) fn not_found() -> Self {
        Self::new(404, &[], "{}")
    }
}

/// A status line and headers.
pub(crate) fn head(status: u16, headers: &[(&str, &str)], more: &str) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n{headers}{more}\r\n").into_bytes()
}

/// Reads a request without a body, or with one that is not looked at.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let mut lines = lines.into_iter();
    let line = lines.next()?;
    let headers = lines.filter_map(|line| line.split_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned())));
    Some(Request { line, headers: headers.collect() })
}

/// A client that has heard enough hangs up, which is no fault here.
async fn write(mut stream: TcpStream, reply: Reply) {
    let (Reply::Whole(first) | Reply::Stalled(first) | Reply::Dripping(first, _) | Reply::Endless(first)) =
        &reply;
    let mut written = stream.write_all(first).await;
    match reply {
        Reply::Whole(_) => {}
        Reply::Stalled(_) => std::future::pending().await,
        Reply::Dripping(_, every) => {
            while written.is_ok() {
                tokio::time::sleep(every).await;
                written = stream.write_all(b"x").await;
            }
        }
        Reply::Endless(_) => {
            while written.is_ok() {
                written = stream.write_all(&[0; 4096]).await;
            }
        }
    }
}
