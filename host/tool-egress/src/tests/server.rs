//! Local servers that speak HTTP by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// A server on a free port of this machine. It ends with the test's runtime.
pub(crate) struct Server {
    pub address: SocketAddr,
    /// What it was asked.
    pub received: mpsc::UnboundedReceiver<Received>,
    /// Connections whose clients have closed them.
    pub closed: mpsc::UnboundedReceiver<()>,
    accepted: Arc<AtomicUsize>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub head: String,
    pub body: String,
}

/// One connection of a server.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
    /// Whether writing failed.
    broken: bool,
    received: mpsc::UnboundedSender<Received>,
    closed: mpsc::UnboundedSender<()>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Server {
    /// Answers every request with what the function gives, byte for byte.
    pub(crate) async fn answering(answer: impl Fn(&Received) -> String + Clone + Send + 'static) -> Self {
        Self::serving(None, answering(answer)).await
    }

    pub(crate) async fn over_tls(
        tls: TlsAcceptor,
        answer: impl Fn(&Received) -> String + Clone + Send + 'static,
    ) -> Self {
        Self::serving(Some(tls), answering(answer)).await
    }

    /// Serves each connection as the function does.
    pub(crate) async fn scripted<F, T>(serve: F) -> Self
    where
        F: Fn(Connection) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        Self::serving(None, serve).await
    }

    #[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
    async fn serving<F, T>(tls: Option<TlsAcceptor>, serve: F) -> Self
    where
        F: Fn(Connection) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (received_by, received) = mpsc::unbounded_channel();
        let (closed_by, closed) = mpsc::unbounded_channel();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let stream: Box<dyn Stream> = match &tls {
                    None => Box::new(stream),
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => Box::new(stream),
                        Err(_refused) => continue,
                    },
                };
                tokio::spawn(serve(Connection {
                    stream,
                    buffer: vec![],
                    broken: false,
                    received: received_by.clone(),
                    closed: closed_by.clone(),
                }));
            }
        });
        Self { address, received, closed, accepted }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// A URL by a name, which the fake resolver turns into this machine.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://example.test:{}{path}", self.port())
    }

    pub(crate) fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) async fn next(&mut self) -> Received {
        self.received.recv().await.unwrap()
    }
}

fn answering(
    answer: impl Fn(&Received) -> String + Clone + Send + 'static,
) -> impl Fn(Connection) -> futures::future::BoxFuture<'static, ()> {
    move |mut connection| {
        let answer = answer.clone();
        Box::pin(async move {
            while let Some(received) = connection.read_request().await {
                connection.write(answer(&received)).await;
            }
        })
    }
}

impl Received {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        found.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

impl Connection {
    /// The next request with its whole body. None if the client closed the connection.
    pub(crate) async fn read_request(&mut self) -> Option<Received> {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            self.read_more().await?;
        };
        let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).unwrap();
        let mut received = Received { head, body: String::new() };
        let length = received.header("content-length").map(|length| length.parse::<usize>().unwrap());
        let body = if let Some(length) = length {
            while self.buffer.len() < length {
                self.read_more().await?;
            }
            self.buffer.drain(..length).collect()
        } else if received.header("transfer-encoding").is_some() {
            self.read_chunks().await?
        } else {
            vec![]
        };
        received.body = String::from_utf8(body).unwrap();
        let _ = self.received.send(received.clone());
        Some(received)
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // The client may have gone; tests look at its side.
        let written =
            self.stream.write_all(bytes.as_ref()).await.is_ok() && self.stream.flush().await.is_ok();
        if !written && !self.broken {
            self.broken = true;
            let _ = self.closed.send(());
        }
    }

    /// Waits until the client closes the connection.
    pub(crate) async fn wait_for_close(&mut self) {
        while self.read_more().await.is_some() {}
    }

    /// What came and was not read as a request.
    pub(crate) fn unread(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Whether writing failed: the client has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.broken
    }

    async fn read_chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = vec![];
        loop {
            let line = loop {
                if let Some(end) = find(&self.buffer, b"\r\n") {
                    break self.buffer.drain(..end + 2).collect::<Vec<_>>();
                }
                self.read_more().await?;
            };
            let size = String::from_utf8(line).unwrap();
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            while self.buffer.len() < size + 2 {
                self.read_more().await?;
            }
            body.extend(self.buffer.drain(..size));
            self.buffer.drain(..2);
            if size == 0 {
                return Some(body);
            }
        }
    }

    async fn read_more(&mut self) -> Option<()> {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(read) if read > 0 => Some(()),
            _ => {
                let _ = self.closed.send(());
                None
            }
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// A whole response with a body of known length.
pub(crate) fn ok(body: impl AsRef<str>) -> String {
    let body = body.as_ref();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
