//! The queue of jobs as a table, with leases that expire: claimed, renewed by heartbeats, reclaimed when they
//! are stalled. What may become of a job is said in `statements.rs`; each statement is one transaction, so
//! that two workers never see a job in between. What is frequent and reads nothing goes by the database's
//! commit lane (`../commit/`).

mod announcements;
mod claim_wakeup;
mod ended;
mod next_claim;
mod reads;
mod renewal;
mod rows;
mod statements;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::backoff::exponential;
use agent_core::ports::queue::{ATTEMPTS, FIRST_BACKOFF, LEASE, MOST_LOSSES, address_of, stalled_after};
use agent_core::ports::{
    AttemptEnd, Claim, ClaimedJob, JobChanges, JobQueue, QueueError, Renewal, StoreFindings,
};
use agent_core::words::{
    CancelOutcome, Depth, Job, JobData, JobPage, JobQuery, JobStatus, OpenKinds, RetryOutcome, Wait,
};
use boxed_async::boxed_async;
use futures::TryFutureExt as _;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use self::announcements::Announcements;
use self::claim_wakeup::ClaimWakeup;
use self::ended::EndedJobs;
use self::next_claim::next_claim;
use self::reads::JobReads;
use self::rows::{DepthRow, JobRow, ParkedRow, WaitsRow, into_claim};
use super::commit::{AttemptRow, ClaimRow, CommitError, Commits, NewJob, Renewal as RenewalRow, new_run_id};
use super::error::describe;
use super::text_columns::escape;
use super::{SqlPool, ms, now, reading, rewriting, to_ms, writing};
use crate::Writer;

/// Greater than every id.
const BEFORE_ALL: &str = "~";

/// A queue in the database, shared by every process that uses the same one.
pub struct SqlQueue {
    pool: SqlPool,
    lease: Duration,
    commits: Commits,
    /// Wakes the workers of this process.
    claim_wakeup: Arc<ClaimWakeup>,
    /// Wakes those of others, and is woken by them.
    announcements: Arc<Announcements>,
    /// Tells others which jobs end here, and is told.
    ended: Arc<EndedJobs>,
    /// Reads of jobs on SQLite.
    reads: JobReads,
    /// Whether the journals of its jobs lie in this database as well.
    has_journals: bool,
}

impl SqlQueue {
    /// The queue, and what adds jobs for it and listens for those of others, which has to be run beside it.
    pub fn new(pool: SqlPool) -> (Self, Writer) {
        Self::reporting(pool, StoreFindings::default())
    }

    /// A queue that reports to `findings` while jobs of other processes cannot be listened for.
    pub fn reporting(pool: SqlPool, findings: StoreFindings) -> (Self, Writer) {
        let (commits, adding) = Commits::new(&pool);
        let claim_wakeup = Arc::new(ClaimWakeup::new());
        let ended = Arc::new(EndedJobs::default());
        let announcements =
            Arc::new(Announcements::new(pool.clone(), claim_wakeup.clone(), ended.clone(), findings));
        if let SqlPool::Postgres(postgres) = &pool {
            postgres.listener().add(&announcements);
        }
        let listening = announcements.clone();
        let writer = Writer::new(move || {
            let (adding, listening) = (adding.run(), listening.clone());
            async move {
                tokio::select! {
                    () = adding => {}
                    () = listening.listen() => {}
                    () = listening.announce_ended() => {}
                }
            }
        });
        let reads = JobReads::default();
        let queue = Self {
            pool,
            lease: LEASE,
            commits,
            claim_wakeup,
            announcements,
            ended,
            reads,
            has_journals: true,
        };
        (queue, writer)
    }

    /// Sets another length of leases; every process that uses the queue has to have the same.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Sets that the journals of the queue's jobs lie in another store. One of the two stores may be set back
    /// to an earlier time without the other, so that no claim is said to be the first one.
    #[must_use]
    pub fn beside_other_journals(self) -> Self {
        Self { has_journals: false, ..self }
    }

    async fn try_claim(&self, worker: &str) -> ClaimedJob {
        loop {
            let token = Uuid::now_v7().simple().to_string();
            let leased_at = Instant::now();
            let Some(row) = self.claim_next(worker, &token).await.map_err(failed)? else { return Ok(None) };
            if row.status == JobStatus::Active.as_str() {
                return Ok(Some(self.claimed(row, token, leased_at)));
            }
            self.has_ended_unseen(&row.id);
            self.wake_parent(row.parent.as_deref()).await;
        }
    }

    /// Has the job claimed whose run waits for the end of one that has killed too many workers, and that the
    /// queue has ended itself. Should that fail, that job is due by itself after a while.
    async fn wake_parent(&self, wait: Option<&str>) {
        let Some(parent) = wait.and_then(Wait::job_of) else { return };
        if let Err(error) = self.resume(parent, Duration::ZERO).await {
            tracing::debug!(job_id = parent, %error, "the end of a child run is not told to its parent");
        }
    }

