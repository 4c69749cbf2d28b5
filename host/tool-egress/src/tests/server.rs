//! Local servers that speak HTTP by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use test_servers::{HttpConnection, HttpRequest};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// A server on a free port of this machine. It ends with the test's runtime.
pub(crate) struct Server {
    pub address: SocketAddr,
    pub received: mpsc::UnboundedReceiver<HttpRequest>,
    /// Connections whose clients have closed them.
    pub closed: mpsc::UnboundedReceiver<()>,
    accepted: Arc<AtomicUsize>,
}

pub(crate) struct Connection {
    http: HttpConnection,
    /// Whether writing failed.
    broken: bool,
    received: mpsc::UnboundedSender<HttpRequest>,
    closed: mpsc::UnboundedSender<()>,
}

impl Server {
    /// Answers every request with what the function gives, byte for byte.
    pub(crate) async fn answering(answer: impl Fn(&HttpRequest) -> String + Clone + Send + 'static) -> Self {
        Self::serving(None, answering(answer)).await
    }

    pub(crate) async fn over_tls(
        tls: TlsAcceptor,
        answer: impl Fn(&HttpRequest) -> String + Clone + Send + 'static,
    ) -> Self {
        Self::serving(Some(tls), answering(answer)).await
    }

    /// Reads a request, answers it with this, and waits until its client has gone.
    pub(crate) async fn saying_once(answer: &'static str) -> Self {
        Self::scripted(move |mut connection| async move {
            connection.read_request().await.unwrap();
            connection.write(answer).await;
            connection.wait_for_close().await;
        })
        .await
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
                let http = match &tls {
                    None => HttpConnection::over(stream),
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => HttpConnection::over(stream),
                        Err(_refused) => continue,
                    },
                };
                tokio::spawn(serve(Connection {
                    http,
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

    pub(crate) async fn next(&mut self) -> HttpRequest {
        self.received.recv().await.unwrap()
    }
}

fn answering(
    answer: impl Fn(&HttpRequest) -> String + Clone + Send + 'static,
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

impl Connection {
    /// The next request with its whole body. None if the client closed the connection.
    pub(crate) async fn read_request(&mut self) -> Option<HttpRequest> {
        let received = self.http.read_request().await;
        if let Some(received) = &received {
            let _ = self.received.send(received.clone());
        } else {
            let _ = self.closed.send(());
        }
        received
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // The client may have gone; tests look at its side.
        if !self.http.write(bytes).await && !self.broken {
            self.broken = true;
            let _ = self.closed.send(());
        }
    }

    /// Waits until the client closes the connection.
    pub(crate) async fn wait_for_close(&mut self) {
        self.http.wait_for_close().await;
        let _ = self.closed.send(());
    }

    /// What came and was not read as a request.
    pub(crate) fn unread(&mut self) -> Vec<u8> {
        self.http.unread()
    }

    /// Whether writing failed: the client has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.broken
    }
}

/// A whole response with a body of known length.
pub(crate) fn ok(body: impl AsRef<str>) -> String {
    let body = body.as_ref();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
