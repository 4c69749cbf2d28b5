//! `agent-host jobs`: looks at the queue from beside the service, and cancels or retries a job. Whoever may
//! read the stores may do that: nobody's token is asked for.

use std::fmt::Write as _;
use std::sync::Arc;

use agent_core::ports::{JobQueue, WebhookOutbox};
use agent_core::terminal_text::shown;
use agent_core::words::{CancelOutcome, Job, JobQuery, JobStatus};
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use host_setup::output::{json_line, print};
use host_setup::program::install_tls;
use host_setup::stores::Runs;
use run_service::jobs::{CancelledRuns, Jobs, NotRetried};
use run_service::runs::moment;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Exit, dev};
use crate::composition;
use crate::config::{ProcessEnv, Retention, Stores};

/// Most characters of an id, and of an error in the list.
const ID_CHARS: usize = 64;
const ERROR_CHARS: usize = 200;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List a user's jobs, the newest first; without a user, say how many jobs there are
    ///
    /// Reads the queue where it lies: in the Redis that REDIS_URL names, else in the database of
    /// DATABASE_URL.
    List(List),
    /// Show a job: where it stands, its run, its error
    Show {
        /// Its id, as its submission answered it
        job_id: String,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Cancel a job, whoever's it is
    ///
    /// One that waits is cancelled at once; whoever works on one is asked to stop, and does within seconds.
    Cancel {
        /// Its id
        job_id: String,
        /// Print what became of it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Put a job that failed for good back to the queue, for one more attempt
    ///
    /// The attempt is a run of its own: what the run before had come to is not taken up. What it waits for
    /// and its end go to the job's webhook.
    Retry {
        /// Its id
        job_id: String,
        /// Print what became of it as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// The user's id, as tokens have it
    #[arg(long)]
    user: Option<String>,
    /// Only jobs of this status: waiting, active, delayed, parked, completed, failed or cancelled
    #[arg(long, value_parser = parse_status, requires = "user")]
    status: Option<JobStatus>,
    /// How many at most; fewer are shown at once where their results are large
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000), requires = "user")]
    limit: u16,
    /// Go on where the list before ended
    #[arg(long, requires = "user")]
    cursor: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: Command) -> anyhow::Result<Exit> {
    install_tls();
    let Opened { queue, runs, outbox } = open().await?;
    let text = match &command {
        Command::List(wanted) => list(&Jobs::new(queue.clone()), &*queue, wanted).await,
        Command::Show { job_id, json } => show(&*queue, job_id, *json).await,
        Command::Cancel { job_id, json } => match runs {
            Some(runs) => cancel_recorded(&queue, runs, job_id, *json).await,
            None => cancel(&Jobs::new(queue.clone()), &*queue, job_id, *json).await,
        },
        Command::Retry { job_id, json } => retry(&*queue, outbox.as_deref(), job_id, *json).await,
    };
    queue.close().await;
    print(&text?)?;
    Ok(Exit::Success)
}

/// The stores that jobs are in.
struct Opened {
    queue: Arc<dyn JobQueue>,
    /// Where the runs of jobs are kept, if anywhere.
    runs: Option<Runs>,
    /// Where the webhooks of jobs are; absent without a database.
    outbox: Option<Arc<dyn WebhookOutbox>>,
}

async fn open() -> anyhow::Result<Opened> {
    let (stores, retention) = (Stores::from_vars(&ProcessEnv)?, Retention::from_vars(&ProcessEnv)?);
    let opened = composition::open_existing_stores(&stores).await?;
    match composition::open_queue(&stores, retention, &opened)? {
        Some(queue) => {
            let outbox = opened.database.as_ref().map(composition::open_outbox);
            Ok(Opened { queue, runs: opened.runs, outbox })
        }
        None => bail!(
            "neither REDIS_URL nor DATABASE_URL is set, so there is no queue to look at: set those that the service has \
             ({})",
            dev::databases(&ProcessEnv)
        ),
    }
}

async fn list(jobs: &Jobs, queue: &dyn JobQueue, wanted: &List) -> anyhow::Result<String> {
    let Some(user_id) = &wanted.user else { return depth(queue, wanted.json).await };
    let query = JobQuery {
        user_id,
        status: wanted.status,
        limit: wanted.limit.into(),
        cursor: wanted.cursor.as_deref(),
    };
    let page = jobs.list(&query).await.context("the jobs cannot be listed")?;
    if wanted.json {
        let jobs: Vec<_> = page.jobs.iter().map(as_json).collect();
        return Ok(json_line(&json!({ "jobs": jobs, "nextCursor": page.next_cursor })));
    }
    if page.jobs.is_empty() {
        return Ok("The user has no such jobs.\n".to_owned());
    }
    let mut text = String::new();
    for job in &page.jobs {
        let error = job.error.as_deref().map(|error| format!("  {}", shown(error, ERROR_CHARS)));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<34} {} {:<9} attempts {}{}",
            shown(&job.id, ID_CHARS),
            moment(job.created_at),
            job.status.as_str(),
            job.attempts_made,
            error.unwrap_or_default()
        );
    }
    if let Some(cursor) = &page.next_cursor {
        let _ = writeln!(text, "There are more: --cursor {cursor}");
    }
    Ok(text)
}

