//! Bugs that simulations put into the service on purpose, one at a time, and have to find.

use std::cell::Cell;

use agent_core::words::{Event, Finish, ModelReply, RunLimits};

/// A bug of the service itself. Those of its stores are `host/sim`'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A worker goes on with a job whose lease it has lost.
    LostLeaseKept,
    /// A job whose conversation is busy fails, and is not handed back.
    BusyFails,
    /// What a run ended with is dropped on its way to the backlog.
    EndForgotten,
    /// A call that was approved with other arguments is made with those that the model asked for.
    EditIgnored,
    /// A worker of a process that stops keeps the job whose run it has let go of.
    StoppedKept,
    /// A reply that was cut off is taken for a whole one, and its calls are made.
    CutTaken,
    /// A run that is taken up has other limits than it began with.
    LimitsForgotten,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// The bug of this thread until it is dropped.
#[derive(Debug)]
pub struct Planted(());

impl Planted {
    pub fn begin(bug: Option<Bug>) -> Self {
        PLANTED.set(bug);
        Self(())
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(None);
    }
}

/// What a model replied, as the planted bug takes it.
pub(crate) fn heard(reply: ModelReply) -> ModelReply {
    let finish = if has(Bug::CutTaken) { Finish::Done } else { reply.finish };
    ModelReply { finish, ..reply }
}

/// The journal of a run that is taken up, as the planted bug reads it.
pub(crate) fn read(mut events: Vec<Event>) -> Vec<Event> {
    if has(Bug::LimitsForgotten)
        && let Some(Event::Started { task, .. }) = events.first_mut()
    {
        task.limits = RunLimits::default();
    }
    events
}

pub(crate) fn has(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
