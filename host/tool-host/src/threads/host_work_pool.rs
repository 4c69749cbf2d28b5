//! The host's own work for guests: checking large values, preparing schemas, and describing.
//!
//! It runs on the blocking threads of the guest runtime, with a limit on how much runs at once, in all and
//! for one component. It ends itself at its deadline. The caller stops waiting then; permits and slots are
//! held until the work has really ended.

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::threads::guest_runtime::Unfinished;

/// Most such pieces of work at once. Each may hold some tens of megabytes.
const PERMITS: usize = 4;

/// Most of them for one component, so that its checks never keep another's waiting for more than their turn.
pub(crate) const COMPONENT_PERMITS: usize = 2;

/// The threads for such work.
#[derive(Debug)]
pub(crate) struct HostWork {
    threads: Handle,
    permits: Arc<Semaphore>,
}

impl HostWork {
    /// On the blocking threads of the guests' runtime.
    pub(crate) fn new(threads: Handle) -> Self {
        Self { threads, permits: Arc::new(Semaphore::new(PERMITS)) }
    }

    /// Does a piece of work that ends itself at `deadline` or soon after. It drops what it holds when it
    /// ends.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        component: &Arc<Semaphore>,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unfinished> {
        let done = async {
            // Neither is ever closed.
            let own = component.clone().acquire_owned().await;
            let permit = (own, self.permits.clone().acquire_owned().await);
            let work = move || {
                let done = work();
                drop(permit);
                done
            };
            self.threads.spawn_blocking(work).await
        };
        match tokio::time::timeout_at(deadline.into(), done).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(Unfinished::Host(error)),
            Err(_elapsed) => Err(Unfinished::Deadline),
        }
    }
}
