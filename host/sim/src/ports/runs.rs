//! Journals and records.

use std::borrow::Cow;

use agent_core::ports::{Epoch, Journal, JournalError, RunStore};
use agent_core::testing::TestRuns;
use agent_core::words::{Event, RunOutcome, RunQuery, RunRecord};
use boxed_async::boxed_async;

use super::Ported;
use crate::faults::gate::Call;
use crate::faults::mutation::Mutation;

fn fails(detail: String) -> JournalError {
    JournalError::Store { detail }
}

impl Ported<TestRuns> {
    /// Appends as the store does, or as the seeded bug has it.
    async fn store_events(
        &self,
        run_id: &str,
        epoch: Epoch,
        first: u64,
        events: &[Event],
    ) -> Result<(), JournalError> {
        let world = &self.gate.world;
        let last = self.store.look(run_id, |kept| kept.last().map_or(Epoch::UNCLAIMED, |(epoch, _)| *epoch));
        let length = self.store.look(run_id, |kept| kept.len() as u64);
        let written_under = if world.has(Mutation::EpochNotCompared) { epoch.max(last) } else { epoch };
        let mut first = first;
        if world.has(Mutation::DecisionNotFenced) && matches!(events.first(), Some(Event::Decided { .. })) {
            first = length;
        }
        if world.has(Mutation::AppendRepeated) && first < length {
            first = length;
        }
        let starts = |event: &Event| matches!(event, Event::ToolsStarted { .. });
        if world.has(Mutation::StartNotWritten) && events.iter().all(starts) {
            return Ok(());
        }
        let mut events = Cow::Borrowed(events);
        if world.has(Mutation::NonceDropped)
            && let [Event::Decided { decision, .. }] = &mut events.to_mut()[..]
        {
            decision.nonce.clear();
        }
        let appended = self.store.append(run_id, written_under, first, &events).await;
        match &appended {
            Ok(()) if length >= first + events.len() as u64 => world.reached("an append was repeated"),
            Ok(()) => {
                let waits = events.iter().filter_map(|event| match event {
                    Event::Waiting { waits, .. } => Some(waits),
                    _ => None,
                });
                let waits: Vec<_> = waits.flatten().collect();
                if waits.iter().any(|wait| wait.child.as_ref().is_some_and(|child| child.tokens == 0)) {
                    world.reached("a run had no tokens left for one of its own");
                }
                let told = waits.iter().map(|wait| format!("msg_{}", wait.id));
                world.promises.lock().happened.extend(told);
                world.judge_journal(run_id, epoch);
            }
            Err(JournalError::Fenced { .. }) => world.reached("a writer was fenced off"),
            Err(JournalError::Conflict { .. }) => world.reached("an event number was taken"),
            Err(_) => {}
        }
        appended
    }

    /// Saves a record, and takes note of what it says of a run that has ended.
    async fn store_record(&self, record: &RunRecord) -> Result<(), JournalError> {
        self.store.save(record).await?;
        if record.outcome != RunOutcome::Running {
            let mut promises = self.gate.world.promises.lock();
            let has_result = matches!(record.outcome, RunOutcome::Ended { .. });
            *promises.recorded.entry(record.id.clone()).or_default() |= has_result;
        }
        Ok(())
    }
}

#[boxed_async]
impl Journal for Ported<TestRuns> {
    async fn append(
        &self,
        run_id: &str,
        epoch: Epoch,
        first: u64,
        events: &[Event],
    ) -> Result<(), JournalError> {
        let world = &self.gate.world;
        let call = match events.last() {
            Some(Event::Decided { .. } | Event::Waiting { .. }) => Call::rare(append_of(events), run_id),
            _ => Call::step(append_of(events), run_id),
        };
        let (this, run, all) = (self.clone(), run_id.to_owned(), events.to_vec());
        let whole = async move {
            this.gate.world.appending(&run, &this.gate.process);
            this.store_events(&run, epoch, first, &all).await
        };
        let is_halved = world.deployment.is_on_mongo && events.len() > 1;
        let half = is_halved.then_some(async {
            // What is wrong with the first one would be said of all of them.
            if self.store_events(run_id, epoch, first, events.get(..1).unwrap_or_default()).await.is_ok() {
                world.reached("the first event of an append was stored without the others");
            }
        });
        let appended = self.gate.write_batch(call, fails, whole, half).await;
        world.appended(run_id, &self.gate.process);
        appended
    }

