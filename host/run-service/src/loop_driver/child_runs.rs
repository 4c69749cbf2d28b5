//! Child runs: begun as jobs of the queue, looked at when their parent is taken up, and stopped with it.
//!
//! A child's journal begins with what its parent gives it, written before its job is added: whoever claims
//! the job finds all of it there, as with the run of a request that was handed over. Both ids stand in the
//! parent's journal by then, so that whoever takes the parent up in between begins nothing twice.
//!
//! Nobody looks at parents that wait. Whoever ends a child has the job of its parent claimed
//! ([`JobQueue::resume`]): in some seconds before the child's end is told to the queue, and at once behind
//! it. Should both be lost, the parent is due after as long as it has waited already.
//!
//! A child that is taken up asks whether its parent still waits for it, and is cancelled if not.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::agent_loop::Run;
use agent_core::ports::{Epoch, JobQueue, Journal, JournalError, JournalResult, QueueError};
use agent_core::words::{
    AgentResult, CancelOutcome, Event, Finish, Job, JobData, JobOptions, JobStatus, Message, OpenKinds,
    ParentCall, ParkedRun, StopReason, Task, Usage, Verdict, Wait,
};
use boxed_async::boxed_async;
use tracing::debug;

/// After which time a run is due again that waits for the first moment.
const LOOK_FIRST: Duration = Duration::from_secs(5);

/// How a run begins runs of its own.
#[derive(Clone, Default)]
pub enum ChildRuns {
    /// Not at all: nobody goes on with it, or programs work on the queue that read of a job its query only.
    #[default]
    Never,
    /// The job does that which goes on with the run.
    ByJob,
    /// As jobs of this queue.
    In {
        queue: Arc<dyn JobQueue>,
        /// Absent where no runs are recorded.
        ending: Option<Arc<dyn EndsCancelledRuns>>,
    },
}

/// Does what is left to do when a job is cancelled on which nobody works: its run ends. Implemented by
/// `jobs/cancelled.rs`, which drives runs itself.
#[boxed_async]
pub trait EndsCancelledRuns: Send + Sync {
    /// Ends the run of this job of `queue`. Done again it does no harm.
    async fn end_run_of(self: Arc<Self>, job: &Job, queue: &Arc<dyn JobQueue>) -> Result<(), QueueError>;
}

/// Why a child could not be begun or looked at.
pub(super) type ChildError = JournalError;

