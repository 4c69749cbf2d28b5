//! The text of the scripts that go beyond one of BullMQ's own: BullMQ's text, unchanged, as a function, and
//! ours around it. What has to happen together is one script, and so one command.
//!
//! BullMQ's text changes BullMQ's keys; what ours adds is said at the top of each file in `scripts/`.

use redis::Script;

/// BullMQ's own text of a script, which `build.rs` lays out.
macro_rules! official {
    ($name:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $name))
    };
}
pub(super) use official;

/// How many active jobs one script looks at to find stalled ones: a script that takes long keeps everybody
/// else waiting. A thousand take about a millisecond, and are what 200 processes work on at once.
pub(super) const MOST_LOOKED_AT: usize = 1000;

const RECLAIM_STALLED: &str = include_str!("scripts/reclaim_stalled.lua");
const CLAIM: &str = include_str!("scripts/claim.lua");

/// One of BullMQ's scripts as it is.
pub(super) fn plain(text: &str) -> Script {
    Script::new(text)
}

/// Adds a job and lists it for its owner.
pub(super) fn add() -> Script {
    let add = function("add_standard_job", official!("addStandardJob-9.lua"));
    Script::new(&format!("{add}{}", include_str!("scripts/add.lua")))
}

/// Claims the next job.
pub(super) fn claim() -> Script {
    Script::new(&format!("{}return claim(KEYS, ARGV)\n", claiming()))
}

/// Renews leases.
pub(super) fn renew() -> Script {
    let extend = function("extend_locks", official!("extendLocks-1.lua"));
    Script::new(&format!("{extend}{}", include_str!("scripts/renew.lua")))
}

/// Has a parked job claimed.
pub(super) fn resume() -> Script {
    let promote = function("promote", official!("promote-9.lua"));
    let delay = function("change_delay", official!("changeDelay-4.lua"));
    Script::new(&format!("{promote}{delay}{}", include_str!("scripts/resume.lua")))
}

/// Ends a job for good and claims the next one.
pub(super) fn finish() -> Script {
    let finish = function("move_to_finished", official!("moveToFinished-14.lua"));
    Script::new(&format!("{}{finish}{}", claiming(), include_str!("scripts/finish.lua")))
}

/// Ends an attempt with that script of BullMQ's.
pub(super) fn end_attempt(text: &str) -> Script {
    Script::new(&format!("{}{}", function("official", text), include_str!("scripts/end_attempt.lua")))
}

/// Puts a job that failed back to the queue.
pub(super) fn reprocess() -> Script {
    let reprocess = function("reprocess_job", official!("reprocessJob-9.lua"));
    Script::new(&format!("{reprocess}{}", include_str!("scripts/reprocess.lua")))
}

/// Adds the next iteration of a job scheduler, also when the memory of Redis is full: the write before it
/// takes none (`scripts/claim.lua`). Otherwise its jobs would be claimed and given up until there is room.
pub(super) fn schedule() -> Script {
    let update = function("update_job_scheduler", official!("updateJobScheduler-12.lua"));
    Script::new(&format!(
        "{update}redis.call('ZREM', KEYS[7], '')\nreturn update_job_scheduler(KEYS, ARGV)\n"
    ))
}

/// Removes a job that has ended, and leaves one that was retried meanwhile.
pub(super) fn remove_ended() -> Script {
    let remove = function("remove_job", official!("removeJob-2.lua"));
    Script::new(&format!("{remove}{}", include_str!("scripts/remove_ended.lua")))
}

/// The function `claim` and what it calls.
fn claiming() -> String {
    let reclaim = function("reclaim_stalled", RECLAIM_STALLED);
    let take = function("move_to_active", official!("moveToActive-11.lua"));
    let promote = function("promote", official!("promote-9.lua"));
    format!("{reclaim}{take}{promote}{}", function("claim", CLAIM))
}

/// A whole script as a function of its keys and arguments.
fn function(name: &str, text: &str) -> String {
    format!("local function {name}(KEYS, ARGV)\n{text}\nend\n")
}
