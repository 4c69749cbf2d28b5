//! A registry that answers what a test says, on a real socket. Each connection is for one request.

use std::sync::Arc;
use std::time::Duration;

pub(crate) use test_servers::HttpRequest as Request;
use test_servers::{HttpConnection, HttpServer};

/// A registry that answers as it was told to.
pub(crate) struct Fake(HttpServer);

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
        let answer = Arc::new(answer);
        let serve = move |mut connection: HttpConnection| {
            let answer = answer.clone();
            async move {
                // A body is not looked at.
                let Some(request) = connection.read_head().await else { return };
                write(connection, answer(&request)).await;
            }
        };
        Self(HttpServer::start(serve).await)
    }

    /// `host:port`.
    pub(crate) fn name(&self) -> String {
        self.0.address().to_string()
    }

    /// `oci://host:port/adder:1`.
    pub(crate) fn reference(&self) -> String {
        format!("oci://{}/adder:1", self.0.address())
    }

    /// What it was asked, in order.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.0.requests()
    }

    /// A text that names it, with `REGISTRY` for its address.
    pub(crate) fn anonymous(&self, text: &impl ToString) -> String {
        text.to_string().replace(&self.name(), "REGISTRY")
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

pub(crate) fn head(status: u16, headers: &[(&str, &str)], more: &str) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n{headers}{more}\r\n").into_bytes()
}

/// A client that has heard enough hangs up, which is no fault here.
async fn write(mut connection: HttpConnection, reply: Reply) {
    let (Reply::Whole(first) | Reply::Stalled(first) | Reply::Dripping(first, _) | Reply::Endless(first)) =
        &reply;
    let mut written = connection.write(first).await;
    match reply {
        Reply::Whole(_) => {}
        Reply::Stalled(_) => std::future::pending().await,
        Reply::Dripping(_, every) => {
            while written {
                tokio::time::sleep(every).await;
                written = connection.write(b"x").await;
            }
        }
        Reply::Endless(_) => {
            while written {
                written = connection.write(&[0_u8; 4096]).await;
            }
        }
    }
}
