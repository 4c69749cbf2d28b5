//! BullMQ's own scripts, from its official Rust port (`build.rs` brings them), and their arguments.
//!
//! The port's `Queue` and `Worker` are not used. A job that is claimed by hand can only be completed there with
//! a string, not with JSON; a failure cannot be counted as an attempt and tried again; what has ended is kept
//! for ever; connecting holds up the start, and after an outage nothing works for up to five seconds. The
//! scripts are what makes us speak the same protocol, and they are run over our own connection.

use std::time::Duration;

use agent_core::ports::queue::{ATTEMPTS, FIRST_BACKOFF, JOB};
use bullmq::types::{BackoffStrategy, KeepJobs, RemoveOnFinish};
use bullmq::{JobOptions, QueueKeys};
use redis::{Script, ScriptInvocation};
use serde::Serialize;
use serde_json::Value;

use super::options::{KEPT_FOR, MOST_KEPT, Options};
use super::submitter::Submitter;
use super::time::{millis, now};

macro_rules! script {
    ($name:literal) => {
        Script::new(include_str!(concat!(env!("OUT_DIR"), "/", $name)))
    };
}

/// The scripts, and the keys they are given.
pub(super) struct OfficialScripts {
    keys: QueueKeys,
    lease: Duration,
    add: Script,
    claim: Script,
    finish: Script,
    delay: Script,
    release: Script,
    remove: Script,
    retry: Script,
    schedule: Script,
}

/// Whose lease it is that ends: the job and the token.
pub(super) type Holder<'a> = (&'a str, &'a str);

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
type Packed = Result<Vec<u8>, rmp_serde::encode::Error>;

impl OfficialScripts {
    pub(super) fn new(keys: QueueKeys, lease: Duration) -> Self {
        Self {
            keys,
            lease,
            add: script!("addStandardJob-9.lua"),
            claim: script!("moveToActive-11.lua"),
            finish: script!("moveToFinished-14.lua"),
            delay: script!("moveToDelayed-11.lua"),
            release: script!("moveJobFromActiveToWait-9.lua"),
            remove: script!("removeJob-2.lua"),
            retry: script!("retryJob-11.lua"),
            schedule: script!("updateJobScheduler-12.lua"),
        }
    }

