//! Connections: TCP to a checked address, TLS by the host's name, HTTP/1.1.
//!
//! There is no proxy, whatever the environment says. Which addresses may be tried is `ssrf_guard` and
//! `resolve`; who uses a connection again is `pool`.

use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http_body::Body;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{self, Handle};
use tokio::time::{sleep, timeout};
use url::Url;

use crate::error::ConnectError;
use crate::origin::{Origin, Scheme};
use crate::read_bound::{BoundedStream, ReadBound};
use crate::ssrf_guard::AllowedAddr;
use crate::task::OwnedTask;
use crate::tls::Tls;

/// Most addresses that are tried.
const MAX_TRIED: usize = 6;

/// How long an address has before the next one is tried beside it (RFC 8305, 5: "Connection Attempt Delay").
const ATTEMPT_DELAY: Duration = Duration::from_millis(300);

/// How long a connection is silent before the system asks whether the other side is there, and again, and how
/// often. A server that thinks for long keeps its connection, and a network that has gone is noticed.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 3;

/// How long what was sent may stay unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Most headers of a response, and most bytes of them.
const MAX_RESPONSE_HEADERS: usize = 128;
const MAX_RESPONSE_HEAD_BYTES: usize = 32 * 1024;

/// Most bytes that a connection reads ahead. At least what a head may have.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// What is sent on a connection.
pub trait RequestBody:
    Body<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static
{
}

impl<B> RequestBody for B where
    B: Body<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static
{
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub struct Connection<B> {
    /// Sends one request after another.
    pub sender: SendRequest<B>,
    /// What it is connected to.
    pub address: SocketAddr,
    /// Whose thread does its I/O.
    pub(crate) runtime: runtime::Id,
    bound: ReadBound,
    _driver: OwnedTask,
}

impl<B> Connection<B> {
    /// From now on no more is read than so many bytes, those included that no reader of a body is given. More
    /// of them end the connection, with an error that [`is_beyond_bound`](crate::is_beyond_bound) knows.
    pub fn bound_reading(&self, bytes: u64) {
        self.bound.set(bytes);
    }
}

/// Connects to whichever of the addresses answers first. They are tried in turn, each when the one before it
/// has failed or been silent for a moment.
pub(crate) async fn connect<B: RequestBody>(
    tls: Option<&Tls>,
    origin: &Origin,
    addresses: &[AllowedAddr],
    within: Duration,
) -> Result<Connection<B>, ConnectError> {
    let mut untried = addresses.iter().take(MAX_TRIED);
    let connecting = async {
        let (mut under_way, mut last) = (FuturesUnordered::new(), ConnectError::Timeout(within));
        loop {
            match untried.next() {
                Some(address) => under_way.push(connect_to(tls, origin, *address)),
                None if under_way.is_empty() => return Err(last),
                None => {}
            }
            tokio::select! {
                Some(made) = under_way.next() => match made {
                    Ok(connection) => return Ok(connection),
                    Err(error) => last = error,
                },
                () = sleep(ATTEMPT_DELAY), if untried.len() > 0 => {}
            }
        }
    };
    timeout(within, connecting).await.unwrap_or(Err(ConnectError::Timeout(within)))
}

async fn connect_to<B: RequestBody>(
    tls: Option<&Tls>,
    origin: &Origin,
    address: AllowedAddr,
) -> Result<Connection<B>, ConnectError> {
    let address = address.socket_addr();
    let stream = TcpStream::connect(address).await.map_err(|error| failed(&error))?;
    // A request is one small write followed by a wait, which Nagle's algorithm would delay.
    stream.set_nodelay(true).map_err(|error| failed(&error))?;
    if let Err(error) = watch_the_other_side(&stream) {
        tracing::debug!(%error, "a connection is not watched by the system");
    }
    let connection = match (origin.scheme, tls) {
        (Scheme::Http, _) => speak_http(stream, address).await,
        (Scheme::Https, Some(tls)) => speak_http(tls.handshake(&origin.host, stream).await?, address).await,
        (Scheme::Https, None) => Err(ConnectError::Certificate("no authority is trusted here".to_owned())),
    };
    tracing::debug!(host = origin.host.as_str(), %address, is_open = connection.is_ok(), "connected");
    connection
}

fn watch_the_other_side(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(())
}

async fn speak_http<B: RequestBody, T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: T,
    address: SocketAddr,
) -> Result<Connection<B>, ConnectError> {
    let bound = ReadBound::none();
    let stream = BoundedStream { inner: stream, bound: bound.clone() };
    let made = http1::Builder::new()
        .max_headers(MAX_RESPONSE_HEADERS)
        .max_header_size(MAX_RESPONSE_HEAD_BYTES)
        .max_buf_size(READ_BUFFER_BYTES)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, connection) = made.map_err(|error| ConnectError::Failed(error.to_string()))?;
    let runtime = Handle::current();
    let driver = OwnedTask::begin(&runtime, async move {
        // silent-ok: whoever waits for a response on this connection gets the error.
        let _ended = connection.await;
    });
    Ok(Connection { sender, address, runtime: runtime.id(), bound, _driver: driver })
}

/// Whether a server takes connections: one is made, to any address, and closed.
pub async fn probe(url: &Url) -> io::Result<()> {
    let origin = Origin::of(url).ok_or_else(|| io::Error::other("that is no address of HTTP"))?;
    TcpStream::connect((origin.host.as_str(), origin.port)).await.map(drop)
}

fn failed(error: &io::Error) -> ConnectError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ConnectError::Refused(error.to_string()),
        _ => ConnectError::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
