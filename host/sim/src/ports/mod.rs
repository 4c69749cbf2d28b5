//! The stores as one process reaches them: reference stores behind its [`Gate`], and the
//! seeded bugs between the two.

mod conversations;
mod keys;
mod queue;
mod runs;
mod webhooks;

use std::sync::Arc;

pub use webhooks::Receiver;

use crate::faults::gate::Gate;

/// A store behind a gate.
pub struct Ported<S> {
    gate: Gate,
    store: Arc<S>,
}

/// What a statement has with it that may outlast its caller.
impl<S> Clone for Ported<S> {
    fn clone(&self) -> Self {
        Self { gate: self.gate.clone(), store: self.store.clone() }
    }
}

impl<S> Ported<S> {
    pub fn new(gate: &Gate, store: &Arc<S>) -> Arc<Self> {
        Arc::new(Self { gate: gate.clone(), store: store.clone() })
    }
}
