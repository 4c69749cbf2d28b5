//! Tasks on the service's runtime that end with whoever waits for them.
//!
//! All network I/O of the egress runs here: the caller awaits a channel, so that a guest that computes for long on
//! the guests' runtime delays no connection.

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The runtime that does network I/O.
#[derive(Debug, Clone)]
pub(super) struct IoRuntime(Handle);

/// A task that is aborted when this is dropped.
#[derive(Debug)]
pub(super) struct OwnedTask(JoinHandle<()>);

impl IoRuntime {
    pub(super) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the task ends with its owner, so a shutdown need not wait for it"
    )]
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> OwnedTask {
        OwnedTask(self.0.spawn(work))
    }

    /// Does work that blocks and cannot be cancelled. Dropping the future does not end it.
    pub(super) fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.spawn_blocking(work)
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
