//! Tasks that end with whoever waits for them.
//!
//! A connection's I/O is done by one, on the runtime that made the connection: a guest that computes for long
//! on the guests' runtime delays none.

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// A task that is aborted when this is dropped.
#[derive(Debug)]
pub struct OwnedTask(JoinHandle<()>);

impl OwnedTask {
    /// Begins work on a runtime.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the task ends with its owner, so a shutdown need not wait for it"
    )]
    pub fn begin(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(runtime.spawn(work))
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
