//! The names of our own keys beside BullMQ's, and the order of a user's list. Each of them expires by itself, but for the
//! highest id.

/// What they all begin with.
pub(super) const PREFIX: &str = "agent-host:agent-tasks:";

/// A user's jobs.
pub(super) fn user(user_id: &str) -> String {
    format!("{PREFIX}user:{user_id}")
}

/// The place of a job in that list: the newest has the highest. Jobs of one millisecond are told apart by the end of their
/// numbers. A score holds 53 bits.
pub(super) fn score(job_id: &str, created: u64) -> u64 {
    let number: u64 = job_id.parse().unwrap_or(0);
    (created.min((1 << 41) - 1) << 12) | (number & 0xfff)
}

/// What was known of a job that is cancelled.
pub(super) fn cancelled(job_id: &str) -> String {
    format!("{PREFIX}cancelled:{job_id}")
}

/// The request to cancel an active job. It is named `wish`, as releases before this one name it.
pub(super) fn cancel_request(job_id: &str) -> String {
    format!("{PREFIX}wish:{job_id}")
}

/// That a job was added by this call.
pub(super) fn addition(call: &str) -> String {
    format!("{PREFIX}added:{call}")
}

/// That the claim of this token has ended, and how. The job that a token claimed is noted beside it, under `claim:`.
pub(super) fn ending(token: &str) -> String {
    format!("{PREFIX}end:{token}")
}

/// Held by the process that looks for stalled jobs at the moment.
pub(super) fn election() -> String {
    format!("{PREFIX}checked")
}

/// The highest id that a job was given.
pub(super) fn highest_id() -> String {
    format!("{PREFIX}highest-id")
}

/// Who removes old jobs at the moment.
pub(super) fn sweeper() -> String {
    format!("{PREFIX}sweeper")
}

/// That it is not yet time to remove old jobs again.
pub(super) fn swept() -> String {
    format!("{PREFIX}swept")
}

#[cfg(test)]
mod tests {
    use agent_core::ports::queue::QUEUE;

    use super::*;

    #[test]
    fn our_keys_are_those_of_the_queue() {
        assert_eq!(PREFIX, format!("agent-host:{QUEUE}:"));
    }
}
