//! A provider that answers at once, or late when it is told to, on a thread of its own.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::serve::ListenerExt;

/// Starts it: where it listens.
pub(crate) fn start() -> SocketAddr {
    serve(Router::new().route("/v1/chat/completions", post(answer)))
}

/// Serves anything that is to be as quick as it gets.
pub(crate) fn serve(router: Router) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let listener = listener.tap_io(|socket| socket.set_nodelay(true).unwrap());
            axum::serve(listener, router).await.unwrap();
        });
    });
    address
}

/// How long an answer takes whose user has time.
pub(crate) const LATE: Duration = Duration::from_millis(100);

/// Asks for a tool when the user wants one and has none yet; else says the same thing always. What it sends
/// is fixed bytes, and looking for a word is all it does to choose.
async fn answer(body: Bytes) -> impl IntoResponse {
    let has = |needle: &[u8]| body.windows(needle.len()).any(|window| window == needle);
    if has(b"take your time") {
        tokio::time::sleep(LATE).await;
    }
    let reply = if has(b"use the tool") && !has(b"\"role\":\"tool\"") { ASKS } else { SAYS };
    ([(CONTENT_TYPE, "application/json")], reply)
}

pub(crate) const SAYS: &str = r#"{"id":"1","object":"chat.completion","model":"bench","choices":[{"index":0,
    "message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],
    "usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}"#;

const ASKS: &str = r#"{"id":"1","object":"chat.completion","model":"bench","choices":[{"index":0,
    "message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",
    "function":{"name":"calculate","arguments":"{\"expression\":\"2*(3+4)-1/4\"}"}}]},"finish_reason":"tool_calls"}],
    "usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}"#;