impl ChildRuns {
    /// In that queue, if all who work on it know what a child may not do. Runs of children that are cancelled
    /// are ended by `ending`.
    pub fn of<E: EndsCancelledRuns + 'static>(queue: &Arc<dyn JobQueue>, ending: Option<&Arc<E>>) -> Self {
        if !queue.takes_options() {
            return Self::Never;
        }
        let ending = ending.map(|ending| ending.clone() as Arc<dyn EndsCancelledRuns>);
        Self::In { queue: queue.clone(), ending }
    }

    /// Child runs of a run of a request, which a job of that queue goes on with.
    pub(crate) fn by_job_of(queue: &dyn JobQueue) -> Self {
        if queue.takes_options() { Self::ByJob } else { Self::Never }
    }

    pub(crate) fn are_possible(&self) -> bool {
        !matches!(self, Self::Never)
    }

    fn queue(&self) -> Option<&dyn JobQueue> {
        if let Self::In { queue, .. } = self { Some(&**queue) } else { None }
    }

    /// When a parent is to be taken up that began to wait at `since`, if no end of a child does that before.
    pub(super) fn due(&self, since: u64, now: u64) -> u64 {
        match self {
            Self::Never => u64::MAX,
            Self::ByJob => now,
            Self::In { .. } => look_again(since, now),
        }
    }

    /// What has become of a child: nothing while it is under way. One that there is not is begun.
    pub(super) async fn look(
        &self,
        journal: &dyn Journal,
        child: Child<'_>,
    ) -> Result<Option<Verdict>, ChildError> {
        let Some(queue) = self.queue() else { return Ok(None) };
        let (Some(of_wait), Some(task)) = (&child.wait.child, child.task) else { return Ok(None) };
        match queue.read(&of_wait.job_id).await? {
            Some(job) if job.status.has_ended() => ending(journal, &job).await.map(Some),
            Some(_under_way) => Ok(None),
            None => {
                begin(queue, journal, task, child.tools).await?;
                Ok(None)
            }
        }
    }

    /// The end of a child whose parent waits no longer.
    pub(super) async fn late(&self, journal: &dyn Journal, wait: &Wait) -> Result<Verdict, ChildError> {
        let run_id = wait.child.as_ref().map_or("", |child| &child.run_id);
        let answer = "the run took too long and was cancelled".to_owned();
        Ok(Verdict::Ended { answer, is_answered: false, usage: usage(journal, run_id).await? })
    }

    /// Stops children, as far as possible: those that are left find out when they are taken up.
    pub(crate) async fn stop<'a>(&self, job_ids: impl Iterator<Item = &'a str>) {
        let Some(queue) = self.queue() else { return };
        for job_id in job_ids {
            let stopping = async {
                let status = self.cancel_at_work(job_id).await?;
                // Whoever claims it writes down that it was cancelled, and stops its own children.
                if status == Some(JobStatus::Parked) {
                    queue.resume(job_id, Duration::ZERO).await?;
                }
                Ok::<_, QueueError>(())
            };
            if let Err(error) = stopping.await {
                debug!(job_id, %error, "a child run is not stopped before it is taken up");
            }
        }
    }

    /// Cancels a child that somebody works on. Says how it stood before; nothing where there is none.
    ///
    /// One that is parked is left alone: claimed, it would find that its parent waits for it until that is
    /// decided.
    pub(super) async fn cancel_at_work(&self, job_id: &str) -> Result<Option<JobStatus>, QueueError> {
        let Self::In { queue, ending } = self else { return Ok(None) };
        let Some(job) = queue.read(job_id).await? else { return Ok(None) };
        // Let go of meanwhile, it is cancelled by the queue alone, and no worker ends its run.
        if job.status == JobStatus::Active
            && queue.cancel(job_id).await? == CancelOutcome::Done
            && let Some(ending) = ending
        {
            ending.clone().end_run_of(&job, queue).await?;
        }
        Ok(Some(job.status))
    }

    /// Whether the parent of a run still waits for it. What cannot be read is taken for a yes.
    pub(crate) async fn are_wanted_by(&self, journal: &dyn Journal, parent: &ParentCall) -> bool {
        let Some(queue) = self.queue() else { return true };
        let job = match queue.read(Wait::job_of(&parent.wait).unwrap_or_default()).await {
            Ok(Some(job)) => job,
            Ok(None) => return false,
            Err(_) => return true,
        };
        // One that was retried is another run.
        if job.status.has_ended() || job.run_id != parent.run_id {
            return false;
        }
        let Ok(events) = journal.read(&parent.run_id, 0).await else { return true };
        Run::waiting(events).is_ok_and(|run| run.waits_for(&parent.wait))
    }

    /// Whether one of these jobs has ended.
    pub(crate) async fn has_ended(&self, job_ids: &[String]) -> Result<bool, QueueError> {
        let Some(queue) = self.queue() else { return Ok(false) };
        for job_id in job_ids {
            if queue.read(job_id).await?.is_some_and(|job| job.status.has_ended()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// When a run is due again that has waited since then: after as long as it has waited, so that it is looked
/// at less and less often.
pub(super) fn look_again(since: u64, now: u64) -> u64 {
    let first = u64::try_from(LOOK_FIRST.as_millis()).unwrap_or(u64::MAX);
    now.saturating_add(now.saturating_sub(since).max(first))
}

/// A child, as its parent knows it.
pub(super) struct Child<'a> {
    pub(super) wait: &'a Wait,
    /// What it is to do.
    pub(super) task: Option<Task>,
    pub(super) tools: String,
}

/// Begins a child, unless that was done before.
async fn begin(
    queue: &dyn JobQueue,
    journal: &dyn Journal,
    task: Task,
    tools: String,
) -> Result<(), ChildError> {
    let job = JobData {
        id: task.id.strip_prefix("run_").map(str::to_owned),
        goes_on: Some(ParkedRun {
            run_id: task.id.clone(),
            until: SystemTime::UNIX_EPOCH,
            open: OpenKinds::default(),
        }),
        parent: task.parent.as_ref().map(|parent| parent.wait.clone()),
        options: JobOptions { options: task.options.clone(), is_in_history: false },
        ..JobData::submitted_by(task.principal.clone(), task.input.clone())
    };
    let run_id = task.id.clone();
    // Begun by nobody who could have died of it.
    let events = [Event::Started { task, tools }, Event::HandedBack];
    match journal.append(&run_id, Epoch::UNCLAIMED, 0, &events).await {
        Ok(()) | Err(JournalError::Conflict { .. } | JournalError::Fenced { .. }) => {}
        Err(error) => return Err(error),
    }
    queue.add(&job).await?;
    Ok(())
}

/// What a child came to that has ended.
async fn ending(journal: &dyn Journal, job: &Job) -> Result<Verdict, ChildError> {
    let result = job.result.as_ref();
    let result = result.and_then(|result| serde_json::from_str::<AgentResult>(result.get()).ok());
    let in_result = result.as_ref().map(|result| result.usage).unwrap_or_default();
    let answer = match result {
        Some(AgentResult { output: answer, stop_reason: StopReason::Completed, usage, .. }) => {
            return Ok(Verdict::Ended { answer, is_answered: true, usage });
        }
        Some(result) => {
            let (reason, output) = (result.stop_reason.as_str(), &result.output);
            if ended_in_words(&readable(journal, &job.run_id).await?, &result) {
                let answer = format!("The run was ended early by {reason}. Its last reply: {output}");
                return Ok(Verdict::Ended { answer, is_answered: true, usage: result.usage });
            }
            format!("the run ended by {reason} and not by itself. Its last words: {output}")
        }
        None => match &job.error {
            Some(error) if job.status == JobStatus::Failed => format!("the run failed: {error}"),
            _ if job.status == JobStatus::Cancelled => "the run was cancelled".to_owned(),
            _ => "the run ended without an answer".to_owned(),
        },
    };
    // The queue may have the end before the journal has the last reply. What children cost that the run was
    // not told of is in the journal alone.
    let in_journal = usage(journal, &job.run_id).await?;
    let usage = if in_result.total() > in_journal.total() { in_result } else { in_journal };
    Ok(Verdict::Ended { answer, is_answered: false, usage })
}

/// Whether the model of a run that neared a limit was asked to answer with what it had, and ended that reply
/// in words by itself. The queue may have the result before the journal has that reply, or instead: then the
/// result's words are taken for it.
fn ended_in_words(events: &[Event], result: &AgentResult) -> bool {
    let replies = events.iter().filter_map(|event| match event {
        Event::ModelReplied { reply, last_by, .. } => Some((reply, last_by.is_some())),
        _ => None,
    });
    let replies: Vec<_> = replies.collect();
    if replies.len() < result.iterations as usize {
        let last = result.messages.last();
        return matches!(last, Some(Message::Assistant { content, tool_calls })
            if tool_calls.is_empty() && !content.trim().is_empty());
    }
    replies.last().is_some_and(|(reply, is_forced)| {
        let is_words = reply.tool_calls.is_empty() && !reply.content.trim().is_empty();
        *is_forced && is_words && reply.finish == Finish::Done
    })
}

/// What a run that was cut off has cost by its journal, with the runs that it began and has not been told of.
/// Nothing of one whose journal is damaged.
async fn usage(journal: &dyn Journal, run_id: &str) -> Result<Usage, ChildError> {
    let (mut sum, mut open) = (Usage::default(), vec![run_id.to_owned()]);
    while let Some(run_id) = open.pop() {
        if let Ok(run) = Run::waiting(readable(journal, &run_id).await?) {
            sum = sum.plus(run.usage());
            open.extend(run.children().map(|(_, child)| child.run_id.clone()));
        }
    }
    Ok(sum)
}

/// The events of a child, none of a journal that is damaged: its parent goes on.
async fn readable(journal: &dyn Journal, run_id: &str) -> JournalResult<Vec<Event>> {
    match journal.read(run_id, 0).await {
        Err(JournalError::Damaged { .. }) => Ok(Vec::new()),
        read => read,
    }
}

impl fmt::Debug for ChildRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "Never",
            Self::ByJob => "ByJob",
            Self::In { .. } => "In",
        })
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::{TestRuns, asks_for, job, reply, says, task};
    use agent_core::words::{Limit, ModelReply};
    use serde_json::json;

    use super::*;

    /// What a run came to that a limit ended behind two replies, by its last words.
    fn result(words: &str) -> AgentResult {
        AgentResult {
            output: words.into(),
            usage: Usage::default(),
            iterations: 2,
            ..agent_core::testing::result(vec![reply(words)], StopReason::TokenBudget)
        }
    }

    #[tokio::test]
    async fn what_a_child_has_cost_whose_journal_is_damaged_does_not_end_its_parent() {
        let runs = TestRuns::default();
        runs.damage("run_1");
        assert_eq!(usage(&runs, "run_1").await, Ok(Usage::default()));
    }

    #[test]
    fn a_reply_that_a_limit_made_the_last_answers_if_it_ends_in_words() {
        let replied = |reply: ModelReply, last_by| Event::ModelReplied {
            reply,
            input_tokens: None,
            last_by,
            output_fault: None,
        };
        let by = Some(Limit::Tokens);
        let cut_off = ModelReply { finish: Finish::Length, ..says("4") };
        for (event, is_answer) in [
            (replied(says("42"), by), true),
            (replied(says("42"), None), false),
            (replied(says(" "), by), false),
            (replied(cut_off, by), false),
            (replied(asks_for(&[("c", "pay", json!({}))]), by), false),
        ] {
            let events = [Event::from(says("first")), event, Event::TakenUp { by: "w".into() }];
            assert_eq!(ended_in_words(&events, &result("42")), is_answer, "{events:?}");
        }
        // The journal does not have the last reply yet.
        for (words, is_answer) in [("42", true), (" ", false)] {
            assert_eq!(ended_in_words(&[Event::from(says("first"))], &result(words)), is_answer);
        }
    }

    #[tokio::test]
    async fn a_child_without_an_answer_is_billed_for_a_last_reply_that_its_journal_does_not_have_yet() {
        let (runs, child) = (TestRuns::default(), task("hi"));
        let started = Event::Started { task: child.clone(), tools: "sha256:test".into() };
        let events = [started, Event::from(asks_for(&[("c", "pay", json!({}))]))];
        runs.append(&child.id, Epoch(1), 0, &events).await.unwrap();
        for (in_result, billed) in [(30, 30), (15, 15), (0, 15)] {
            let result = AgentResult { usage: Usage::of(in_result, 0), ..result("") };
            let job = Job {
                run_id: child.id.clone(),
                result: serde_json::value::to_raw_value(&result).ok(),
                ..job("1", JobStatus::Completed)
            };
            let Verdict::Ended { is_answered, usage, .. } = ending(&runs, &job).await.unwrap() else {
                panic!()
            };
            assert_eq!((is_answered, usage.total()), (false, billed));
        }
    }
}
