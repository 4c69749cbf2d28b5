//! `GET /v1/responses` as a WebSocket: OpenAI's WebSocket mode of responses, of which `session` is one
//! connection.
//!
//! Shutdown waits for the task of a connection as for any connection, and permits of its own count it: hyper
//! hands it over with the answer, so that it is none of `MAX_CONNECTIONS` any more.

mod session;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::documented::in_form;
use super::responses::response_schema;
use http_edge::SOCKET_TASK;
use http_edge::openapi::{Operation, tags};
use http_edge::server_sent_events::ON_DISCONNECT;
use http_edge::variant_b::auth::Caller;
use http_edge::variant_b::error::{Error, Problem};
use http_edge::variant_b::state::Shared;
use session::Session;

/// Base64 of the 16 random bytes of a key (RFC 6455, section 4.1).
const KEY_BYTES: usize = 24;

pub(super) fn describe() -> Operation {
    Operation::new("connectResponses", tags::OPENAI, "Create responses over a WebSocket")
        .about(
            "OpenAI's WebSocket mode. Each message `response.create` has the fields of a request of `POST /v1/responses`, \
             and is answered by the events of its stream, a message each, one response after the other. \
             `previous_response_id` goes on from the connection's last response also with `store` false. What is wrong is \
             an `error` event. A connection lasts an hour.",
        )
        .defines(response_schema::all())
        .defines([(session::ERROR, session::error_schema())])
        .answers_nothing(StatusCode::SWITCHING_PROTOCOLS, "The connection is a WebSocket (RFC 6455, version 13)")
        .refuses([no_handshake(), too_many(), not_here()].map(in_form))
}

/// Opens the WebSocket. What is wrong before that is answered plainly.
pub(super) async fn open(
    State(edge): State<Shared>,
    caller: Caller,
    mut request: Request,
) -> Result<Response, Error> {
    let Some(streams) = edge.variant.streams.as_ref().filter(|_| !edge.settings.whole_answers) else {
        return Err(not_here().into());
    };
    // The route takes HEAD as well, as every GET does.
    let is_get = request.method() == Method::GET;
    let accept = accept(request.headers()).filter(|_| is_get).ok_or_else(no_handshake)?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>().ok_or_else(no_handshake)?;
    let permit = edge.sockets.acquire(caller.id()).ok_or_else(too_many)?;
    let session = Session {
        stopping: streams.shutdown().drained().clone(),
        address: request.extensions().get().copied(),
        headers: read_later(request.headers()),
        edge: edge.clone(),
        permit,
    };
    let work = async move {
        match upgrade.await {
            Ok(io) => session.serve(TokioIo::new(io)).await,
            Err(error) => tracing::debug!(%error, "a client left before its WebSocket was open"),
        }
    };
    edge.idempotency.spawn.spawn(SOCKET_TASK, Box::pin(work));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().extend([
        (CONNECTION, HeaderValue::from_static("upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_ACCEPT, accept),
    ]);
    Ok(response)
}

/// The headers of the handshake that messages are answered by: the token, and what becomes of a run whose
/// client leaves. They are copied, because a header that was read holds the whole head that it came in.
fn read_later(headers: &HeaderMap) -> HeaderMap {
    let copy = |name: HeaderName| {
        let sent = headers.get(&name)?;
        let mut value = HeaderValue::from_bytes(sent.as_bytes()).ok()?;
        value.set_sensitive(sent.is_sensitive());
        Some((name, value))
    };
    [AUTHORIZATION, ON_DISCONNECT].into_iter().filter_map(copy).collect()
}

/// What proves that the handshake was read, if the request begins one (RFC 6455, section 4.2).
fn accept(headers: &HeaderMap) -> Option<HeaderValue> {
    let has = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    let begins = has(UPGRADE, "websocket") && has(CONNECTION, "upgrade") && has(SEC_WEBSOCKET_VERSION, "13");
    // Frames that follow the head would be taken for the body that it announces.
    let has_body = headers.contains_key(TRANSFER_ENCODING)
        || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| begins && !has_body && key.len() == KEY_BYTES)?;
    HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok()
}

fn no_handshake() -> Problem {
    Problem::socket(
        StatusCode::UPGRADE_REQUIRED,
        "upgrade_required",
        "This is a WebSocket, of version 13 over HTTP/1.1: connect with a WebSocket client, or send `POST /v1/responses`.",
    )
}

fn too_many() -> Problem {
    Problem::socket(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_websockets",
        "Too many WebSockets are open: close one, or send `POST /v1/responses` with `stream` true.",
    )
}

fn not_here() -> Problem {
    Problem::socket(
        StatusCode::NOT_IMPLEMENTED,
        "websocket_not_supported",
        "There are no WebSockets here, where answers are passed on whole: send `POST /v1/responses`.",
    )
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_connection_keeps_two_headers_and_nothing_of_the_head_around_them() {
        let head = Bytes::from(["Bearer t", &"x".repeat(60 << 10)].concat());
        let of = |range: Range<usize>| HeaderValue::from_maybe_shared(head.slice(range)).unwrap();
        let headers = HeaderMap::from_iter([
            (AUTHORIZATION, of(0..8)),
            (ON_DISCONNECT, HeaderValue::from_static("continue")),
            (UPGRADE, HeaderValue::from_static("websocket")),
            (HeaderName::from_static("cookie"), of(8..head.len())),
        ]);
        let kept = read_later(&headers);
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[AUTHORIZATION], "Bearer t");
        assert_eq!(kept[ON_DISCONNECT], "continue");
        drop(headers);
        assert!(head.is_unique(), "the head can be given back");
        assert!(read_later(&HeaderMap::new()).is_empty());
    }
}
