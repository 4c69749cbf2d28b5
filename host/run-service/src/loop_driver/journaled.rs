//! A run beside its journal: what is written when, and what may wait to be written with what comes next.
//!
//! Every event is in the journal before what follows from it is begun, with two exceptions, both of the runs
//! of jobs. They are what lets a job of one model call write nothing to the journal on its way:
//!
//! - **The start waits** when the queue is sure that nobody has claimed the job before
//!   ([`EarlierClaims::are_none`]) and nobody follows the run yet: nobody can have begun it, so there is
//!   nothing to read and nobody to be told. It is written with the first event that has to be there before
//!   the next step, or by itself, beside the model call, when the model takes longer than [`START_WITHIN`]. A
//!   run that ends without a result writes it as well, so that a hand-back can be noted after it.
//! - **The last reply goes with the end** ([`Journal::append_last`]): what follows from it is that the worker
//!   tells the queue. The job's journal writes it while the queue is told, so it is safe as soon as either of
//!   the two has it. The last reply in a conversation is written before ([`RunClaim::last_may_wait`]): the
//!   turn is appended first, which may fail and hand the job back.
//!
//! What a kill costs, by what is stored when it hits. "Asked again" is a model call whose reply nothing had
//! recorded: at most one for each kill, as ever. What is recorded is never asked for again.
//!
//! | the worker dies | the journal has | the queue has | whoever claims the job next |
//! |---|---|---|---|
//! | after the claim, before the model is asked | nothing | a lost claim | reads, begins the run and counts the lost claim |
//! | while the model is asked, at once | nothing | a lost claim | the same; the model is asked again |
//! | while the model is asked, later | the start | a lost claim | takes the run up; the model is asked again |
//! | with a reply that nothing has recorded | nothing, or the start | a lost claim | the model is asked again |
//! | after a reply with calls was written | start and reply, written as one | a lost claim | makes the calls |
//! | anywhere in the calls or in a later model call | all but what is under way | a lost claim | goes on after the last event |
//! | with the last reply on its way to both | all but the last reply | a lost claim | the model is asked again |
//! | the journal had it first | everything | a lost claim | folds the result and tells the queue |
//! | the queue had it first | all but the last events | the end | nobody: the result is the queue's, and the run has no record |
//! | after both | everything | the end | nobody |
//! | in a conversation, before its turn was appended or after that | everything | a lost claim | folds the result, appends the turn unless it is there, and tells the queue |
//! | when the turn of a conversation could not be appended | everything | a release | the same; the model is not asked again |
//! | when the run was handed back | the start and the hand-back | a release | takes the run up; nothing is counted |
//! | when it was handed back before it began | nothing | a release | reads and begins the run; nothing is counted |
//! | anywhere, and the job is to be cancelled | what was there by then | a lost claim | writes that the run is cancelled, unless it has ended or never began |
//!
//! Whoever begins a run after an earlier claim writes the start before the model is asked. A worker that was
//! only slow is refused from then on: its events have a lower epoch. If its events were there first, the
//! later one is refused instead, reads them and goes on behind them (`layers/agent.rs`). So of all starts of
//! a run one at most can be missing in the journal, that of the first claim. A lost claim counts as that one
//! (`Started` and `TakenUp` are written together), and a job that kills its workers has failed after the
//! third, whenever they die. One that kills whoever reads its journal has after 20 ([`MOST_LOSSES`]).

use std::pin::pin;
use std::time::Duration;

use agent_core::agent_loop::{ModelCall, Run, Step};
use futures::future::try_join;
use tokio::time::timeout;
use tracing::debug;

#[cfg(doc)]
use super::RunClaim;
use super::{Driver, Journaled, RunError};
use crate::invariants::Followed;
#[cfg(doc)]
use agent_core::ports::{EarlierClaims, Journal, queue::MOST_LOSSES};
use agent_core::words::Event;

/// How long a start may wait for something that it can be written with. Longer than a cached or demo model
/// takes, and soon enough for readers on other replicas, who see the start when the journal has it.
const START_WITHIN: Duration = Duration::from_millis(250);

impl Journaled {
    /// A run that begins with this event, which is not written yet.
    pub(super) fn begun(run: Run, started: Event) -> Self {
        let followed = Followed::from([&started]);
        Self { run, next: 0, unwritten: vec![started], followed }
    }

