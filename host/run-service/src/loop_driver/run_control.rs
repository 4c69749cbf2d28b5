//! How those around a run end it, watch it and learn what it cost.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agent_core::ports::{Observer, Unobserved};
use agent_core::words::Message;
use tokio_util::sync::CancellationToken;

use super::child_runs::ChildRuns;
use crate::held_lease::LeaseWatch;
use crate::live::LiveRun;
use crate::usage_meter::UsageMeter;

/// How long a run may take when nobody set a deadline: long enough to be none.
const NO_DEADLINE: Duration = Duration::from_hours(24);

/// Something that one layer tells another. Clones are the same flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    /// From now on it is set.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// From now on it is not.
    pub(crate) fn unset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether some layer has set it.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Who is told when a run begins to wait and when that is decided by itself; nobody by default.
#[derive(Clone)]
pub(crate) struct WaitObserver(pub(crate) Arc<dyn Observer>);

impl Default for WaitObserver {
    fn default() -> Self {
        Self(Arc::new(Unobserved))
    }
}

impl fmt::Debug for WaitObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitObserver")
    }
}

/// Set by the layers around a run, and by its owner.
#[derive(Debug, Clone, Default)]
pub struct RunControl {
    /// When the answer must be there.
    pub deadline: Option<Instant>,
    /// Cancels the run: what is under way is dropped at once, and the run ends as cancelled, with what it had
    /// come to and cost. Absent where it never will be; a request's run is dropped instead.
    pub cancel: Option<CancellationToken>,
    /// The lease under which the run acts; absent for a run that nobody else may carry out beside it, and for
    /// a job, whose worker drops it in time.
    pub(crate) lease: Option<LeaseWatch>,
    /// What the run has cost so far, also when it ends without a result.
    pub meter: UsageMeter,
    /// Where replies go while they are written; absent where nobody can watch the run.
    pub live: Option<LiveRun>,
    /// The job that goes on with the run of a request when that has to wait for somebody; absent where none
    /// does.
    pub job_id: Option<String>,
    /// What its caller said beside the input, without what the conversation has, for that job.
    pub(crate) own_history: Vec<Message>,
    /// Set when the run began behind turns of its conversation, in an attempt before this one.
    pub(crate) began_behind_turns: Flag,
    /// Set while the run calls tools.
    pub(crate) calls_tools: Flag,
    /// Set when the model has replied in this attempt at the run: the replies of earlier ones, which a run is
    /// folded from, say nothing about the provider of now.
    pub(crate) model_replied: Flag,
    /// How it begins runs of its own.
    pub children: ChildRuns,
    pub(crate) observer: WaitObserver,
    /// Set when the run is being handed over to that job.
    pub(crate) handed_over: Flag,
    /// The kept conversation that the run is part of, for that job.
    pub conversation_id: Option<String>,
}

impl RunControl {
    /// When the caller stops waiting.
    pub(super) fn ends_at(&self) -> Instant {
        self.deadline.unwrap_or_else(|| Instant::now() + NO_DEADLINE)
    }

    /// Waits until nobody else can have the lease under which the run acts.
    pub(super) async fn may_act(&self) {
        if let Some(lease) = &self.lease {
            Box::pin(lease.lasts()).await;
        }
    }
}
