//! BullMQ's own scripts, from its official Rust port (`build.rs` brings them), and their arguments.
//!
//! The port's `Queue` and `Worker` are not used. A job that is claimed by hand can only be completed there
//! with a string, not with JSON; a failure cannot be counted as an attempt and tried again; what has ended is
//! kept for ever; connecting holds up the start, and after an outage nothing works for up to five seconds.
//! The scripts are what makes us speak the same protocol, and they are run over our own connection. Where
//! more has to happen in the same step, `lua.rs` puts our own text around BullMQ's.

use std::time::{Duration, SystemTime};

use agent_core::ports::queue::{ATTEMPTS, FIRST_BACKOFF, JOB};
use agent_core::words::{JobData, OpenKinds};
use bullmq::types::BackoffStrategy;
use bullmq::{JobOptions, QueueKeys};
use redis::{Script, ScriptInvocation};
use serde::Serialize;
use serde_json::Value;

use super::job_hash::{CLAIMS, LISTED, PARKED, parked_mark};
use super::lua::{self, official};
use super::options::{MOST_LISTED, Options};
use super::own_keys::{self, OwnKeys};
use super::submitter::{self, Submitter};
use super::time::{millis, now, to_millis};

/// The scripts, and the keys they are given.
pub(super) struct OfficialScripts {
    keys: QueueKeys,
    own: OwnKeys,
    lease: Duration,
    /// For how long a list of jobs is kept.
    kept_for: Duration,
    add: Script,
    claim: Script,
    finish: Script,
    delay: Script,
    release: Script,
    remove: Script,
    remove_ended: Script,
    reprocess: Script,
    retry: Script,
    schedule: Script,
}

/// How long it is remembered that a script was carried out, so that sending it once more has no second
/// effect: longer than a connection that broke is tried again.
const NOTED_FOR: Duration = Duration::from_secs(30);

/// For how long whoever was elected to look for stalled jobs is the only one of all processes to do so: a
/// little less than each of them waits between two elections.
const ELECTED_FOR: Duration = Duration::from_millis(900);

/// The end of an attempt: of which job, under which lease, and what tells it from any other end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending<'a> {
    pub(super) job_id: &'a str,
    pub(super) token: &'a str,
    /// The attempt, as a request to cancel it names it.
    pub(super) attempt: &'a str,
    /// One end has one digest, which no other end has, however often it is sent.
    pub(super) digest: &'a str,
    /// For what the job's run waits, if it does.
    pub(super) open: OpenKinds,
}

/// A job to be added.
pub(super) struct Addition<'a> {
    pub(super) job: &'a JobData,
    /// The id that it is to have, if that was chosen.
    pub(super) id: Option<&'a str>,
    /// Payload of the job as JSON.
    pub(super) data: &'a str,
    pub(super) trace: Option<String>,
    /// Tells this addition from any other: sent twice, it adds one job.
    pub(super) call: &'a str,
}

/// The claim of the next job.
#[derive(Debug)]
pub(super) struct NextClaim<'a> {
    pub(super) token: &'a str,
    pub(super) worker: &'a str,
    /// Whether to look for stalled jobs first, if nobody else does at the moment.
    pub(super) looks_for_stalled: bool,
}

/// Fields of the job's hash that change with its state: names and values by turns.
pub(super) type Fields<'a> = &'a [&'a str];

/// The next iteration of a job scheduler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Iteration<'a> {
    pub(super) scheduler: &'a str,
    /// The last one.
    pub(super) job_id: &'a str,
    pub(super) data: &'a str,
    /// When it is due, in milliseconds; 0 when the script is to reckon that.
    pub(super) next: u64,
    pub(super) options: &'a Value,
}

