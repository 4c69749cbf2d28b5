//! What a run has cost so far, for whoever has to tell when it ends without a result.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::words::Usage;

/// A meter of one run: its driver writes it, and whoever records the run reads it, also after the run was dropped.
/// Clones are the same meter.
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
        self.lock().usage
    }

    /// How many model calls were answered.
    pub fn iterations(&self) -> u32 {
        self.lock().iterations
    }

    pub(crate) fn set(&self, usage: Usage, iterations: u32) {
        *self.lock() = Totals { usage, iterations };
    }

    /// Held for a few instructions, never across an await.
    fn lock(&self) -> MutexGuard<'_, Totals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
