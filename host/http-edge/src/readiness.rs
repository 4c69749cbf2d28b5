//! How the readiness report learns that the service is going away.

use std::sync::{Arc, Weak};

use agent_core::ports::{Preparing, ProbeError};

/// Held by whoever runs the service for as long as it wants requests. Dropping it is the event: from then
/// on readiness is denied, and no path through the shutdown can forget to say so.
#[derive(Debug, Default)]
pub struct Latch(Arc<()>);

impl Latch {
    /// What the health report asks.
    pub fn readiness(&self) -> Readiness {
        Readiness(Arc::downgrade(&self.0))
    }
}

/// Whether the [`Latch`] it came from is still held.
#[derive(Debug, Clone)]
pub struct Readiness(Weak<()>);

impl Readiness {
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Why a service that has just started is not ready.
pub(crate) fn not_prepared(preparing: &Preparing) -> ProbeError {
    let files = preparing.files.join(", ");
    ProbeError(if files.is_empty() {
        "the tools folder has not been read yet".to_owned()
    } else {
        format!("tools are being prepared: {files}")
    })
}