    /// Adds a job at the end of the queue. Answers its id.
    pub(super) fn add(
        &self,
        data: &str,
        submitter: Option<Submitter<'_>>,
        trace: Option<String>,
        now: u64,
    ) -> Result<ScriptInvocation<'_>, rmp_serde::encode::Error> {
        let keys = &self.keys;
        let nothing: Option<&str> = None;
        let arguments = (keys.key_prefix(), "", JOB, now, nothing, nothing, nothing, nothing, nothing);
        let kept = || {
            RemoveOnFinish::Options(KeepJobs {
                age: Some(KEPT_FOR.as_secs()),
                count: Some(MOST_KEPT),
                limit: None,
            })
        };
        let options = JobOptions::new()
            .attempts(ATTEMPTS)
            .backoff(BackoffStrategy::Exponential(millis(FIRST_BACKOFF)))
            .remove_on_complete(kept())
            .remove_on_fail(kept());
        let mut add = self.add.prepare_invoke();
        for key in [keys.wait(), keys.paused(), keys.meta(), keys.id(), keys.completed(), keys.delayed()] {
            add.key(key);
        }
        add.key(keys.active()).key(keys.events()).key(keys.marker());
        add.arg(rmp_serde::to_vec(&arguments)?).arg(data).arg(pack(&AddOptions {
            options,
            tm: trace,
            submitter,
        })?);
        Ok(add)
    }

    /// Leases the next job. Answers `[job or 0, id or 0, wait, next]`.
    pub(super) fn claim(
        &self,
        token: &str,
        worker: &str,
        now: u64,
    ) -> Result<ScriptInvocation<'_>, rmp_serde::encode::Error> {
        let keys = &self.keys;
        let mut claim = self.claim.prepare_invoke();
        for key in [keys.wait(), keys.active(), keys.prioritized(), keys.events(), keys.stalled()] {
            claim.key(key);
        }
        for key in [keys.limiter(), keys.delayed(), keys.paused(), keys.meta(), keys.pc(), keys.marker()] {
            claim.key(key);
        }
        let options = ClaimOptions { token, lock_duration: millis(self.lease), name: worker };
        claim.arg(keys.key_prefix()).arg(now).arg(pack(&options)?);
        Ok(claim)
    }

    /// Ends a job for good. Answers 0, or below 0 why not.
    pub(super) fn finish(
        &self,
        (job_id, token): Holder<'_>,
        end: End<'_>,
        options: &Options,
        fields: Fields<'_>,
    ) -> Result<ScriptInvocation<'_>, rmp_serde::encode::Error> {
        let keys = &self.keys;
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
        for key in [keys.wait(), keys.active(), keys.prioritized(), keys.events(), keys.stalled()] {
            finish.key(key);
        }
        for key in [keys.limiter(), keys.delayed(), keys.paused(), keys.meta(), keys.pc(), set] {
            finish.key(key);
        }
        finish.key(keys.job_key(job_id)).key(keys.get(metrics)).key(keys.marker());
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
        finish.arg(job_id).arg(now()).arg(field).arg(value).arg(target);
        finish.arg("0").arg(keys.key_prefix()).arg(packed).arg(pack(fields)?);
        Ok(finish)
    }

    /// Ends an attempt that failed; the next one may begin at once, at the end of the queue or at its front. Answers 0,
    /// or below 0 why not.
    pub(super) fn retry(
        &self,
        (job_id, token): Holder<'_>,
        options: &Options,
        fields: Fields<'_>,
        now: u64,
    ) -> Result<ScriptInvocation<'_>, rmp_serde::encode::Error> {
        let keys = &self.keys;
        let mut retry = self.retry.prepare_invoke();
        for key in [keys.active(), keys.wait(), keys.paused(), keys.job_key(job_id), keys.meta()] {
            retry.key(key);
        }
        for key in [keys.events(), keys.delayed(), keys.prioritized(), keys.pc(), keys.marker()] {
            retry.key(key);
        }
        let push = if options.is_on("lifo") { "RPUSH" } else { "LPUSH" };
        retry.key(keys.stalled()).arg(keys.key_prefix()).arg(now).arg(push).arg(job_id).arg(token);
        retry.arg(pack(fields)?);
        Ok(retry)
    }

    /// Adds the next iteration of a job scheduler. Answers its id, or nothing.
    pub(super) fn schedule(
        &self,
        iteration: &Iteration<'_>,
        now: u64,
    ) -> Result<ScriptInvocation<'_>, rmp_serde::encode::Error> {
        let Iteration { scheduler, job_id, data, next, options } = *iteration;
        let keys = &self.keys;
        let mut schedule = self.schedule.prepare_invoke();
        for key in [keys.get("repeat"), keys.delayed(), keys.wait(), keys.paused(), keys.meta()] {
            schedule.key(key);
        }
        for key in [keys.prioritized(), keys.marker(), keys.id(), keys.events(), keys.pc()] {
            schedule.key(key);
        }
        schedule.key(keys.job_key(job_id)).key(keys.active());
        schedule.arg(next).arg(scheduler).arg(data).arg(pack(options)?).arg(now);
        schedule.arg(keys.key_prefix()).arg(job_id);
        Ok(schedule)
    }

    /// Ends an attempt; the next one is due after `delay`. One that is not counted was not about the job. Answers 0, or
    /// below 0 why not.
    pub(super) fn delay(
        &self,
        (job_id, token): Holder<'_>,
        counts: bool,
        fields: Fields<'_>,
        delay: Duration,
    ) -> Result<ScriptInvocation<'_>, rmp_serde::encode::Error> {
        let keys = &self.keys;
        let mut retry = self.delay.prepare_invoke();
        for key in [keys.marker(), keys.active(), keys.prioritized(), keys.delayed(), keys.job_key(job_id)] {
            retry.key(key);
        }
        for key in [keys.events(), keys.meta(), keys.stalled(), keys.wait(), keys.limiter(), keys.pc()] {
            retry.key(key);
        }
        let skips_the_attempt = if counts { "0" } else { "1" };
        retry.arg(keys.key_prefix()).arg(now()).arg(job_id).arg(token).arg(millis(delay));
        retry.arg(skips_the_attempt).arg(if fields.is_empty() { Vec::new() } else { pack(fields)? });
        retry.arg("0").arg(pack(&ClaimOptions { token, lock_duration: millis(self.lease), name: "" })?);
        Ok(retry)
    }

    /// Releases a job: puts it back to the front of the queue. Answers below 0 why not.
    pub(super) fn release(&self, job_id: &str, token: &str) -> ScriptInvocation<'_> {
        let keys = &self.keys;
        let mut release = self.release.prepare_invoke();
        for key in [keys.active(), keys.wait(), keys.stalled(), keys.paused(), keys.meta(), keys.limiter()] {
            release.key(key);
        }
        release.key(keys.prioritized()).key(keys.marker()).key(keys.events());
        release.arg(job_id).arg(token).arg(keys.job_key(job_id));
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
}

fn pack<T: Serialize + ?Sized>(value: &T) -> Packed {
    rmp_serde::to_vec_named(value)
}
