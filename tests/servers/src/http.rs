//! An HTTP/1.1 server by hand, for tests that decide what is answered byte for byte.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::waiting::Task;

type Requests = Arc<Mutex<Vec<HttpRequest>>>;

/// A server on a free port of this machine. Dropping it closes its connections.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    requests: Requests,
    _serving: Task<()>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// The request line and the headers, with the empty line that ends them.
    pub head: String,
    /// The body, which has to be text.
    pub body: String,
}

/// A client's connection, from which requests are read one after the other.
pub struct HttpConnection {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
    requests: Requests,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl HttpServer {
    /// Serves each connection as the function does, and closes it when that has ended.
    pub async fn start<F, T>(serve: F) -> Self
    where
        F: Fn(HttpConnection) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("any free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (accepted, requests) = (Arc::<AtomicUsize>::default(), Requests::default());
        let (count, noted) = (accepted.clone(), requests.clone());
        let serving = Task::begin(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a listener that accepts");
                count.fetch_add(1, Ordering::SeqCst);
                let connection = HttpConnection { requests: noted.clone(), ..HttpConnection::over(stream) };
                connections.spawn(serve(connection));
            }
        });
        Self { address, accepted, requests, _serving: serving }
    }

    /// Answers one request of each connection with what the function gives, byte for byte.
    pub async fn answering(answer: impl Fn(&HttpRequest) -> String + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::start(move |mut connection| {
            let answer = answer.clone();
            async move {
                if let Some(request) = connection.read_request().await {
                    connection.write(answer(&request)).await;
                }
            }
        })
        .await
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections were made to it.
    pub fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Every request so far, in their order.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.requests.lock().clone()
    }
}

impl HttpRequest {
    /// Method, target and version.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// Whether that is part of its request line.
    pub fn is_for(&self, part: &str) -> bool {
        self.line().contains(part)
    }

    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        found.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

impl HttpConnection {
    /// Reads requests from any stream, such as one within TLS.
    pub fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { stream: Box::new(stream), buffer: Vec::new(), requests: Requests::default() }
    }

    /// The next request with its whole body; nothing when the client has closed the connection.
    pub async fn read_request(&mut self) -> Option<HttpRequest> {
        let mut request = self.head().await?;
        let length =
            request.header("content-length").map(|length| length.parse::<usize>().expect("a length"));
        let body = if let Some(length) = length {
            self.fill(length).await?;
            self.buffer.drain(..length).collect()
        } else if request.header("transfer-encoding").is_some() {
            self.read_chunks().await?
        } else {
            Vec::new()
        };
        request.body = String::from_utf8(body).expect("bodies of tests are text");
        self.requests.lock().push(request.clone());
        Some(request)
    }

    /// The next request without its body, which stays unread.
    pub async fn read_head(&mut self) -> Option<HttpRequest> {
        let request = self.head().await?;
        self.requests.lock().push(request.clone());
        Some(request)
    }

    /// Writes these bytes. It is false when the client has gone.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// Waits until the client closes the connection.
    pub async fn wait_for_close(&mut self) {
        while self.read_more().await.is_some() {}
    }

    /// Takes what came and was not read as a request.
    pub fn unread(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    async fn head(&mut self) -> Option<HttpRequest> {
        let head = self.read_until(b"\r\n\r\n").await?;
        Some(HttpRequest { head, body: String::new() })
    }

    async fn read_chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = self.read_until(b"\r\n").await?;
            let size = usize::from_str_radix(size.trim(), 16).expect("the size of a chunk");
            self.fill(size + 2).await?;
            body.extend(self.buffer.drain(..size));
            self.buffer.drain(..2);
            if size == 0 {
                return Some(body);
            }
        }
    }

    /// Text up to these bytes, and them.
    async fn read_until(&mut self, end: &[u8]) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|window| window == end) {
                let text = self.buffer.drain(..at + end.len()).collect();
                return Some(String::from_utf8(text).expect("heads of tests are text"));
            }
            self.read_more().await?;
        }
    }

    async fn fill(&mut self, length: usize) -> Option<()> {
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        Some(())
    }

    async fn read_more(&mut self) -> Option<()> {
        let read = self.stream.read_buf(&mut self.buffer).await.ok()?;
        (read > 0).then_some(())
    }
}
