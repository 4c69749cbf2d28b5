//! A provider that answers at once: with a tool call to what has no result of a tool yet, with another one to
//! what has one, with an answer to what has two. For the kills it notes what it is asked for one run, and
//! holds one of its calls.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::json;

use crate::measuring::provider::serve;

/// The call that ends a run, counted from 0.
pub(crate) const LAST_CALL: usize = 2;

pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    watched: Arc<Mutex<Option<Watched>>>,
}

/// A run that is looked at.
struct Watched {
    run: usize,
    holds_last: bool,
    asked: Sender<Asked>,
}

/// A model call of the run that is looked at.
pub(crate) struct Asked {
    pub(crate) call: usize,
    pub(crate) at: Instant,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let watched = Arc::default();
        let router = Router::new().route("/v1/chat/completions", post(answer));
        Self { address: serve(router.with_state(Arc::clone(&watched))), watched }
    }

    /// Tells of each call of that run from now on, and holds the last one until [`Self::release`].
    pub(crate) fn watch(&self, run: usize) -> Receiver<Asked> {
        let (asked, told) = mpsc::channel();
        *self.watched.lock() = Some(Watched { run, holds_last: true, asked });
        told
    }

    /// Answers again what is asked from now on. What was held is never answered.
    pub(crate) fn release(&self) {
        if let Some(watched) = &mut *self.watched.lock() {
            watched.holds_last = false;
        }
    }
}

/// What the user of that run says.
pub(crate) fn query(run: usize) -> String {
    format!("run-{run}: use the tool twice")
}

/// What the run answers in the end.
pub(crate) fn expected(run: usize) -> String {
    format!("the answer of run-{run}.")
}

async fn answer(State(watched): State<Arc<Mutex<Option<Watched>>>>, body: Bytes) -> impl IntoResponse {
    let text = std::str::from_utf8(&body).unwrap();
    let (run, call) = (run_in(text), text.matches("\"tool_call_id\"").count());
    if is_held(watched.lock().as_ref(), run, call) {
        std::future::pending::<()>().await;
    }
    ([(CONTENT_TYPE, "application/json")], reply(run, call))
}

fn is_held(watched: Option<&Watched>, run: usize, call: usize) -> bool {
    let Some(watched) = watched.filter(|watched| watched.run == run) else { return false };
    let _nobody_looks_any_more = watched.asked.send(Asked { call, at: Instant::now() });
    watched.holds_last && call == LAST_CALL
}

fn run_in(text: &str) -> usize {
    let (_, rest) = text.split_once("run-").unwrap_or_default();
    rest.split(|c: char| !c.is_ascii_digit())
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

fn reply(run: usize, call: usize) -> String {
    // No two calls are equal: an answer of a tool that is pure may be given again.
    let arguments = json!({ "expression": format!("{run} * (3 + {call}) - 1 / 4") }).to_string();
    let function = json!({ "name": "calculate", "arguments": arguments });
    let calls = json!([{ "id": format!("call_{}", call + 1), "type": "function", "function": function }]);
    let (message, reason) = match call {
        LAST_CALL.. => (json!({ "role": "assistant", "content": expected(run) }), "stop"),
        _ => (json!({ "role": "assistant", "content": null, "tool_calls": calls }), "tool_calls"),
    };
    let choice = json!({ "index": 0, "message": message, "finish_reason": reason });
    let usage = json!({ "prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25 });
    json!({ "id": "1", "object": "chat.completion", "model": "bench", "choices": [choice], "usage": usage })
        .to_string()
}
