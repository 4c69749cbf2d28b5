//! The names of our own keys beside BullMQ's, and the order of a user's list. Each of them expires by itself,
//! but for the highest id and the sets of parked jobs (`parked:<kind>`), which end with the last of them.

use agent_core::ports::queue::QUEUE;

/// Keeps a list longer, never shorter.
const KEEP: &str =
    "if redis.call('TTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('EXPIRE', KEYS[1], ARGV[1]) end";

/// Has a user's list kept for that many seconds at least. It may be kept for longer already: for a job that
/// waits for months.
pub(super) fn keep_at_least(list: &str, seconds: u64) -> redis::Cmd {
    let mut keep = redis::cmd("EVAL");
    keep.arg(KEEP).arg(1).arg(list).arg(seconds);
    keep
}

/// The names of one shard's keys.
#[derive(Debug, Clone)]
pub(super) struct OwnKeys(String);

impl OwnKeys {
    /// Beside BullMQ's keys of that prefix, whose braces are part of ours too; of the usual one without.
    pub(super) fn new(prefix: Option<&str>) -> Self {
        Self(match prefix {
            None => format!("agent-host:{QUEUE}:"),
            Some(prefix) => format!("agent-host:{prefix}:{QUEUE}:"),
        })
    }

    /// What they all begin with.
    pub(super) fn prefix(&self) -> &str {
        &self.0
    }

    /// A user's jobs.
    pub(super) fn user(&self, user_id: &str) -> String {
        self.named("user", user_id)
    }

    /// What was known of a job that is cancelled.
    pub(super) fn cancelled(&self, job_id: &str) -> String {
        self.named("cancelled", job_id)
    }

    /// The request to cancel an active job. It is named `wish`, as releases before this one name it.
    pub(super) fn cancel_request(&self, job_id: &str) -> String {
        self.named("wish", job_id)
    }

    /// Key that says that a job was added by this call.
    pub(super) fn addition(&self, call: &str) -> String {
        self.named("added", call)
    }

    /// Key that says that a job was put back by this call.
    pub(super) fn retrial(&self, call: &str) -> String {
        self.named("retried", call)
    }

    /// Key that notes that the claim of this token has ended, and how. The job that a token claimed is noted
    /// beside it, under `claim:`.
    pub(super) fn ending(&self, token: &str) -> String {
        self.named("end", token)
    }

    /// Held by the process that looks for stalled jobs at the moment. How many of them are left for the next
    /// one is noted beside it, as `unchecked`.
    pub(super) fn election(&self) -> String {
        format!("{}checked", self.0)
    }

    /// The highest id that a job was given.
    pub(super) fn highest_id(&self) -> String {
        format!("{}highest-id", self.0)
    }

    /// Who removes old jobs at the moment.
    pub(super) fn sweeper(&self) -> String {
        format!("{}sweeper", self.0)
    }

    /// Key that says that it is not yet time to remove old jobs again.
    pub(super) fn swept(&self) -> String {
        format!("{}swept", self.0)
    }

    fn named(&self, what: &str, name: &str) -> String {
        format!("{}{what}:{name}", self.0)
    }
}

/// The place of a job in a user's list: the newest has the highest. Jobs of one millisecond are told apart by
/// the end of their numbers. A score holds 53 bits.
pub(super) fn score(job_id: &str, created: u64) -> u64 {
    let number: u64 = job_id.parse().unwrap_or(0);
    (created.min((1 << 41) - 1) << 12) | (number & 0xfff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_keys_lie_where_those_of_the_queue_do() {
        assert_eq!(OwnKeys::new(None).user("5"), "agent-host:agent-tasks:user:5");
        assert_eq!(OwnKeys::new(Some("{bull:2}")).election(), "agent-host:{bull:2}:agent-tasks:checked");
    }
}
