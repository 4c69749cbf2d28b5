//! Resuming a run from its journal: the events are folded, and what follows from the last of them is what the
//! run does next.

use std::sync::Arc;

use super::{Run, Step, UnexpectedEvent};
use crate::words::{Catalog, Event};

impl Run {
    /// Folds a journal: the run as it was after its last event, and the step it was to take then.
    pub fn resume(
        events: impl IntoIterator<Item = Event>,
        catalog: Arc<Catalog>,
    ) -> Result<(Self, Step), UnexpectedEvent> {
        let mut run = Self::fold(events, catalog)?;
        let step = run.next_step()?;
        Ok((run, step))
    }

    /// The run as it was after the last event.
    pub(super) fn fold(
        events: impl IntoIterator<Item = Event>,
        catalog: Arc<Catalog>,
    ) -> Result<Self, UnexpectedEvent> {
        let mut events = events.into_iter();
        let Some(Event::Started { task, .. }) = events.next() else {
            return Err(UnexpectedEvent { run_id: String::new(), expected: "has not started" });
        };
        let mut run = Self::begin(task, catalog);
        for event in events {
            run.take_note(event)?;
        }
        Ok(run)
    }
}
