//! Calls that a later message may cancel (`notifications/cancelled`). It comes as a request of its own over
//! HTTP, so the calls under way in this process are known by whose they are and by what the client calls
//! them.
//!
//! A client whose message reaches another replica cancels nothing there, which the protocol allows: it leaves
//! as well, or the call ends at its deadline.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// What a client calls a call: only its own messages name it, because the user is part of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallId {
    pub user_id: String,
    /// Request ids are unique within a session. A call without one is not noted.
    pub session: String,
    pub request: String,
}

/// The calls under way. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct CallsUnderWay(Arc<Mutex<HashMap<CallId, Vec<CancellationToken>>>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct CallUnderWay {
    calls: CallsUnderWay,
    id: CallId,
    cancelled: CancellationToken,
}

impl CallsUnderWay {
    pub(crate) fn begin(&self, id: CallId) -> CallUnderWay {
        let cancelled = CancellationToken::new();
        self.0.lock().entry(id.clone()).or_default().push(cancelled.clone());
        CallUnderWay { calls: self.clone(), id, cancelled }
    }

    /// Cancels what goes by that name.
    pub fn cancel(&self, id: &CallId) {
        self.0.lock().get(id).into_iter().flatten().for_each(CancellationToken::cancel);
    }
}

impl CallUnderWay {
    /// Resolves when it is cancelled.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for CallUnderWay {
    fn drop(&mut self) {
        // Tokens have no identity; with this one cancelled, those that are not are others'.
        self.cancelled.cancel();
        let mut calls = self.calls.0.lock();
        if let Some(of_id) = calls.get_mut(&self.id) {
            of_id.retain(|token| !token.is_cancelled());
            if of_id.is_empty() {
                calls.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn only_its_own_client_cancels_a_call() {
        let calls = CallsUnderWay::default();
        let id = |user: &str, session: &str, request: &str| CallId {
            user_id: user.into(),
            session: session.into(),
            request: request.into(),
        };
        let call = calls.begin(id("u1", "s1", "1"));
        let twin = calls.begin(id("u1", "s1", "1"));
        for other in [id("u2", "s1", "1"), id("u1", "s2", "1"), id("u1", "s1", "2"), id("u1", "", "1")] {
            calls.cancel(&other);
        }
        assert!(call.cancelled().now_or_never().is_none());
        drop(twin);
        assert!(call.cancelled().now_or_never().is_none(), "that the other ended is its own affair");
        calls.cancel(&id("u1", "s1", "1"));
        assert!(call.cancelled().now_or_never().is_some());
        drop(call);
        assert!(calls.0.lock().is_empty());
    }
}
