//! The last response of a WebSocket that no store has (`store: false`): the next one of the connection may go
//! on from it, and nobody else.
//!
//! A request that names it takes it, and the response of that request takes its place. So one that fails
//! leaves nothing, as the protocol wants it.

use std::sync::Arc;

use agent_core::words::Turn;
use parking_lot::Mutex;

/// A response with all that was said until then.
#[derive(Debug, Clone)]
pub(crate) struct LastResponse {
    pub(crate) id: String,
    pub(crate) turns: Vec<Turn>,
    /// What its client was shown, as JSON.
    pub(crate) shown: String,
}

/// What a connection remembers. Clones are of the same connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfConnection {
    last: Arc<Mutex<Option<LastResponse>>>,
    /// What the request goes on from, if that is it.
    pub(crate) previous: Option<Arc<LastResponse>>,
}

/// Two are equal that are of the same connection.
impl PartialEq for OfConnection {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.last, &other.last)
    }
}

impl Eq for OfConnection {}

impl OfConnection {
    /// As a request sees it that goes on from that response.
    pub(crate) fn before(&self, previous: Option<&str>) -> Self {
        let taken = self.last.lock().take_if(|last| Some(last.id.as_str()) == previous);
        Self { last: self.last.clone(), previous: taken.map(Arc::new) }
    }

    pub(crate) fn keep(&self, response: LastResponse) {
        *self.last.lock() = Some(response);
    }
}
