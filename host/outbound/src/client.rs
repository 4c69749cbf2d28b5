//! Requests of the service itself, whose bodies are in memory.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, Response, Uri};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::time::timeout;
use url::{Position, Url};

use crate::connect::Connection;
use crate::dialer::Dialer;
use crate::error::{ConnectError, Error};
use crate::origin::{Origin, Scheme};
use crate::pool::{Destination, PoolBounds};
use crate::resolve::{LookupBounds, SystemResolver};
use crate::ssrf_guard::Reach;
use crate::tls::{Tls, TlsError};

/// Lookups at once. Most clients have one owner.
const LOOKUPS: LookupBounds = LookupBounds { in_all: 64, per_owner: 16 };

/// Most bytes that are read until the head of a response is there: it, interim responses (1xx) before it, and
/// what is read ahead of its body.
const MOST_BEFORE_BODY: u64 = 256 * 1024;

/// An HTTP client. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Client {
    dialer: Arc<Dialer<Full<Bytes>>>,
    /// On whose behalf it asks.
    owner: Arc<str>,
    connect: Duration,
}

#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    /// An address without a user or a password, which are not sent.
    pub url: Url,
    /// Beside `host`, and beside `accept` and `user-agent`, which have a value by default.
    pub headers: HeaderMap,
    /// Sent with its length, unless it is empty.
    pub body: Bytes,
    /// Which addresses the host may have.
    pub reach: Reach,
}

/// The body of a response. Dropping it before its end closes the connection.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    address: SocketAddr,
    /// Who keeps the connection when the body has ended.
    connection: Option<ReusableConnection>,
}

#[derive(Debug)]
struct ReusableConnection {
    client: Client,
    to: Destination,
    connection: Connection<Full<Bytes>>,
}

/// Why a connection gave no response.
struct Unanswered {
    error: Error,
    /// The request, if nothing of it was sent.
    unsent: Option<Box<http::Request<Full<Bytes>>>>,
}

impl Request {
    /// A `POST` to a host that the operator named.
    pub fn post(url: Url, headers: HeaderMap, body: impl Into<Bytes>) -> Self {
        Self { method: Method::POST, url, headers, body: body.into(), reach: Reach::Any }
    }

    fn into_http(self, origin: &Origin) -> Result<http::Request<Full<Bytes>>, Error> {
        let asked = &self.url[Position::BeforePath..Position::AfterQuery];
        let mut request = http::Request::new(Full::new(self.body));
        *request.uri_mut() = Uri::try_from(asked).map_err(|_| Error::Address)?;
        *request.method_mut() = self.method;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        let name = concat!("agent-host/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(name));
        headers.extend(self.headers);
        headers.insert(HOST, HeaderValue::try_from(origin.authority()).map_err(|_| Error::Address)?);
        Ok(request)
    }
}

impl Client {
    /// Connects to nothing yet. `connect` is how long DNS, TCP and TLS may take together; without `tls`,
    /// every `https` request fails and says so.
    pub fn new(tls: Option<Tls>, connect: Duration, pool: PoolBounds) -> Self {
        let dialer = Arc::new(Dialer::new(Arc::new(SystemResolver), tls, LOOKUPS, pool));
        Self { dialer, owner: "".into(), connect }
    }

    /// A client of one of several owners, over the same dialer. Each owner has a share of the lookups, so
    /// that names of one which hang keep nobody else waiting, and connections of its own.
    #[must_use]
    pub fn on_behalf_of(&self, owner: &str) -> Self {
        Self { owner: owner.into(), ..self.clone() }
    }

    /// A client for that address. The system's certificates are not read for a plain one: a small container
    /// may not have any.
    pub fn for_url(url: &Url, connect: Duration, pool: PoolBounds) -> Result<Self, TlsError> {
        let tls = (url.scheme() == Scheme::Https.as_str()).then(Tls::system).transpose()?;
        Ok(Self::new(tls, connect, pool))
    }

    /// Sends a request and waits for the head of its response: on a connection that waits, or on a new one.
    /// It is sent twice only if nothing of it went out. Dropping the future closes the connection.
    pub async fn send(&self, request: Request) -> Result<Response<Body>, Error> {
        let to = self.destination(&request.url, request.reach)?;
        let mut request = request.into_http(&to.origin)?;
        while let Some(connection) = self.dialer.kept(&to) {
            match self.send_on(connection, &to, request).await {
                Ok(response) => return Ok(response),
                Err(Unanswered { unsent: Some(unsent), .. }) => request = *unsent,
                Err(unanswered) => return Err(unanswered.error),
            }
        }
        let within = self.connect;
        let connecting = timeout(within, self.dialer.connect(&to, within, within)).await;
        let connection = connecting.unwrap_or(Err(ConnectError::Timeout(within)))?;
        self.send_on(connection, &to, request).await.map_err(|unanswered| unanswered.error)
    }

    /// The addresses of a host that may be reached, of which there is one at least.
    pub async fn addresses(&self, url: &Url, reach: Reach) -> Result<Vec<IpAddr>, Error> {
        let to = self.destination(url, reach)?;
        Ok(self.dialer.addresses(&to, self.connect).await?)
    }

    fn destination(&self, url: &Url, reach: Reach) -> Result<Destination, Error> {
        let origin = Origin::of(url).ok_or(Error::Address)?;
        Ok(Destination { owner: self.owner.clone(), origin, reach })
    }

    async fn send_on(
        &self,
        mut connection: Connection<Full<Bytes>>,
        to: &Destination,
        request: http::Request<Full<Bytes>>,
    ) -> Result<Response<Body>, Unanswered> {
        connection.bound_reading(MOST_BEFORE_BODY);
        let response = connection.sender.try_send_request(request).await;
        let response = response.map_err(|mut unsent| Unanswered {
            error: Error::broken("client error (SendRequest): ", unsent.error()),
            unsent: unsent.take_message().map(Box::new),
        })?;
        // Whoever reads the body has a limit of their own.
        connection.bound_reading(u64::MAX);
        let (address, (head, incoming)) = (connection.address, response.into_parts());
        let connection = Some(ReusableConnection { client: self.clone(), to: to.clone(), connection });
        let mut body = Body { incoming, address, connection };
        if body.incoming.is_end_stream() {
            body.end().await;
        }
        Ok(Response::from_parts(head, body))
    }
}

impl Body {
    /// The address that the response came from.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the server said that its length is.
    pub fn content_length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    /// The next piece; none at the end, when the connection may serve the next request.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(frame) = self.incoming.frame().await {
            let frame = frame.map_err(|error| Error::broken("", &error))?;
            // Trailers are nobody's.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        self.end().await;
        Ok(None)
    }

    /// Appends what is left of it, unless that is more than `most` bytes. What came before an error is kept.
    pub async fn read_into(&mut self, read: &mut Vec<u8>, most: usize) -> Result<(), Error> {
        if self.content_length().is_some_and(|length| length > most as u64) {
            return Err(Error::TooLarge);
        }
        while let Some(chunk) = self.chunk().await? {
            if read.len() + chunk.len() > most {
                return Err(Error::TooLarge);
            }
            read.extend_from_slice(&chunk);
        }
        Ok(())
    }

    async fn end(&mut self) {
        if let Some(ReusableConnection { client, to, connection }) = self.connection.take() {
            client.dialer.keep(to, connection).await;
        }
    }
}

#[cfg(test)]
mod tests;
