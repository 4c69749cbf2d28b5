//! A journal whose runs have a record from their first event on.
//!
//! The heartbeat of a streamed run writes its record too, but beside the run: an owner that is killed at once
//! could leave a journal without a record, and readers on other replicas take that for the run of a job,
//! whose record comes when an attempt has ended. A record without a journal is a run that is dead before it
//! has begun, which they are told within seconds.

use std::sync::Arc;

use agent_core::ports::{Epoch, Journal, JournalResult, RunStore};
use agent_core::words::{Event, RunOutcome, RunRecord, Task};
use boxed_async::boxed_async;

use crate::clock;
use crate::journal::persist;
use crate::outage::Outage;

/// Writes the record of each run that begins, before its first event.
pub struct RecordedStart {
    journal: Arc<dyn Journal>,
    records: Arc<dyn RunStore>,
    outage: Outage,
}

impl RecordedStart {
    /// Events go to `journal`, records to `records`.
    pub fn new(journal: Arc<dyn Journal>, records: Arc<dyn RunStore>) -> Self {
        Self { journal, records, outage: Outage::default() }
    }
}

#[boxed_async]
impl Journal for RecordedStart {
    async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        if let Some(Event::Started { task, .. }) = events.first() {
            let record = under_way(task);
            // Not beside the event: an owner that dies in between would leave a journal of which no reader
            // ever learns that it has ended.
            persist(&self.outage, || self.records.save(&record)).await?;
        }
        self.journal.append(run_id, epoch, first, events).await
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        self.journal.read(run_id, from).await
    }
}

/// The first heartbeat adds the id of the request, which no journal has.
fn under_way(task: &Task) -> RunRecord {
    let now = clock::now();
    RunRecord {
        id: task.id.clone(),
        request_id: String::new(),
        user_id: task.principal.user_id.clone(),
        job_id: None,
        started_at: now,
        finished_at: now,
        outcome: RunOutcome::Running,
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::{EchoTools, ScriptedModel, TestRuns, says};
    use agent_core::words::Principal;

    use super::*;
    use crate::layers::{Agent, Ask, Invoke as _};

    #[tokio::test]
    async fn a_run_has_a_record_before_its_model_is_asked() {
        let store = Arc::new(TestRuns::default());
        let model = Arc::new(ScriptedModel::new([Ok(says("done"))]));
        let agent = Agent::new(
            model.clone(),
            Arc::new(EchoTools::new(&[])),
            Arc::new(RecordedStart::new(store.clone(), store.clone())),
        );
        let ask = || Ask { principal: Principal::user("u1"), ..Ask::new("r".into(), "hi".into()) };
        store.switch.fail(true);
        agent.invoke(ask()).await.unwrap_err();
        assert_eq!((model.asked().len(), store.records()), (0, vec![]));
        store.switch.fail(false);
        let run_id = agent.invoke(ask()).await.unwrap().result.id.clone();
        let [record] = &store.records()[..] else { panic!("{:?}", store.records()) };
        assert_eq!(
            (&record.id, record.user_id.as_deref(), &record.outcome),
            (&run_id, Some("u1"), &RunOutcome::Running)
        );
    }
}
