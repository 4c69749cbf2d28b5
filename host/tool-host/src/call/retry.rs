//! Whether a call that gave no value is made again, and after what pause: by what the tool says of itself.

use std::time::Duration;

use agent_core::words::ToolOutcome;

use super::fault::Fault;
use crate::component::definition::Definition;

const MOST_ATTEMPTS: u32 = 3;

/// The first pause before a tool that says nothing of it is tried again; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The code of a failure that may pass.
const UNAVAILABLE: &str = "unavailable";

/// How long to wait before the next attempt; nothing when there is to be none. `left` is what the call's time
/// has left.
///
/// There is none of a call that may ask: its questions are numbered over all attempts, so that the next one
/// would ask the first question as one more. The run makes it again, with the answers that it had.
pub(super) fn pause(
    definition: &Definition,
    fault: &Fault,
    attempts: u32,
    left: Duration,
) -> Option<Duration> {
    if !definition.spec.is_repeatable || definition.spec.may_ask || attempts >= MOST_ATTEMPTS {
        return None;
    }
    let pause = match fault.outcome {
        ToolOutcome::Failed if fault.code.as_deref() == Some(UNAVAILABLE) => {
            fault.retry_after.unwrap_or(FIRST_PAUSE * 2_u32.pow(attempts.saturating_sub(1)))
        }
        // One that changes nothing may crash once: what it read may have been in its way.
        ToolOutcome::Trapped | ToolOutcome::HostError if definition.is_read_only && attempts == 1 => {
            Duration::ZERO
        }
        _ => return None,
    };
    (pause < left).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::super::fault::tests::failure;
    use super::*;
    use crate::component::definition::tests::hinted;

    #[test]
    fn a_call_is_made_again_when_the_tool_allows_it_and_the_time() {
        let (read_only, idempotent) = (hinted(&["read-only"]), hinted(&["idempotent"]));
        let (destructive, silent) = (hinted(&["idempotent", "destructive"]), hinted(&[]));
        let mut asking = hinted(&["read-only", "idempotent"]);
        asking.asks();
        let crash = || Fault::host("it crashed".into());
        let away = |after: Option<&str>| Fault::refused(&failure("unavailable", after));
        let other = Fault::refused(&failure("not-found", Some("5")));
        let millis = |millis| Some(Duration::from_millis(millis));
        let rows = [
            (&read_only, &crash(), 1, millis(0)),
            (&read_only, &crash(), 2, None),
            (&idempotent, &crash(), 1, None),
            (&idempotent, &away(None), 1, millis(100)),
            (&idempotent, &away(None), 2, millis(200)),
            (&idempotent, &away(None), 3, None),
            (&read_only, &away(Some("7")), 1, millis(7)),
            (&read_only, &away(Some("soon")), 1, millis(100)),
            (&read_only, &away(Some("1000")), 1, None),
            (&read_only, &other, 1, None),
            (&destructive, &away(None), 1, None),
            (&silent, &away(None), 1, None),
            (&asking, &crash(), 1, None),
            (&asking, &away(None), 1, None),
        ];
        for (at, (definition, fault, attempts, expected)) in rows.into_iter().enumerate() {
            assert_eq!(pause(definition, fault, attempts, Duration::from_secs(1)), expected, "row {at}");
        }
    }
}