    fn claimed(&self, row: ClaimRow, token: String, leased_at: Instant) -> Claim {
        let mut claim = into_claim(row, token, leased_at);
        claim.earlier.are_none &= self.has_journals;
        claim
    }

    /// Ends an attempt by the commit lane, and gives the job that was claimed with it.
    async fn end(&self, claim: &Claim, attempt: AttemptRow) -> ClaimedJob {
        let token = attempt.next.as_ref().map(|next| next.token.clone());
        let leased_at = Instant::now();
        let Some(ended) = self.commits.write(attempt).await.map_err(not_committed)? else {
            return Err(QueueError::LeaseLost { job_id: claim.job_id.clone() });
        };
        // One that was to go back and that nobody wants any more has ended. Whoever waits for the end of one
        // that is parked is told so as well, and waits no longer.
        if ended.status == JobStatus::Waiting.as_str() {
            self.claim_wakeup.wake();
        } else {
            self.has_ended(&claim.job_id);
        }
        let Some((row, token)) = ended.next.zip(token) else { return Ok(None) };
        // There may be more.
        self.claim_wakeup.wake();
        Ok(Some(self.claimed(*row, token, leased_at)))
    }

    /// Tells other processes. Those on one SQLite file poll.
    fn has_ended(&self, job_id: &str) {
        if matches!(self.pool, SqlPool::Postgres(_)) {
            self.ended.ended(job_id);
        }
    }

    /// Tells other processes of a job that nobody here works on or has asked to end.
    fn has_ended_unseen(&self, job_id: &str) {
        if matches!(self.pool, SqlPool::Postgres(_)) {
            self.ended.ended_unseen(job_id);
        }
    }

    /// In how long the next job is due that is delayed or whose lease ends.
    async fn next_due(&self) -> Result<Option<Duration>, QueueError> {
        let due: Option<i64> =
            reading!(&self.pool, db => sqlx::query_scalar(statements::NEXT_DUE).fetch_one(db))
                .map_err(failed)?;
        Ok(due.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))))
    }

    /// Rows are read to their end: only then has SQLite committed.
    async fn claim_next(&self, worker: &str, token: &str) -> sqlx::Result<Option<ClaimRow>> {
        let sql = match self.pool {
            SqlPool::Postgres(_) => statements::CLAIM_IN_POSTGRES,
            SqlPool::Sqlite(_) => statements::CLAIM_IN_SQLITE,
        };
        let rows: Vec<ClaimRow> = writing!(&self.pool, db => {
            let query = sqlx::query_as(sql).bind(escape(worker)).bind(token);
            query.bind(ms(self.lease)).bind(i64::from(MOST_LOSSES)).fetch_all(db)
        })?;
        Ok(rows.into_iter().next())
    }
}

#[boxed_async]
impl JobQueue for SqlQueue {
    async fn add(&self, job: &JobData) -> Result<String, QueueError> {
        let job = NewJob::new(job, self.announcements.text());
        let id = job.id().to_owned();
        self.commits.write(job).await.map_err(not_committed)?;
        self.claim_wakeup.wake();
        Ok(id)
    }

    async fn read(&self, job_id: &str) -> Result<Option<Job>, QueueError> {
        let row: Option<JobRow> = match &self.pool {
            SqlPool::Sqlite(pools) => self.reads.read(pools, &escape(job_id)).await?,
            SqlPool::Postgres(_) => reading!(&self.pool, db => {
                sqlx::query_as(statements::READ).bind(escape(job_id)).fetch_optional(db)
            })
            .map_err(failed)?,
        };
        row.map(JobRow::into_job).transpose()
    }

    async fn list(&self, wanted: &JobQuery<'_>) -> Result<JobPage, QueueError> {
        let before = wanted.cursor.map_or(Ok(BEFORE_ALL), parse_cursor)?;
        // One more than fits says whether there is another page.
        let most = i64::try_from(wanted.limit).unwrap_or(i64::MAX).saturating_add(1);
        let sql = statements::list(wanted.status);
        let mut rows: Vec<JobRow> = reading!(&self.pool, db => {
            sqlx::query_as(sql).bind(escape(wanted.user_id)).bind(before).bind(most).fetch_all(db)
        })
        .map_err(failed)?;
        let has_more = rows.len() > wanted.limit;
        rows.truncate(wanted.limit);
        let next_cursor = if has_more { rows.last().map(|row| row.id.clone()) } else { None };
        Ok(JobPage { jobs: rows.into_iter().map(JobRow::into_job).collect::<Result<_, _>>()?, next_cursor })
    }