async fn depth(queue: &dyn JobQueue, as_json: bool) -> anyhow::Result<String> {
    let depth = queue.depth().await.context("the jobs cannot be counted")?;
    let oldest = depth.oldest_waiting.map(|waited| waited.as_secs_f64());
    if as_json {
        let counts = json!({
            "waiting": depth.waiting, "active": depth.active, "delayed": depth.delayed, "parked": depth.parked, "oldestWaitingSeconds": oldest,
        });
        return Ok(json_line(&counts));
    }
    let oldest = oldest.map_or_else(String::new, |seconds| format!("; the oldest has waited {seconds:.1} s"));
    Ok(format!(
        "{} waiting, {} active, {} delayed, {} parked{oldest}. --user lists a user's.\n",
        depth.waiting, depth.active, depth.delayed, depth.parked
    ))
}

async fn show(queue: &dyn JobQueue, job_id: &str, json: bool) -> anyhow::Result<String> {
    let job = queue.read(job_id).await.context("the job cannot be read")?;
    let Some(job) = job else { return Err(unknown(job_id)) };
    if json {
        return Ok(json_line(&as_json(&job)));
    }
    let mut text = format!(
        "job {}, {}, of user {}, run {}\nsubmitted {}",
        shown(&job.id, ID_CHARS),
        job.status.as_str(),
        shown(&job.user_id, ID_CHARS),
        shown(&job.run_id, ID_CHARS),
        moment(job.created_at)
    );
    let times = [("last begun", job.started_at), ("ended", job.finished_at)];
    for (what, time) in times.into_iter().filter_map(|(what, time)| Some((what, time?))) {
        let _ = write!(text, ", {what} {}", moment(time));
    }
    let _ = writeln!(text, ", attempts {}", job.attempts_made);
    if let Some(parent) = &job.parent {
        let _ = writeln!(text, "its parent waits for it: {}", shown(parent, ID_CHARS));
    }
    if let Some(error) = &job.error {
        let _ = writeln!(text, "error: {}", shown(error, ERROR_CHARS));
    }
    if let Some(result) = &job.result {
        let _ = writeln!(text, "result: {}", shown(result.get(), 5 * ERROR_CHARS));
    }
    if job.status == JobStatus::Parked {
        let _ = writeln!(
            text,
            "What it waits for: agent-host waits list --user {}",
            shown(&job.user_id, ID_CHARS)
        );
    }
    let _ = writeln!(text, "What its run did: agent-host runs show {}", shown(&job.run_id, ID_CHARS));
    Ok(text)
}

/// Cancels a job, and writes down that its run has ended where runs are kept.
async fn cancel_recorded(
    queue: &Arc<dyn JobQueue>,
    runs: Runs,
    job_id: &str,
    json: bool,
) -> anyhow::Result<String> {
    let (ending, flusher) = CancelledRuns::beside_the_service(&runs.store);
    let jobs = Jobs::new(queue.clone()).ending(ending);
    let work = async {
        let text = cancel(&jobs, &**queue, job_id, json).await;
        let written = CancellationToken::new();
        written.cancel();
        flusher.run(written).await;
        text
    };
    // The end of a run is an event of its journal, which the writer of that store commits.
    tokio::select! {
        text = work => text,
        () = runs.writer.run() => bail!("the store of runs takes nothing any more"),
    }
}

async fn cancel(jobs: &Jobs, queue: &dyn JobQueue, job_id: &str, json: bool) -> anyhow::Result<String> {
    let job = queue.read(job_id).await.context("the job cannot be read")?;
    let Some(job) = job else { return Err(unknown(job_id)) };
    let outcome = jobs.cancel(&job.user_id, job_id).await.context("the job cannot be cancelled")?;
    let (outcome, text) = match outcome {
        CancelOutcome::Done => ("cancelled", "It is cancelled."),
        CancelOutcome::Asked => ("asked", "Its worker was asked to stop, and does within seconds."),
        CancelOutcome::HadEnded => bail!("job {job_id:?} had ended already"),
        CancelOutcome::Refused => bail!(
            "job {job_id:?} is held by a worker of another program that cannot be told, or belongs to a job scheduler"
        ),
        CancelOutcome::Unknown => return Err(unknown(job_id)),
    };
    Ok(said(json, job_id, outcome, text))
}

