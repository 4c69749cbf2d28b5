//! What a reader of a run holds.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::layers::InvokeResult;
use crate::loop_driver::RunError;

/// A run under way, for one reader. Clones are readers of the same run. Dropping a handle changes nothing
/// about the run.
#[derive(Clone)]
pub struct RunHandle {
    cancel: CancellationToken,
    outcome: watch::Receiver<Option<InvokeResult>>,
}

/// A handle of a run, and where its owner puts the outcome. Dropped without one, it tells the readers that
/// the run was stopped.
pub(super) fn new(cancel: CancellationToken) -> (watch::Sender<Option<InvokeResult>>, RunHandle) {
    let (sender, outcome) = watch::channel(None);
    (sender, RunHandle { cancel, outcome })
}

impl RunHandle {
    /// Whether both are of one run, and not of two under one id.
    pub(super) fn is_of_same_run(&self, other: &Self) -> bool {
        self.outcome.same_channel(&other.outcome)
    }

    /// How the run ended, once it has. Cancellation-safe. When its owner was dropped, because the
    /// synchronous caller left or the process was made to end, it is [`RunError::Stopped`].
    pub async fn result(&self) -> InvokeResult {
        let mut outcome = self.outcome.clone();
        match outcome.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or(Err(RunError::Stopped.into())),
            Err(_owner_is_gone) => Err(RunError::Stopped.into()),
        }
    }

    /// Asks the run to end as cancelled: what is under way is dropped, its journal and its result say so.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}
