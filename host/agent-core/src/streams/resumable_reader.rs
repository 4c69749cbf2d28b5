//! One reader's way through a run: its events in their order, the words of replies between them, and the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ending::{Ending, Ends};
use crate::agent_loop::recorded_end;
use crate::backoff::Backoff;
use crate::jobs::failure_kind;
use crate::layers::{Answer, InvokeError};
use crate::live::{Delta, Live, NewText, Stored, Watcher};
use crate::loop_driver::RunError;
use crate::ports::{Journal, JournalError};
use crate::words::{AgentResult, CallProgress, Event, FailureKind, Job, JobStatus, StopReason};

/// How often the store is asked for events of a run that another process carries: soon at first, then less and less often.
const FIRST_POLL: Duration = Duration::from_millis(50);
const LAST_POLL: Duration = Duration::from_millis(500);

/// How often it is asked when this process carries the run, which tells of its events by itself.
const SAFETY_POLL: Duration = Duration::from_secs(5);

/// For how long the last events of a job are looked for that has completed. Without them the stream ends without them: the
/// process that was to write them was killed, or another program worked on the job.
const LAST_EVENTS_WITHIN: Duration = Duration::from_secs(1);
const FIRST_LOOK: Duration = Duration::from_millis(5);

/// What a reader is given.
#[derive(Debug, Clone)]
pub enum Followed {
    /// An event of the journal, once it is stored.
    Stored {
        /// Its number within the run.
        number: u64,
        /// It itself.
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

/// What came of a run.
#[derive(Debug, Clone)]
pub enum RunEnd {
    /// A result.
    Answer(Answer),
    /// None, as the run's owner in this process says.
    Failed(InvokeError),
    /// None, as its record or its job says.
    Recorded(RunFailure),
    /// It was cancelled before it began.
    NeverBegan,
}

/// Why a run has no result, if its error is not at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFailure {
    /// What a client is told.
    pub kind: FailureKind,
    /// What the log would say, or what the job's owner reads.
    pub error: String,
    /// Whether a client may read [`Self::error`].
    pub is_public: bool,
    /// Whether that is known, and not only concluded from the owner's silence: then no event can follow.
    pub is_final: bool,
}

impl RunEnd {
    /// Whether no event can follow.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Answer(_) | Self::NeverBegan => true,
            // Somebody else may carry it on.
            Self::Failed(error) => !matches!(error, InvokeError::Run(RunError::Journal(_))),
            Self::Recorded(failure) => failure.is_final,
        }
    }
}

/// Why a reader is told to come again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interruption {
    /// It did not keep up.
    TooSlow,
    /// The service stops.
    Stopping,
    /// The store cannot be read.
    Store(JournalError),
    /// Neither the queue nor the store knows what became of the run.
    Unknown,
}

/// A reader of a run. Dropping it changes nothing about the run, unless that was asked for when the run was begun.
pub struct Following {
    run_id: Arc<str>,
    journal: Arc<dyn Journal>,
    watcher: Watcher,
    ends: Ends,
    stopping: CancellationToken,
    /// Stands in results that come from journals: whether results are kept.
    cached: Option<bool>,
    /// The number of the next event.
    next: u64,
    ready: VecDeque<Followed>,
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
    pub(super) stopping: CancellationToken,
    pub(super) cached: Option<bool>,
}

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
        let Source { run_id, journal, watcher, ends, stopping, cached } = source;
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
            stopping,
            cached,
            next,
            ready: VecDeque::new(),
            ending: None,
            is_over: false,
            polls,
            cancel: None,
        }
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
            if self.ending.is_some() {
                self.conclude().await;
                continue;
            }
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => self.interrupt(Interruption::Stopping),
                live = self.watcher.next() => match live {
                    Ok(live) => self.take(live).await,
                    Err(_lagged) => self.interrupt(Interruption::TooSlow),
                },
                ending = &mut self.ends => self.ending = Some(ending),
                () = sleep_until(self.polls.at) => self.read().await,
            }
        }
    }

    /// What comes next if it is at hand, to be sent together with what came before.
    pub fn next_ready(&mut self) -> Option<Followed> {
        self.ready.pop_front()
    }

    async fn take(&mut self, live: Live) {
        self.polls.is_here = true;
        match live {
            Live::Stored(Stored { first, events }) => {
                if first > self.next {
                    // Another process wrote what is missing, or it was written before this reader came.
                    self.polls.at = Instant::now();
                    return self.read().await;
                }
                self.polls.put_off();
                for (number, event) in (first..).zip(events.iter()) {
                    if number == self.next {
                        self.give(event.clone());
                    }
                }
            }
            Live::Reply(new) => {
                if new.number > self.next {
                    self.read().await;
                }
                // Words of a reply that is read already say nothing new.
                if new.number == self.next {
                    self.give_text(&new);
                }
            }
            Live::Progress(reports) => {
                if reports.iter().any(|report| report.number > self.next) {
                    self.read().await;
                }
                let known = reports.into_iter().filter(|report| report.number <= self.next);
                self.ready.extend(known.map(Followed::Progress));
            }
        }
    }

    /// The next event, with what the reader has not had of a reply before it: the model may have written faster than the words
    /// were taken, and the end of a run is seen at the same moment as its last words.
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

    /// Takes over the last events of a job that has completed: the queue may know of the end a moment before the journal has
    /// them.
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

    /// It is not the reader who leaves.
    fn keep_run(&mut self) {
        if let Some(guard) = self.cancel.take() {
            guard.disarm();
        }
    }

    fn interrupt(&mut self, why: Interruption) {
        self.is_over = true;
        self.keep_run();
        self.ready.push_back(Followed::Interrupted(why));
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

/// Makes the result of a run from its journal. Apart from [`Following`], which cannot be shared between threads.
struct Fold {
    journal: Arc<dyn Journal>,
    run_id: Arc<str>,
    cached: Option<bool>,
}

impl Fold {
    async fn end_of_job(&self, job: Job) -> Result<RunEnd, Interruption> {
        match job.status {
            JobStatus::Cancelled => self.result(Some(StopReason::Cancelled), RunEnd::NeverBegan).await,
            JobStatus::Failed => {
                let error = job.error.unwrap_or_default();
                Ok(RunEnd::Recorded(RunFailure {
                    kind: failure_kind(&error),
                    error,
                    is_public: true,
                    is_final: true,
                }))
            }
            JobStatus::Completed | JobStatus::Waiting | JobStatus::Active | JobStatus::Delayed => {
                let result =
                    job.result.and_then(|result| serde_json::from_str::<AgentResult>(result.get()).ok());
                Ok(match result {
                    Some(result) => RunEnd::Answer(Answer { result: Arc::new(result), cached: None }),
                    // Another program may have worked on it.
                    None => failure("its result is none of an agent"),
                })
            }
        }
    }

    /// The result that the journal comes to, or what else there is to say.
    async fn result(&self, recorded: Option<StopReason>, otherwise: RunEnd) -> Result<RunEnd, Interruption> {
        let events = self.journal.read(&self.run_id, 0).await.map_err(Interruption::Store)?;
        Ok(match recorded_end(events, recorded) {
            Ok(Some(result)) => RunEnd::Answer(Answer { result: Arc::new(result), cached: self.cached }),
            Ok(None) | Err(_) => otherwise,
        })
    }
}

fn failure(error: &str) -> RunEnd {
    let (kind, error) = (FailureKind::Internal, error.to_owned());
    RunEnd::Recorded(RunFailure { kind, error, is_public: false, is_final: false })
}

impl std::fmt::Debug for Following {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Following")
            .field("run_id", &self.run_id)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}