async fn retry(
    queue: &dyn JobQueue,
    outbox: Option<&dyn WebhookOutbox>,
    job_id: &str,
    json: bool,
) -> anyhow::Result<String> {
    match run_service::jobs::retry(queue, outbox, job_id).await {
        Ok(()) => Ok(said(json, job_id, "waiting", "It waits for a worker.")),
        Err(NotRetried::NotFailed) => {
            bail!("job {job_id:?} has not failed: only a failed job can be tried again")
        }
        Err(NotRetried::ChildRun { parent }) => bail!(
            "job {job_id:?} is a run that job {parent:?} began and is told the end of once: retry that one, if it \
             failed"
        ),
        Err(NotRetried::Unknown) => Err(unknown(job_id)),
        Err(error @ (NotRetried::Queue(_) | NotRetried::Webhook(_))) => {
            Err(error).context("the job cannot be tried again")
        }
    }
}

fn said(json: bool, job_id: &str, outcome: &str, text: &str) -> String {
    if json { json_line(&json!({ "jobId": job_id, "outcome": outcome })) } else { format!("{text}\n") }
}

fn unknown(job_id: &str) -> anyhow::Error {
    anyhow::anyhow!("the queue has no job {job_id:?}: it never had, or it was removed")
}

fn as_json(job: &Job) -> Value {
    let moment = |time: Option<_>| time.map(moment);
    json!({
        "jobId": job.id, "runId": job.run_id, "parent": job.parent, "userId": job.user_id, "status": job.status.as_str(),
        "result": job.result, "error": job.error, "attemptsMade": job.attempts_made,
        "createdAt": moment(Some(job.created_at)), "startedAt": moment(job.started_at),
        "finishedAt": moment(job.finished_at),
    })
}

fn parse_status(text: &str) -> Result<JobStatus, String> {
    let names = || JobStatus::ALL.map(JobStatus::as_str).join(", ");
    JobStatus::parse(text).ok_or_else(|| format!("it is none of {}", names()))
}

#[cfg(test)]
mod tests {
    use agent_core::testing::TestQueue;
    use agent_core::words::JobData;
    use serde_json::value::to_raw_value;

    use super::*;

    fn of(user: Option<&str>, json: bool) -> List {
        List { user: user.map(str::to_owned), status: None, limit: 20, cursor: None, json }
    }

    #[tokio::test]
    async fn jobs_are_counted_listed_shown_and_cancelled() {
        let queue = Arc::new(TestQueue::default());
        let jobs = Jobs::new(queue.clone());
        let id = queue.add(&JobData::new("2+2", "u1")).await.unwrap();
        assert!(list(&jobs, &*queue, &of(None, false)).await.unwrap().starts_with("1 waiting, 0 active"));
        let listed = list(&jobs, &*queue, &of(Some("u1"), false)).await.unwrap();
        assert!(listed.contains("waiting") && listed.starts_with(&id), "{listed}");
        let of_other = list(&jobs, &*queue, &of(Some("u2"), false)).await.unwrap();
        assert_eq!(of_other, "The user has no such jobs.\n");
        let json = list(&jobs, &*queue, &of(Some("u1"), true)).await.unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["jobs"][0]["jobId"], id);
        assert!(show(&*queue, &id, false).await.unwrap().contains("of user u1"));
        assert_eq!(cancel(&jobs, &*queue, &id, false).await.unwrap(), "It is cancelled.\n");
        let again = cancel(&jobs, &*queue, &id, false).await.unwrap_err();
        assert!(again.to_string().contains("had ended already"), "{again}");
        let retried = retry(&*queue, None, &id, false).await.unwrap_err();
        assert!(retried.to_string().contains("has not failed"), "{retried}");
        let parent = Some("7:1.0".to_owned());
        let child = queue.add(&JobData { parent, ..JobData::new("2+2", "u1") }).await.unwrap();
        let retried = retry(&*queue, None, &child, false).await.unwrap_err();
        assert!(retried.to_string().contains("job \"7\" began"), "{retried}");
        let unknown = show(&*queue, "99", true).await.unwrap_err();
        assert!(unknown.to_string().contains("the queue has no job \"99\""), "{unknown}");
    }

    #[tokio::test]
    async fn a_list_of_large_results_is_shown_in_parts() {
        let queue = Arc::new(TestQueue::default());
        let result = to_raw_value(&"x".repeat(1 << 20)).unwrap();
        for _ in 0..12 {
            let id = queue.add(&JobData::new("2+2", "u1")).await.unwrap();
            queue.change(&id, |job| {
                (job.status, job.result) = (JobStatus::Completed, Some(result.clone()));
            });
        }
        let jobs = Jobs::new(queue.clone());
        let listed = list(&jobs, &*queue, &of(Some("u1"), false)).await.unwrap();
        assert_eq!((listed.lines().count(), listed.contains("There are more")), (11, true), "{listed}");
    }

    #[test]
    fn a_status_that_is_none_names_those_that_there_are() {
        assert_eq!(parse_status("failed"), Ok(JobStatus::Failed));
        assert!(parse_status("broken").unwrap_err().contains("waiting, active, delayed"));
    }
}