    async fn cancel(&self, job_id: &str) -> Result<CancelOutcome, QueueError> {
        let statuses: Vec<String> = writing!(&self.pool, db => {
            sqlx::query_scalar(statements::CANCEL).bind(escape(job_id)).fetch_all(db)
        })
        .map_err(failed)?;
        Ok(match statuses.first() {
            Some(status) if status == JobStatus::Cancelled.as_str() => {
                self.has_ended(job_id);
                CancelOutcome::Done
            }
            Some(_active) => CancelOutcome::Asked,
            None if self.read(job_id).await?.is_some() => CancelOutcome::HadEnded,
            None => CancelOutcome::Unknown,
        })
    }

    /// A cursor is `<due in ms>-<id>` of the last job of the page before.
    async fn list_parked(&self, limit: usize, cursor: Option<&str>) -> Result<JobPage, QueueError> {
        let (due, id) = match cursor {
            None => (i64::MIN, ""),
            Some(cursor) => {
                let (due, id) = cursor.split_once('-').ok_or(QueueError::BadCursor)?;
                (due.parse().map_err(|_error| QueueError::BadCursor)?, parse_cursor(id)?)
            }
        };
        let rows: Vec<ParkedRow> = reading!(&self.pool, db => {
            let query = sqlx::query_as(statements::PARKED).bind(due).bind(id);
            query.bind(i64::try_from(limit).unwrap_or(i64::MAX)).fetch_all(db)
        })
        .map_err(failed)?;
        let last = rows.last().filter(|_| rows.len() >= limit);
        let next_cursor = last.map(|last| format!("{}-{}", last.due_at, last.job.id));
        let jobs = rows.into_iter().map(|row| row.job.into_job()).collect::<Result<_, _>>()?;
        Ok(JobPage { jobs, next_cursor })
    }

    async fn resume(&self, job_id: &str, within: Duration) -> Result<bool, QueueError> {
        let changed = writing!(&self.pool, db => {
            let query = sqlx::query(statements::RESUME).bind(escape(job_id)).bind(ms(within));
            query.execute(db).map_ok(|done| done.rows_affected())
        })
        .map_err(failed)?;
        if changed > 0 && within.is_zero() {
            self.claim_wakeup.wake();
            self.announcements.announce().await;
        }
        Ok(changed > 0)
    }

    async fn retry(&self, job_id: &str) -> Result<RetryOutcome, QueueError> {
        let run_id = new_run_id();
        let changed = writing!(&self.pool, db => {
            let query = sqlx::query(statements::RETRY).bind(escape(job_id)).bind(&run_id);
            query.execute(db).map_ok(|done| done.rows_affected())
        })
        .map_err(failed)?;
        if changed == 0 {
            let is_there = self.read(job_id).await?.is_some();
            return Ok(if is_there { RetryOutcome::NotFailed } else { RetryOutcome::Unknown });
        }
        self.claim_wakeup.wake();
        self.announcements.announce().await;
        Ok(RetryOutcome::Done)
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        let row: DepthRow =
            reading!(&self.pool, db => sqlx::query_as(statements::DEPTH).fetch_one(db)).map_err(failed)?;
        let waits: Vec<WaitsRow> =
            reading!(&self.pool, db => sqlx::query_as(statements::WAITS).fetch_all(db)).map_err(failed)?;
        Ok(row.into_depth(waits))
    }

    /// Not cancellation-safe: a claim that is dropped half-way may leave a job to nobody until its lease
    /// expires.
    async fn claim(&self, worker: &str, patience: Duration) -> ClaimedJob {
        self.announcements.want();
        let deadline = Instant::now() + patience;
        loop {
            let woken = self.claim_wakeup.woken();
            // Whoever does not wait wants to know how it is.
            let look = self.claim_wakeup.begin(self.announcements.poll_interval(), patience.is_zero());
            if let Some(look) = look {
                if let Some(claim) = self.try_claim(worker).await? {
                    look.found();
                    return Ok(Some(claim));
                }
                look.found_nothing(self.next_due().await?);
            }
            if Instant::now() >= deadline {
                // Somebody else may look all the while.
                return if self.claim_wakeup.has_failed() { Err(not_answered()) } else { Ok(None) };
            }
            let _time_to_look = timeout_at(deadline.min(self.claim_wakeup.next()), woken).await;
        }
    }

    async fn now(&self) -> Result<SystemTime, QueueError> {
        now(&self.pool).await.map_err(failed)
    }

