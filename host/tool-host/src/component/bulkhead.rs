//! Concurrency limits of calls: a bulkhead per component, within the slots that all components share.
//!
//! A component that hangs uses up its own permits and no more. A call acquires its component's permit first,
//! so that it holds no slot while it waits for that.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::capability::log::LogRate;
use crate::limits::{CALLING_SHARE, CALLING_SLOTS, DESCRIBE_SLOTS, ToolLimits};
use crate::threads::host_work_pool::COMPONENT_PERMITS;

/// Most threads that make the grants of one component: one that reads a file on a mount that hangs is lost
/// until that answers.
const GRANT_THREADS: usize = 2;

/// What the calls of one component share.
#[derive(Debug)]
pub(crate) struct Bulkhead {
    permits: Arc<Semaphore>,
    /// For calls that may call tools, of which there are fewer.
    calling: Arc<Semaphore>,
    /// For checks beside the threads that serve.
    pub(crate) checks: Arc<Semaphore>,
    /// For threads that make its grants when none are kept.
    pub(crate) grants: Arc<Semaphore>,
    pub(crate) log_rate: Arc<LogRate>,
}

/// What all components share: a permit for each instance that there is room for.
#[derive(Debug)]
pub(crate) struct Slots {
    calls: Arc<Semaphore>,
    most: usize,
    /// For calls that may call tools, so that they leave the calls that they make a slot.
    calling: Arc<Semaphore>,
    /// The pool has instances for components that describe themselves beside the calls'.
    describing: Arc<Semaphore>,
}

impl Slots {
    pub(crate) fn new(limits: &ToolLimits) -> Self {
        let most = limits.concurrency as usize;
        Self {
            calls: Arc::new(Semaphore::new(most)),
            most,
            calling: Arc::new(Semaphore::new(CALLING_SLOTS as usize)),
            describing: Arc::new(Semaphore::new(DESCRIBE_SLOTS as usize)),
        }
    }

    /// Waits for a permit to have a component describe itself. Nothing when the host is gone.
    pub(crate) async fn describe(&self) -> Option<OwnedSemaphorePermit> {
        self.describing.clone().acquire_owned().await.ok()
    }

    /// How many calls hold one.
    pub(crate) fn in_use(&self) -> usize {
        self.most.saturating_sub(self.calls.available_permits())
    }
}

/// What a call holds until everything that is done for it has ended.
#[derive(Debug)]
pub(crate) struct Permits {
    _component: OwnedSemaphorePermit,
    _slot: OwnedSemaphorePermit,
}

/// Which slots a call needs one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    Plain,
    /// The call may call further tools.
    CallsTools,
}

/// Which limit a call waited for until its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    Component,
    Host,
}

impl Bulkhead {
    pub(crate) fn new(limits: &ToolLimits) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(limits.component_concurrency as usize)),
            calling: Arc::new(Semaphore::new(CALLING_SHARE as usize)),
            checks: Arc::new(Semaphore::new(COMPONENT_PERMITS)),
            grants: Arc::new(Semaphore::new(GRANT_THREADS)),
            log_rate: Arc::default(),
        }
    }

    /// Waits for the component's permit and then for a slot, until the deadline.
    pub(crate) async fn admit(
        &self,
        slots: &Slots,
        kind: CallKind,
        deadline: Instant,
    ) -> Result<Arc<Permits>, Busy> {
        let (own, free) = match kind {
            CallKind::Plain => (&self.permits, &slots.calls),
            CallKind::CallsTools => (&self.calling, &slots.calling),
        };
        let component = permit(own, deadline).await.ok_or(Busy::Component)?;
        let slot = permit(free, deadline).await.ok_or(Busy::Host)?;
        Ok(Arc::new(Permits { _component: component, _slot: slot }))
    }
}

/// A permit, now or when one is free; nothing when the deadline passes first.
async fn permit(semaphore: &Arc<Semaphore>, deadline: Instant) -> Option<OwnedSemaphorePermit> {
    if let Ok(permit) = semaphore.clone().try_acquire_owned() {
        return Some(permit);
    }
    let permit = tokio::time::timeout_at(deadline.into(), semaphore.clone().acquire_owned()).await.ok()?.ok();
    // One that comes with the deadline itself comes too late.
    permit.filter(|_| Instant::now() < deadline)
}
