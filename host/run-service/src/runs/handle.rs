//! What a reader of a run holds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Journal, JournalError};
use agent_core::words::Event;
use futures::stream::{Stream, unfold};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::layers::{Answer, InvokeError};
use crate::loop_driver::RunError;

/// How a run ended, shared by everybody who reads it.
pub type Outcome = Result<Answer, InvokeError>;

/// How long one tail of the journal waits. Events wake it at once; this bounds a wake-up that was missed.
const TAIL: Duration = Duration::from_secs(5);

/// A run under way, for one reader. Clones are readers of the same run. Dropping a handle changes nothing
/// about the run.
#[derive(Clone)]
pub struct RunHandle {
    id: Arc<str>,
    cancel: CancellationToken,
    outcome: watch::Receiver<Option<Outcome>>,
    journal: Arc<dyn Journal>,
}

/// A handle of a run, and where its owner puts the outcome. Dropped without one, it tells the readers that
/// the run was stopped.
pub(super) fn new(
    id: Arc<str>,
    cancel: CancellationToken,
    journal: Arc<dyn Journal>,
) -> (watch::Sender<Option<Outcome>>, RunHandle) {
    let (sender, outcome) = watch::channel(None);
    (sender, RunHandle { id, cancel, outcome, journal })
}

impl RunHandle {
    /// Id of the run, `run_…`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How the run ended, once it has. Cancellation-safe. When its owner was dropped, because the
    /// synchronous caller left or the process was made to end, it is [`RunError::Stopped`].
    pub async fn result(&self) -> Outcome {
        let mut outcome = self.outcome.clone();
        match outcome.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or(Err(RunError::Stopped.into())),
            Err(_owner_is_gone) => Err(RunError::Stopped.into()),
        }
    }

    /// The events of the run from number `from` on, each with its number, until the run has ended. A reader
    /// that comes late reads the same as one that was there from the beginning. Ends early with an error of
    /// the journal.
    pub fn events(&self, from: u64) -> impl Stream<Item = Result<(u64, Event), JournalError>> + Send + use<> {
        let reading = Reading { run: self.clone(), next: from, ready: VecDeque::new(), is_over: false };
        unfold(reading, async |mut reading| {
            let event = reading.next().await?;
            Some((event, reading))
        })
    }

    /// Asks the run to end as cancelled: what is under way is dropped, its journal and its result say so.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    fn has_ended(&self) -> bool {
        self.outcome.has_changed().is_err() || self.outcome.borrow().is_some()
    }
}

/// A reader's position in a run's journal.
struct Reading {
    run: RunHandle,
    next: u64,
    ready: VecDeque<Event>,
    is_over: bool,
}

impl Reading {
    async fn next(&mut self) -> Option<Result<(u64, Event), JournalError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.next += 1;
                return Some(Ok((self.next - 1, event)));
            }
            if self.is_over {
                return None;
            }
            // Looked at before the journal is: what was appended before the end is read after it.
            let has_ended = self.run.has_ended();
            let read = if has_ended {
                self.run.journal.read(&self.run.id, self.next).await
            } else {
                let mut outcome = self.run.outcome.clone();
                tokio::select! {
                    read = self.run.journal.tail(&self.run.id, self.next, TAIL) => read,
                    // Ended: the rest is read in the next round.
                    _ = outcome.wait_for(Option::is_some) => continue,
                }
            };
            match read {
                Ok(events) => {
                    self.is_over = has_ended;
                    self.ready.extend(events);
                }
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl std::fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunHandle").field("id", &self.id).finish_non_exhaustive()
    }
}
