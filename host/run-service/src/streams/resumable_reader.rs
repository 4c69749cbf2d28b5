//! One reader's way through a run: its events in their order, the words of replies between them, and the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agent_core::agent_loop::recorded_end;
use agent_core::backoff::Backoff;
use agent_core::ports::{Journal, JournalError};
use agent_core::words::{CallProgress, Event, JobStatus};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ending::{Ending, Ends};
use super::recorded_result::{Fold, Interruption, RunEnd, RunFailure, failure};
use crate::layers::InvokeError;
use crate::live::{Delta, Live, NewText, Stored, Watcher};
use crate::loop_driver::RunError;
use crate::runs::RunHandle;

/// How often the store is asked for events of a run that another process carries: soon at first, then less
/// and less often.
const FIRST_POLL: Duration = Duration::from_millis(50);
const LAST_POLL: Duration = Duration::from_millis(500);

/// How often it is asked when this process carries the run, which tells of its events by itself.
const SAFETY_POLL: Duration = Duration::from_secs(5);

/// For how long the last events of a job are looked for that has completed. Without them the stream ends
/// without them: the process that was to write them was killed, or another program worked on the job.
const LAST_EVENTS_WITHIN: Duration = Duration::from_secs(1);
const FIRST_LOOK: Duration = Duration::from_millis(5);

/// What a reader is given.
#[derive(Debug, Clone)]
pub enum Followed {
    /// An event of the journal, once it is stored.
    Stored {
        /// Number of the event within the run.
        number: u64,
        /// The stored event itself.
        event: Arc<Event>,
    },
    /// A part of the reply that the model is writing.
    Delta(Delta),
    /// How far a call under way has got. Only the process that carries the run tells of it.
    Progress(Arc<CallProgress>),
    /// The run has ended: nothing follows.
    Ended {
        /// How many events its journal has.
        events: u64,
        /// What came of it.
        end: RunEnd,
    },
    /// Nothing follows, although the run may go on: another reader can go on from the last event.
    Interrupted(Interruption),
}

/// A reader of a run. Dropping it changes nothing about the run, unless that was asked for when the run was
/// begun.
pub struct Following {
    run_id: Arc<str>,
    journal: Arc<dyn Journal>,
    watcher: Watcher,
    ends: Ends,
    /// Whether the reader can come again and read the rest.
    can_resume: bool,
    /// Set where nobody can once this process has ended.
    ends_with_process: Option<EndsWithProcess>,
    /// Is cancelled when a shutdown interrupts this reader.
    interrupted: CancellationToken,
    /// Stands in results that come from journals: whether results are kept.
    cached: Option<bool>,
    /// The number of the next event.
    next: u64,
    ready: VecDeque<Followed>,
    /// What the watcher told last, as long as it is not taken over.
    told: Option<Live>,
    ending: Option<Ending>,
    is_over: bool,
    polls: Polls,
    cancel: Option<DropGuard>,
}

/// What a reader is made of.
pub(super) struct Source {
    pub(super) run_id: Arc<str>,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) watcher: Watcher,
    pub(super) ends: Ends,
    pub(super) can_resume: bool,
    pub(super) ends_with_process: Option<EndsWithProcess>,
    pub(super) interrupted: CancellationToken,
    pub(super) cached: Option<bool>,
}

/// A run that is kept in this process alone, with its handle while it is under way.
pub(super) struct EndsWithProcess(pub(super) Option<RunHandle>);

/// When the store is asked next.
struct Polls {
    at: Instant,
    backoff: Backoff,
    /// Whether this process carries the run.
    is_here: bool,
}

impl Polls {
    fn put_off(&mut self) {
        let pause = if self.is_here { SAFETY_POLL } else { self.backoff.next() };
        self.at = Instant::now() + pause;
    }
}

impl Following {
    /// Reads from event number `next` on. With `is_new` the run begins only now, in this process.
    pub(super) fn new(source: Source, next: u64, is_new: bool) -> Self {
        let Source { run_id, journal, watcher, ends, can_resume, ends_with_process, interrupted, cached } =
            source;
        let mut polls =
            Polls { at: Instant::now(), backoff: Backoff::new(FIRST_POLL, LAST_POLL), is_here: is_new };
        if is_new {
            polls.put_off();
        }
        Self {
            run_id,
            journal,
            watcher,
            ends,
            can_resume,
            ends_with_process,
            interrupted,
            cached,
            next,
            ready: VecDeque::new(),
            told: None,
            ending: None,
            is_over: false,
            polls,
            cancel: None,
        }
    }