    async fn reclaim(&self, worker: &str, began: SystemTime) -> Result<u64, QueueError> {
        let reclaimed: Vec<String> = rewriting!(&self.pool, db => {
            sqlx::query_scalar(statements::RECLAIM)
                .bind(escape(address_of(worker)))
                .bind(escape(worker))
                .bind(ms(self.lease - stalled_after(self.lease)))
                .bind(to_ms(began + self.lease))
                .fetch_all(db)
        })
        .map_err(failed)?;
        self.claim_wakeup.wake();
        if !reclaimed.is_empty() {
            self.announcements.announce().await;
        }
        Ok(reclaimed.len() as u64)
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal, QueueError> {
        let (job_id, token, lease) = (claim.job_id.clone(), claim.token.clone(), ms(self.lease));
        let cancel_asked = match &self.pool {
            SqlPool::Sqlite(_) => {
                let renewal = RenewalRow { job_id, token, lease };
                self.commits.write(renewal).await.map_err(not_committed)?
            }
            SqlPool::Postgres(pool) => renewal::renew(pool, &job_id, &token, lease).await.map_err(failed)?,
        };
        Ok(match cancel_asked {
            Some(false) => Renewal::Held,
            Some(true) => Renewal::Cancelled,
            None => Renewal::Lost,
        })
    }

    async fn settle(&self, claim: &Claim, end: &AttemptEnd) -> Result<(), QueueError> {
        self.end(claim, attempt_row(claim, end, self.announcements.text())).await.map(drop)
    }

    /// In one commit, which it has in common with the ends and claims of other workers at the same time.
    async fn settle_and_claim(&self, claim: &Claim, end: &AttemptEnd, worker: &str) -> ClaimedJob {
        let mut attempt = attempt_row(claim, end, self.announcements.text());
        // Whoever hands a job back is not to be given another one, or the same.
        if !matches!(end, AttemptEnd::HandedBack { .. }) {
            attempt.next = Some(next_claim(&attempt, escape(worker).into_owned(), ms(self.lease)));
        }
        self.end(claim, attempt).await
    }

    /// Told by the other processes on PostgreSQL. Those on one SQLite file would have to look as often as
    /// whoever waits does.
    async fn changes(&self, after: Option<&str>) -> Result<Option<JobChanges>, QueueError> {
        match self.pool {
            SqlPool::Sqlite(_) => Ok(None),
            SqlPool::Postgres(_) => {
                self.announcements.want();
                self.ended.changes(after).await.map(Some)
            }
        }
    }

    /// The pool is closed by whoever opened it: run records may still be written to it.
    async fn close(&self) {}
}

/// What becomes of a job after an attempt.
fn attempt_row(claim: &Claim, end: &AttemptEnd, announcement: &Arc<str>) -> AttemptRow {
    let ended = |status: JobStatus| AttemptRow {
        job_id: claim.job_id.clone(),
        token: claim.token.clone(),
        epoch: i64::try_from(claim.epoch.0).unwrap_or(i64::MAX),
        status: status.as_str(),
        delay: 0,
        place: 1,
        attempts: 1,
        open: OpenKinds::default(),
        result: None,
        error: None,
        announcement: announcement.clone(),
        next: None,
    };
    let with_error =
        |status, error: &str| AttemptRow { error: Some(escape(error).into_owned()), ..ended(status) };
    match end {
        AttemptEnd::Completed(result) => {
            AttemptRow { result: Some(result.get().to_owned()), ..ended(JobStatus::Completed) }
        }
        AttemptEnd::Failed { error, retry: true } if claim.attempts_made + 1 < ATTEMPTS => AttemptRow {
            delay: ms(exponential(FIRST_BACKOFF, claim.attempts_made)),
            ..with_error(JobStatus::Waiting, error)
        },
        AttemptEnd::Failed { error, .. } => with_error(JobStatus::Failed, error),
        AttemptEnd::Cancelled => ended(JobStatus::Cancelled),
        AttemptEnd::Parked { until, open } => AttemptRow {
            // One that is past is claimed at once.
            delay: ms(until.duration_since(SystemTime::now()).unwrap_or_default()),
            attempts: 0,
            open: *open,
            ..ended(JobStatus::Parked)
        },
        AttemptEnd::HandedBack { delay } => AttemptRow {
            // At once and before all others, or like one that failed and is tried again.
            place: i64::from(!delay.is_zero()),
            delay: ms(*delay),
            attempts: 0,
            ..ended(JobStatus::Waiting)
        },
    }
}

/// A cursor is the id of the last job of the page before.
fn parse_cursor(cursor: &str) -> Result<&str, QueueError> {
    match Uuid::try_parse(cursor) {
        Ok(id) if id.get_version_num() == 7 && id.simple().to_string() == cursor => Ok(cursor),
        Ok(_) | Err(_) => Err(QueueError::BadCursor),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn failed(error: sqlx::Error) -> QueueError {
    QueueError::Store { detail: describe(&error) }
}

fn not_committed(CommitError(detail): CommitError) -> QueueError {
    QueueError::Store { detail }
}

fn not_answered() -> QueueError {
    QueueError::Store { detail: "the last worker that asked it was not answered".into() }
}
