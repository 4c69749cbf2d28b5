//! Reading what a registry sends, within limits.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Response;
use http::header::CONTENT_ENCODING;
use outbound::Body;
use tokio::time::timeout;

use crate::error::Error;
use crate::reference::shown;

/// What is read, and how much of it at most.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    pub(crate) registry: &'a str,
    pub(crate) what: &'static str,
    pub(crate) most: u64,
    /// What to do about too much.
    pub(crate) mend: &'static str,
    pub(crate) stall: Duration,
}

/// Reads a body whole, and reports how much of it is there after each piece.
pub(crate) async fn read(
    mut response: Response<Body>,
    bounds: Bounds<'_>,
    mut progress: impl FnMut(u64),
) -> Result<Bytes, Error> {
    let Bounds { registry, what, most, mend, stall } = bounds;
    if let Some(encoding) = response.headers().get(CONTENT_ENCODING).filter(|value| *value != "identity") {
        let encoding = shown(&String::from_utf8_lossy(encoding.as_bytes()));
        return Err(Error::Encoded { registry: registry.to_owned(), what, encoding });
    }
    let too_large = || Error::TooLarge { registry: registry.to_owned(), what, most, mend };
    if response.body().content_length().is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let mut received = BytesMut::new();
    loop {
        let piece = timeout(stall, response.body_mut().chunk()).await;
        let piece = piece.map_err(|_| Error::Stalled { registry: registry.to_owned(), limit: stall })?;
        let Some(piece) = piece.map_err(|error| unreachable(registry, &error))? else { break };
        if (received.len() + piece.len()) as u64 > most {
            return Err(too_large());
        }
        received.extend_from_slice(&piece);
        progress(received.len() as u64);
    }
    Ok(received.freeze())
}

/// The causes of an error, each of them short.
pub(crate) fn unreachable(registry: &str, error: &outbound::Error) -> Error {
    let cause = error.to_string().split(": ").map(shown).collect::<Vec<_>>().join(": ");
    Error::Unreachable { registry: registry.to_owned(), cause }
}
