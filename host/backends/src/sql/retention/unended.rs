//! Records of runs that have not ended, as conditions of statements. What their times mean is said at
//! [`agent_core::ports::retention`].

/// Whether the run of a record has ended and says how. The index `run_records_ended` (migration 23) is of
/// these records: both databases find it by this text.
macro_rules! run_has_ended {
    () => {
        "outcome <> '{\"outcome\":\"running\"}'"
    };
}
pub(super) use run_has_ended;

/// Whether the owner of a run lives: the record is a heartbeat of the last minute
/// ([`agent_core::ports::UNDER_WAY_FOR`]), or one that a clock has put ahead.
macro_rules! run_is_under_way {
    () => {
        "(outcome = '{\"outcome\":\"running\"}' AND finished_at > (SELECT ms FROM clock) - 60000)"
    };
}
pub(super) use run_is_under_way;

/// For statements that are put together when they are made.
pub(super) const UNDER_WAY: &str = run_is_under_way!();

/// Whether a record is of a request's run that a job goes on with: it may wait beyond what its record says.
pub(super) const WAITS_FOR_SOMEBODY: &str = "(job_id IS NOT NULL AND outcome = '{\"outcome\":\"running\"}')";

/// Whether a record is of a run that a job may go on with as far as it says: of one that waits, or of an
/// attempt that failed. Whether it does is known to the queue alone.
pub(super) const MAY_GO_ON: &str = "(job_id IS NOT NULL AND outcome NOT LIKE '{\"outcome\":\"ended\"%')";

#[cfg(test)]
mod tests {
    use agent_core::ports::UNDER_WAY_FOR;
    use agent_core::words::{RunOutcome, StopReason};

    use super::*;

    #[test]
    fn records_are_told_apart_as_they_are_written() {
        let running = serde_json::to_string(&RunOutcome::Running).unwrap();
        for condition in [run_has_ended!(), UNDER_WAY, WAITS_FOR_SOMEBODY] {
            assert!(condition.contains(&format!("'{running}'")), "{condition}");
        }
        let (usage, model) = Default::default();
        let stop_reason = StopReason::Completed;
        let ended = RunOutcome::Ended { stop_reason, iterations: 1, usage, model };
        let (_, begin) = MAY_GO_ON.split_once("NOT LIKE '").unwrap();
        assert!(serde_json::to_string(&ended).unwrap().starts_with(begin.split('%').next().unwrap()));
        assert!(UNDER_WAY.ends_with(&format!("- {})", UNDER_WAY_FOR.as_millis())));
    }
}
