//! What a run has cost so far, for whoever has to tell when it ends without a result.

use parking_lot::Mutex;
use std::sync::Arc;

use agent_core::words::Usage;

/// A meter of one run: its driver writes it, and whoever records the run reads it, also after the run was
/// dropped. Clones are the same meter.
#[derive(Debug, Clone, Default)]
pub struct UsageMeter(Arc<Mutex<Totals>>);

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    usage: Usage,
    iterations: u32,
}

impl UsageMeter {
    /// Tokens of all model calls that were answered, those of earlier attempts at the run included.
    pub fn usage(&self) -> Usage {
        self.0.lock().usage
    }

    /// How many model calls were answered.
    pub fn iterations(&self) -> u32 {
        self.0.lock().iterations
    }

    pub(crate) fn set(&self, usage: Usage, iterations: u32) {
        *self.0.lock() = Totals { usage, iterations };
    }
}