/// How a job ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum End<'a> {
    /// With a result as JSON.
    Completed(&'a str),
    /// With a reason.
    Failed(&'a str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClaimOptions<'a> {
    token: &'a str,
    lock_duration: u64,
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FinishOptions<'a> {
    token: &'a str,
    keep_jobs: Value,
    lock_duration: u64,
    attempts: u64,
    /// Of BullMQ's own metrics, which we do not keep.
    max_metrics_size: &'static str,
    /// What a failure means for the job's parent.
    fpof: bool,
    cpof: bool,
    idof: bool,
    rdof: bool,
}

/// Options as the port has them, and what it has not: see `trace_metadata.rs` and `submitter.rs`.
#[derive(Serialize)]
struct AddOptions<'a> {
    #[serde(flatten)]
    options: JobOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    tm: Option<String>,
    #[serde(rename = "agentHostSubmitter", skip_serializing_if = "Option::is_none")]
    submitter: Option<Submitter<'a>>,
}

/// What cannot be packed would be a mistake of ours: only words and numbers are.
pub(super) type Packed<T> = Result<T, rmp_serde::encode::Error>;

impl OfficialScripts {
    pub(super) fn new(keys: QueueKeys, own: OwnKeys, lease: Duration, kept_for: Duration) -> Self {
        Self {
            keys,
            own,
            lease,
            kept_for,
            add: lua::add(),
            claim: lua::claim(),
            finish: lua::finish(),
            delay: lua::end_attempt(official!("moveToDelayed-11.lua")),
            release: lua::end_attempt(official!("moveJobFromActiveToWait-9.lua")),
            remove: lua::plain(official!("removeJob-2.lua")),
            remove_ended: lua::remove_ended(),
            reprocess: lua::reprocess(),
            retry: lua::end_attempt(official!("retryJob-11.lua")),
            schedule: lua::schedule(),
        }
    }

    /// Adds a job at the end of the queue and to its owner's list, unless there is one under the id that it
    /// chose. Answers its id.
    pub(super) fn add(&self, addition: Addition<'_>, now: u64) -> Packed<ScriptInvocation<'_>> {
        let Addition { job, id: chosen, data, trace, call } = addition;
        let keys = &self.keys;
        let nothing: Option<&str> = None;
        let id = chosen.unwrap_or("");
        let arguments = (keys.key_prefix(), id, JOB, now, nothing, nothing, nothing, nothing, nothing);
        // Nothing about what is to be kept: see `retention.rs`.
        let options =
            JobOptions::new().attempts(ATTEMPTS).backoff(BackoffStrategy::Exponential(millis(FIRST_BACKOFF)));
        let mut add = self.add.prepare_invoke();
        add.key(&[keys.wait(), keys.paused(), keys.meta(), keys.id(), keys.completed(), keys.delayed()]);
        add.key(keys.active()).key(keys.events()).key(keys.marker());
        let own = &self.own;
        add.key(own.user(&job.user_id)).key(own.addition(call)).key(own.highest_id()).key(own.cancelled(id));
        add.arg(rmp_serde::to_vec(&arguments)?).arg(data).arg(pack(&AddOptions {
            options,
            tm: trace,
            submitter: submitter::of(job),
        })?);
        add.arg(keys.key_prefix()).arg(now).arg(MOST_LISTED).arg(self.kept_for.as_secs());
        let score = chosen.map(|id| own_keys::score(id, now));
        add.arg(LISTED).arg(millis(NOTED_FOR)).arg(score.map(|score| score.to_string()).unwrap_or_default());
        let parked = job.goes_on.as_ref().filter(|run| run.is_parked(SystemTime::now()));
        let until = parked.map(|run| to_millis(run.until).to_string());
        let open = parked.map(|run| run.open).unwrap_or_default();
        add.arg(PARKED).arg(until.unwrap_or_default());
        add.arg(parked_mark(open)).arg(open.since).arg(own.prefix());
        Ok(add)
    }

    /// Claims the next job. `scripts/claim.lua` says what it answers.
    pub(super) fn claim(&self, next: &NextClaim<'_>, now: u64) -> Packed<ScriptInvocation<'_>> {
        let keys = &self.keys;
        let mut claim = self.claim.prepare_invoke();
        claim.key(&[keys.wait(), keys.active(), keys.prioritized(), keys.events(), keys.stalled()]);
        claim.key(&[keys.limiter(), keys.delayed(), keys.paused(), keys.meta(), keys.pc(), keys.marker()]);
        claim.key(self.own.election());
        self.add_claim(&mut claim, next, now)?;
        Ok(claim)
    }

    /// The arguments of `scripts/claim.lua`.
    fn add_claim(&self, script: &mut ScriptInvocation<'_>, next: &NextClaim<'_>, now: u64) -> Packed<()> {
        let lease = millis(self.lease);
        let options = ClaimOptions { token: next.token, lock_duration: lease, name: next.worker };
        script.arg(self.keys.key_prefix()).arg(now).arg(pack(&options)?);
        script.arg(next.token).arg(lease).arg(self.own.prefix()).arg(CLAIMS).arg(PARKED);
        script.arg(if next.looks_for_stalled { "1" } else { "0" }).arg(millis(ELECTED_FOR));
        script.arg(lua::MOST_LOOKED_AT);
        Ok(())
    }

    /// Ends a job for good, and claims the next one if one is wanted. `scripts/finish.lua` says what it
    /// answers.
    pub(super) fn finish(
        &self,
        ending: &Ending<'_>,
        end: End<'_>,
        (options, fields): (&Options, Fields<'_>),
        next: Option<&NextClaim<'_>>,
    ) -> Packed<ScriptInvocation<'_>> {
        let keys = &self.keys;
        let Ending { job_id, token, digest, .. } = *ending;
        let (field, value, target, set, metrics, kept) = match end {
            End::Completed(result) => (
                "returnvalue",
                result,
                "completed",
                keys.completed(),
                "metrics:completed",
                "removeOnComplete",
            ),
            End::Failed(reason) => {
                ("failedReason", reason, "failed", keys.failed(), "metrics:failed", "removeOnFail")
            }
        };
        let mut finish = self.finish.prepare_invoke();
        finish.key(&[keys.wait(), keys.active(), keys.prioritized(), keys.events(), keys.stalled()]);
        finish.key(&[keys.limiter(), keys.delayed(), keys.paused(), keys.meta(), keys.pc(), set]);
        finish.key(keys.job_key(job_id)).key(keys.get(metrics)).key(keys.marker());
        let own = &self.own;
        finish.key(own.cancel_request(job_id)).key(own.ending(token)).key(own.election());
        let packed = pack(&FinishOptions {
            token,
            keep_jobs: options.keep(kept),
            lock_duration: millis(self.lease),
            attempts: options.attempts().unwrap_or_default(),
            max_metrics_size: "",
            fpof: options.is_on("fpof"),
            cpof: options.is_on("cpof"),
            idof: options.is_on("idof"),
            rdof: options.is_on("rdof"),
        })?;
        let now = now();
        finish.arg(job_id).arg(now).arg(field).arg(value).arg(target);
        // The next job is claimed under a lease of its own, and not under this one's as BullMQ's script
        // would.
        finish.arg("0").arg(keys.key_prefix()).arg(packed).arg(pack(fields)?);
        finish.arg(digest).arg(millis(NOTED_FOR));
        if let Some(next) = next {
            self.add_claim(&mut finish, next, now)?;
        }
        Ok(finish)
    }

    /// Ends an attempt that failed; the next one may begin at once, at the end of the queue or at its front.
    /// Answers 0, or below 0 why not.
    pub(super) fn retry(
        &self,
        ending: &Ending<'_>,
        options: &Options,
        fields: Fields<'_>,
        now: u64,
    ) -> Packed<ScriptInvocation<'_>> {
        let (keys, Ending { job_id, token, .. }) = (&self.keys, *ending);
        let mut retry = self.retry.prepare_invoke();
        retry.key(&[keys.active(), keys.wait(), keys.paused(), keys.job_key(job_id), keys.meta()]);
        retry.key(&[keys.events(), keys.delayed(), keys.prioritized(), keys.pc(), keys.marker()]);
        let push = if options.is_on("lifo") { "RPUSH" } else { "LPUSH" };
        retry.key(keys.stalled()).arg(keys.key_prefix()).arg(now).arg(push).arg(job_id).arg(token);
        retry.arg(pack(fields)?);
        add_ending(&mut retry, &self.own, ending);
        Ok(retry)
    }

    /// Adds the next iteration of a job scheduler. Answers its id, or nothing.
    pub(super) fn schedule(&self, iteration: &Iteration<'_>, now: u64) -> Packed<ScriptInvocation<'_>> {
        let Iteration { scheduler, job_id, data, next, options } = *iteration;
        let keys = &self.keys;
        let mut schedule = self.schedule.prepare_invoke();
        schedule.key(&[keys.get("repeat"), keys.delayed(), keys.wait(), keys.paused(), keys.meta()]);
        schedule.key(&[keys.prioritized(), keys.marker(), keys.id(), keys.events(), keys.pc()]);
        schedule.key(keys.job_key(job_id)).key(keys.active());
        schedule.arg(next).arg(scheduler).arg(data).arg(pack(options)?).arg(now);
        schedule.arg(keys.key_prefix()).arg(job_id);
        Ok(schedule)
    }

    /// Ends an attempt; the next one is due after `delay`. One that is not counted was not about the job.
    /// Answers 0, or below 0 why not.
    pub(super) fn delay(
        &self,
        ending: &Ending<'_>,
        counts: bool,
        fields: Fields<'_>,
        delay: Duration,
    ) -> Packed<ScriptInvocation<'_>> {
        let (keys, Ending { job_id, token, .. }) = (&self.keys, *ending);
        let mut retry = self.delay.prepare_invoke();
        retry.key(&[keys.marker(), keys.active(), keys.prioritized(), keys.delayed(), keys.job_key(job_id)]);
        retry.key(&[keys.events(), keys.meta(), keys.stalled(), keys.wait(), keys.limiter(), keys.pc()]);
        let skips_the_attempt = if counts { "0" } else { "1" };
        retry.arg(keys.key_prefix()).arg(now()).arg(job_id).arg(token).arg(millis(delay));
        retry.arg(skips_the_attempt).arg(if fields.is_empty() { Vec::new() } else { pack(fields)? });
        retry.arg("0").arg(pack(&ClaimOptions { token, lock_duration: millis(self.lease), name: "" })?);
        add_ending(&mut retry, &self.own, ending);
        Ok(retry)
    }

    /// Releases a job: puts it back to the front of the queue. Answers below 0 why not.
    pub(super) fn release(&self, ending: &Ending<'_>) -> ScriptInvocation<'_> {
        let (keys, Ending { job_id, token, .. }) = (&self.keys, *ending);
        let mut release = self.release.prepare_invoke();
        release.key(&[keys.active(), keys.wait(), keys.stalled(), keys.paused(), keys.meta()]);
        release.key(&[keys.limiter(), keys.prioritized(), keys.marker(), keys.events()]);
        release.arg(job_id).arg(token).arg(keys.job_key(job_id));
        add_ending(&mut release, &self.own, ending);
        release
    }

    /// Removes what is stored of a job and of its children, wherever it stands. Answers 1 if it is gone.
    pub(super) fn remove(&self, job_id: &str) -> ScriptInvocation<'_> {
        let keys = &self.keys;
        let mut remove = self.remove.prepare_invoke();
        let with_children = "1";
        remove.key(keys.job_key(job_id)).key(keys.get("repeat"));
        remove.arg(job_id).arg(with_children).arg(keys.key_prefix());
        remove
    }

    /// Puts a job that failed for good back to the queue, for one more attempt. Answers 1, also to the same
    /// `call` again, -1 when there is no such job, or -3 when it has not failed.
    pub(super) fn reprocess(&self, job_id: &str, call: &str) -> ScriptInvocation<'_> {
        let keys = &self.keys;
        let mut reprocess = self.reprocess.prepare_invoke();
        reprocess.key(&[keys.job_key(job_id), keys.events(), keys.failed(), keys.wait(), keys.meta()]);
        reprocess.key(&[keys.active(), keys.marker(), keys.prioritized(), keys.pc()]);
        reprocess.key(self.own.retrial(call));
        let keeps_attempts = "0";
        reprocess.arg(job_id).arg("LPUSH").arg("failedReason").arg("failed");
        reprocess.arg(keeps_attempts).arg(keeps_attempts).arg(millis(NOTED_FOR));
        reprocess
    }

    /// Removes what is stored of a job that has ended, and not of its children. Answers 1 if it is gone, and
    /// 0 or below if it has not ended or cannot be removed.
    pub(super) fn remove_ended(&self, job_id: &str) -> ScriptInvocation<'_> {
        let keys = &self.keys;
        let mut remove = self.remove_ended.prepare_invoke();
        let without_children = "0";
        remove.key(keys.job_key(job_id)).key(keys.get("repeat")).key(keys.completed()).key(keys.failed());
        remove.arg(job_id).arg(without_children).arg(keys.key_prefix());
        remove
    }
}

/// What `scripts/end_attempt.lua` is given behind BullMQ's keys and arguments.
fn add_ending(script: &mut ScriptInvocation<'_>, own: &OwnKeys, ending: &Ending<'_>) {
    script.key(own.cancel_request(ending.job_id)).key(own.ending(ending.token));
    script.arg(ending.attempt).arg(ending.digest).arg(millis(NOTED_FOR));
    let waits = if ending.open.is_empty() { String::new() } else { parked_mark(ending.open) };
    script.arg(ending.job_id).arg(waits).arg(ending.open.since).arg(own.prefix());
}

fn pack<T: Serialize + ?Sized>(value: &T) -> Packed<Vec<u8>> {
    rmp_serde::to_vec_named(value)
}