    /// A run that is taken up after so many events.
    pub(super) fn resumed(run: Run, next: u64, followed: Followed) -> Self {
        Self { run, next, unwritten: Vec::new(), followed }
    }
}

impl Driver<'_> {
    /// Journals an event with all that waits for it, then lets the run take note of it.
    pub(super) async fn note(&self, run: &mut Journaled, event: Event) -> Result<Step, RunError> {
        // What is refused now is not written later.
        let mut events = std::mem::take(&mut run.unwritten);
        let last = events.len();
        events.push(event);
        self.journal
            .append(run.run.id(), self.epoch(), run.next, &events)
            .await
            .map_err(RunError::Journal)?;
        run.next += events.len() as u64;
        self.take_note(run, events.swap_remove(last))
    }

    /// Lets the run take note of a reply, and journals it before anything follows from that: together with
    /// what its calls wait for, so that readers learn of both at once and show no call that is not made yet.
    /// The last one waits for [`Self::write_last`].
    pub(super) async fn note_reply(&self, run: &mut Journaled, reply: Event) -> Result<Step, RunError> {
        let step = self.take_note(run, reply.clone())?;
        run.unwritten.push(reply);
        if let Step::CallTools(calls) = &step
            && let waits = self.waits(&run.run, calls)
            && !waits.is_empty()
        {
            return Box::pin(self.begin_to_wait(run, waits)).await;
        }
        if !matches!(step, Step::Done(_)) {
            self.write(run).await?;
        }
        Ok(step)
    }

    /// Asks the model. A start that waits is written beside that when the reply takes its time.
    pub(super) async fn ask(&self, run: &mut Journaled, call: ModelCall) -> Result<Event, RunError> {
        let Journaled { run, next, unwritten, .. } = run;
        let run = &*run;
        let asking = self.ask_model(run, *next + unwritten.len() as u64, call);
        let asking = async { self.unless_cancelled(asking).await.unwrap_or(Ok(Event::Cancelled)) };
        if unwritten.is_empty() {
            return asking.await;
        }
        let mut asking = pin!(asking);
        if let Ok(event) = timeout(START_WITHIN, &mut asking).await {
            return event;
        }
        let writing = async {
            let append = self.journal.append(run.id(), self.epoch(), *next, unwritten);
            append.await.map_err(RunError::Journal)?;
            *next += unwritten.len() as u64;
            unwritten.clear();
            Ok::<_, RunError>(())
        };
        // A run that somebody else has begun is left at once. When the model fails first, the append may have
        // been carried out or not: it is made again, and known for the same one.
        let (event, ()) = try_join(asking, writing).await?;
        Ok(event)
    }

    /// Writes what is not written.
    pub(super) async fn write(&self, run: &mut Journaled) -> Result<(), RunError> {
        if run.unwritten.is_empty() {
            return Ok(());
        }
        let append = self.journal.append(run.run.id(), self.epoch(), run.next, &run.unwritten);
        append.await.map_err(RunError::Journal)?;
        run.next += run.unwritten.len() as u64;
        run.unwritten.clear();
        Ok(())
    }

    /// Gives the journal the events with which the run ends, if any wait.
    pub(super) async fn write_last(&self, run: &mut Journaled) -> Result<(), RunError> {
        if !self.claim.is_some_and(|claim| claim.last_may_wait) {
            return self.write(run).await;
        }
        let events = std::mem::take(&mut run.unwritten);
        if events.is_empty() {
            return Ok(());
        }
        let append = self.journal.append_last(run.run.id(), self.epoch(), run.next, &events);
        append.await.map(|_appended| ()).map_err(RunError::Journal)
    }

    /// Writes the start of a run that ends without a result, as far as possible: whoever takes it up then
    /// knows how often it was begun.
    pub(super) async fn write_start(&self, run: &mut Journaled) {
        if let Err(error) = self.write(run).await {
            debug!(run_id = run.run.id(), %error, "the journal does not say that the run was begun");
        }
    }

    fn take_note(&self, run: &mut Journaled, event: Event) -> Result<Step, RunError> {
        run.followed.on(&event);
        let step = run.run.on(event).map_err(RunError::Driver);
        self.control.meter.set(run.run.usage(), run.run.iterations());
        step
    }
}
