//! Journals and records.

use agent_core::ports::{Epoch, Journal, JournalError, RunStore};
use agent_core::testing::TestRuns;
use agent_core::words::{Event, RunQuery, RunRecord};
use async_trait::async_trait;

use super::Ported;
use crate::faults::mixed;
use crate::gate::Call;
use crate::mutation::Mutation;

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
        let appended = self.store.append(run_id, written_under, first, events).await;
        match &appended {
            Ok(()) if length >= first + events.len() as u64 => world.reached("an append was repeated"),
            Ok(()) => world.judge_journal(run_id, epoch),
            Err(JournalError::Fenced { .. }) => world.reached("a writer was fenced off"),
            Err(JournalError::Conflict { .. }) => world.reached("an event number was taken"),
            Err(_) => {}
        }
        appended
    }
}

#[async_trait]
impl Journal for Ported<TestRuns> {
    async fn append(
        &self,
        run_id: &str,
        epoch: Epoch,
        first: u64,
        events: &[Event],
    ) -> Result<(), JournalError> {
        let world = &self.gate.world;
        world.appending(run_id);
        let call = match events.last() {
            Some(Event::Decided { .. } | Event::Waiting { .. }) => Call::rare(append_of(events), run_id),
            _ => Call::step(append_of(events), run_id),
        };
        let appended = self.gate.pass(call, fails, self.store_events(run_id, epoch, first, events)).await;
        world.appended(run_id);
        appended
    }

    async fn read(&self, run_id: &str, from: u64) -> Result<Vec<Event>, JournalError> {
        let read = async {
            let mut events = self.store.read(run_id, from).await?;
            let world = &self.gate.world;
            if let Some(known) = world.known_before_append(run_id) {
                let known = known.saturating_sub(usize::try_from(from).unwrap_or(usize::MAX));
                let new = events.len().saturating_sub(known) as u64;
                if new > 1 {
                    let shown = mixed(world.seed, events.len() as u64) % (new + 1);
                    events.truncate(known + usize::try_from(shown).unwrap_or(0));
                    world.reached("a part of an append was read");
                }
            }
            if world.has(Mutation::ReadBehind) && events.len() > 1 {
                events.pop();
            }
            Ok(events)
        };
        self.gate.pass(Call::step("journal.read", run_id), fails, read).await
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

#[async_trait]
impl RunStore for Ported<TestRuns> {
    async fn save(&self, record: &RunRecord) -> Result<(), JournalError> {
        self.gate.pass(Call::step("runs.save", &record.id), fails, self.store.save(record)).await
    }

    async fn append_and_save(
        &self,
        epoch: Epoch,
        first: u64,
        events: &[Event],
        record: &RunRecord,
    ) -> Result<(), JournalError> {
        let world = &self.gate.world;
        let both = async {
            if world.has(Mutation::LastEventsDropped) {
                return self.store.save(record).await;
            }
            if !events.is_empty() {
                self.store_events(&record.id, epoch, first, events).await?;
            }
            self.store.save(record).await
        };
        self.gate.pass(Call::step("runs.append_and_save", &record.id), fails, both).await
    }

    async fn find(&self, run_id: &str) -> Result<Option<RunRecord>, JournalError> {
        self.gate.pass(Call::step("runs.find", run_id), fails, self.store.find(run_id)).await
    }

    async fn list(&self, wanted: &RunQuery<'_>) -> Result<Vec<RunRecord>, JournalError> {
        self.gate.pass(Call::step("runs.list", ""), fails, self.store.list(wanted)).await
    }

    async fn find_by_job(&self, job_id: &str, user_id: &str) -> Result<Option<RunRecord>, JournalError> {
        let find = self.store.find_by_job(job_id, user_id);
        self.gate.pass(Call::step("runs.find_by_job", job_id), fails, find).await
    }
}