    /// A reader like this one, told of the end in another way.
    pub(super) fn ending_as(mut self, ends: impl FnOnce(Ends) -> Ends) -> Self {
        let told: Ends = Box::pin(std::future::pending());
        self.ends = ends(std::mem::replace(&mut self.ends, told));
        self
    }

    /// The reader of a run that was not begun.
    pub(super) fn refused(source: Source, error: InvokeError) -> Self {
        let mut refused = Self::new(source, 0, true);
        refused.is_over = true;
        refused.ready.push_back(Followed::Ended { events: 0, end: RunEnd::Failed(error) });
        refused
    }

    /// Id of the run, `run_…`.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Cancels the run, by this token, when the reader is dropped.
    pub(super) fn cancel_when_dropped(&mut self, cancel: CancellationToken) {
        self.cancel = Some(cancel.drop_guard());
    }

    /// What comes next; nothing after [`Followed::Ended`] and [`Followed::Interrupted`]. Cancellation-safe.
    pub async fn next(&mut self) -> Option<Followed> {
        loop {
            if let Some(followed) = self.ready.pop_front() {
                return Some(followed);
            }
            if self.is_over {
                return None;
            }
            if self.told.is_some() {
                self.take_told().await;
                continue;
            }
            if self.ending.is_some() {
                self.conclude().await;
                continue;
            }
            tokio::select! {
                biased;
                () = self.interrupted.cancelled() => self.interrupt(Interruption::Stopping),
                live = self.watcher.next() => match live {
                    Ok(live) => self.told = Some(live),
                    Err(_lagged) => self.interrupt(Interruption::TooSlow),
                },
                ending = &mut self.ends => self.ending = Some(ending),
                () = sleep_until(self.polls.at) => self.poll().await,
            }
        }
    }

    /// What comes next if it is at hand, to be sent together with what came before.
    pub fn next_ready(&mut self) -> Option<Followed> {
        self.ready.pop_front()
    }

    /// Takes over what the watcher told last. It stays in `told` while the store is read: the caller may drop
    /// this at the await and call again, and the watcher tells nothing twice.
    async fn take_told(&mut self) {
        self.polls.is_here = true;
        let is_behind = match &self.told {
            // Another process wrote what is missing, or it was written before this reader came.
            Some(Live::Stored(stored)) => stored.first > self.next,
            Some(Live::Reply(new)) => new.number > self.next,
            Some(Live::Progress(reports)) => reports.iter().any(|report| report.number > self.next),
            None => false,
        };
        if is_behind {
            self.read().await;
        }
        match self.told.take() {
            Some(Live::Stored(Stored { first, events })) => {
                self.polls.put_off();
                for (number, event) in (first..).zip(events.iter()) {
                    if number == self.next {
                        self.give(event.clone());
                    }
                }
            }
            // Words of a reply that is read already say nothing new.
            Some(Live::Reply(new)) if new.number == self.next => self.give_text(&new),
            Some(Live::Progress(reports)) => {
                let known = reports.into_iter().filter(|report| report.number <= self.next);
                self.ready.extend(known.map(Followed::Progress));
            }
            Some(Live::Reply(_)) | None => {}
        }
    }

    /// The next event, with what the reader has not had of a reply before it: the model may have written
    /// faster than the words were taken, and the end of a run is seen at the same moment as its last words.
    fn give(&mut self, event: Event) {
        if let Event::ModelReplied { reply, .. } = &event
            && let Some(rest) = self.watcher.rest_of_reply(self.next, &reply.content)
        {
            self.give_text(&rest);
        }
        self.ready.push_back(Followed::Stored { number: self.next, event: Arc::new(event) });
        self.next += 1;
    }

    fn give_text(&mut self, new: &NewText) {
        if new.is_anew {
            self.ready.push_back(Followed::Delta(Delta::Reset));
        }
        if !new.text.is_empty() {
            self.ready.push_back(Followed::Delta(Delta::Text(new.text.clone())));
        }
    }