    async fn read(&self, run_id: &str, from: u64) -> Result<Vec<Event>, JournalError> {
        let read = async {
            let mut events = self.store.read(run_id, from).await?;
            let world = &self.gate.world;
            if let Some(visible) = world.visible(run_id) {
                let visible = visible.saturating_sub(usize::try_from(from).unwrap_or(usize::MAX));
                if events.len() > visible {
                    events.truncate(visible);
                    world.reached("a part of an append was read");
                }
            }
            if world.has(Mutation::ReadBehind) && events.len() > 1 {
                events.pop();
            }
            let read = self.gate.process.release.read(run_id, from, events);
            if matches!(read, Err(JournalError::Newer { .. })) {
                world.reached("a run was left to a newer release");
            }
            read
        };
        self.gate.pass(Call { subject: run_id, ..Call::poll("journal.read") }, fails, read).await
    }
}

/// Which append it is: where a replica dies is counted by that.
fn append_of(events: &[Event]) -> &'static str {
    match events.last() {
        Some(Event::Started { .. }) => "journal.append start",
        Some(Event::ModelReplied { .. }) => "journal.append reply",
        Some(Event::ToolsStarted { .. }) => "journal.append call",
        Some(Event::ToolReturned { .. }) => "journal.append answer",
        Some(Event::Waiting { .. }) => "journal.append wait",
        Some(Event::Decided { .. }) => "journal.append decision",
        Some(Event::TakenUp { .. }) => "journal.append taken up",
        Some(Event::Cancelled) => "journal.append cancelled",
        _ => "journal.append",
    }
}

#[boxed_async]
impl RunStore for Ported<TestRuns> {
    async fn save(&self, record: &RunRecord) -> Result<(), JournalError> {
        let (this, saved) = (self.clone(), record.clone());
        let save = async move { this.store_record(&saved).await };
        self.gate.write(Call::step("runs.save", &record.id), fails, save).await
    }

    async fn append_and_save(
        &self,
        epoch: Epoch,
        first: u64,
        events: &[Event],
        record: &RunRecord,
    ) -> Result<(), JournalError> {
        let world = &self.gate.world;
        let (this, saved, all) = (self.clone(), record.clone(), events.to_vec());
        let both = async move {
            let is_bug = this.gate.world.has(Mutation::LastEventsDropped);
            if !all.is_empty() && !is_bug {
                this.store_events(&saved.id, epoch, first, &all).await?;
            }
            this.store_record(&saved).await
        };
        let is_halved = world.deployment.is_on_mongo && !events.is_empty();
        let half = is_halved.then_some(async {
            let _told = self.store_events(&record.id, epoch, first, events).await;
        });
        let call = Call::step("runs.append_and_save", &record.id);
        self.gate.write_batch(call, fails, both, half).await
    }

    async fn find(&self, run_id: &str) -> Result<Option<RunRecord>, JournalError> {
        self.gate
            .pass(Call { subject: run_id, ..Call::poll("runs.find") }, fails, self.store.find(run_id))
            .await
    }

    async fn list(&self, wanted: &RunQuery<'_>) -> Result<Vec<RunRecord>, JournalError> {
        self.gate.pass(Call::step("runs.list", ""), fails, self.store.list(wanted)).await
    }

    async fn find_by_job(&self, job_id: &str, user_id: &str) -> Result<Option<RunRecord>, JournalError> {
        let find = self.store.find_by_job(job_id, user_id);
        self.gate.pass(Call::step("runs.find_by_job", job_id), fails, find).await
    }
}