    /// Asks the store by itself. What this process has not told of was written by another one: the run may be
    /// carried there by now, as that of a job may whose attempt has ended here.
    async fn poll(&mut self) {
        let before = self.next;
        self.read().await;
        if self.polls.is_here && self.next > before {
            self.polls.is_here = false;
            self.polls.put_off();
        }
    }

    /// Takes over what the store has.
    async fn read(&mut self) {
        match self.journal.read(&self.run_id, self.next).await {
            Ok(events) => {
                if !events.is_empty() {
                    self.polls.backoff.reset();
                }
                self.polls.put_off();
                for event in events {
                    self.give(event);
                }
            }
            Err(error) => self.interrupt(Interruption::Store(error)),
        }
    }

    /// Takes over the last events of a job that has completed: the queue may know of the end a moment before
    /// the journal has them.
    async fn read_last(&mut self) {
        let until = Instant::now() + LAST_EVENTS_WITHIN;
        let mut polls = Backoff::new(FIRST_LOOK, FIRST_POLL);
        while !self.is_over {
            let events = self.journal.read(&self.run_id, 0).await.unwrap_or_default();
            let is_whole = recorded_end(events, None).is_ok_and(|end| end.is_some());
            if is_whole || Instant::now() >= until {
                return self.read().await;
            }
            sleep(polls.next()).await;
        }
    }

    fn keep_run(&mut self) {
        if let Some(guard) = self.cancel.take() {
            guard.disarm();
        }
    }

    /// The run goes on for a reader that can come again. Nobody would read the rest of any other reader's
    /// run.
    fn interrupt(&mut self, why: Interruption) {
        self.is_over = true;
        if why == Interruption::Stopping
            && let Some(EndsWithProcess(handle)) = self.ends_with_process.take()
        {
            // A clean end of the run: otherwise it would be dropped in the middle of a step.
            if let Some(handle) = handle {
                handle.cancel();
            }
            let end = RunEnd::Failed(InvokeError::Stopping);
            return self.ready.push_back(Followed::Ended { events: self.next, end });
        }
        if self.can_resume {
            self.keep_run();
        }
        self.ready.push_back(match why {
            // Whoever comes again is told the same.
            Interruption::Store(error @ JournalError::Damaged { .. }) => {
                let end = RunEnd::Failed(RunError::Journal(error).into());
                Followed::Ended { events: self.next, end }
            }
            why => Followed::Interrupted(why),
        });
    }

    /// The rest of the events, and then the end.
    async fn conclude(&mut self) {
        self.read().await;
        if matches!(&self.ending, Some(Ending::Job(job)) if job.status == JobStatus::Completed) {
            self.read_last().await;
        }
        if self.is_over {
            return;
        }
        // Kept until it is concluded: the caller may drop this at any await and call again.
        let Some(ending) = self.ending.clone() else { return };
        let (journal, run_id, cached) = (self.journal.clone(), self.run_id.clone(), self.cached);
        let fold = Fold { journal, run_id, cached };
        let concluded = match ending {
            Ending::Outcome(Ok(answer)) => Ok(RunEnd::Answer(answer)),
            // Whoever wrote instead may have cancelled it.
            Ending::Outcome(Err(error @ InvokeError::Run(RunError::Journal(_)))) => {
                fold.result(None, RunEnd::Failed(error)).await
            }
            Ending::Outcome(Err(InvokeError::Waits { .. })) | Ending::Parked { .. } => {
                Err(Interruption::Waiting)
            }
            Ending::Outcome(Err(error)) => Ok(RunEnd::Failed(error)),
            Ending::Recorded(reason) => fold.result(Some(reason), failure("its journal is not kept")).await,
            Ending::Failed { kind, error } => {
                Ok(RunEnd::Recorded(RunFailure { kind, error, is_public: false, is_final: true }))
            }
            Ending::Job(job) => fold.end_of_job(*job).await,
            Ending::Dead => fold.result(None, failure("the process that carried it was killed")).await,
            Ending::Unknown => Err(Interruption::Unknown),
        };
        match concluded {
            Ok(end) => {
                self.is_over = true;
                self.keep_run();
                self.ready.push_back(Followed::Ended { events: self.next, end });
            }
            Err(why) => self.interrupt(why),
        }
    }
}
