//! What a run came to that has ended, from its journal.

use std::sync::Arc;

use super::{Run, Step, UnexpectedEvent, Waiting};
use crate::words::{AgentResult, Catalog, Event, StopReason};

/// The result of a run that has ended, folded from its journal. Not every end is an event: one that a limit
/// brought about stands in the run's record alone, as `recorded`. Without that there is a result only if the
/// journal says by itself that the run has ended.
pub fn recorded_end(
    events: Vec<Event>,
    recorded: Option<StopReason>,
) -> Result<Option<AgentResult>, UnexpectedEvent> {
    let mut events = events.into_iter();
    let Some(Event::Started { task, .. }) = events.next() else { return Ok(None) };
    // The tools decide only about further steps, of which there are none.
    let mut run = Run::begin(task, Arc::new(Catalog::default()));
    for event in events {
        run.take_note(event)?;
    }
    let step = match (&run.waiting, recorded) {
        (Waiting::Nothing(reason), _) => run.finish(*reason),
        (Waiting::Model, Some(reason)) => run.finish(reason),
        (Waiting::Tools(_), Some(reason)) => run.stop_before_tools(reason),
        (Waiting::Model | Waiting::Tools(_), None) | (Waiting::Over, _) => return Ok(None),
    };
    Ok(match step {
        Step::Done(result) => Some(*result),
        Step::AskModel(_) | Step::CallTools(_) | Step::Park(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{asks_for, says, task};

    fn started() -> Event {
        Event::Started { task: task("hi"), tools: "sha256:test".into() }
    }

    fn reason(events: &[Event], recorded: Option<StopReason>) -> Option<StopReason> {
        recorded_end(events.to_vec(), recorded).unwrap().map(|result| result.stop_reason)
    }

    #[test]
    fn a_journal_says_that_its_run_has_ended_or_its_record_does() {
        let asking = Event::from(asks_for(&[("1", "echo", json!({}))]));
        let done = [started(), Event::from(says("done"))];
        assert_eq!(reason(&done, None), Some(StopReason::Completed));
        assert_eq!(reason(&done, Some(StopReason::TokenBudget)), Some(StopReason::Completed));
        assert_eq!(reason(&[started(), asking.clone(), Event::Cancelled], None), Some(StopReason::Cancelled));
        let asked = [started(), asking.clone()];
        for recorded in [StopReason::Cancelled, StopReason::TokenBudget] {
            assert_eq!(reason(&asked, Some(recorded)), Some(recorded), "before its calls were made");
        }
        for open in [vec![], vec![started()], vec![started(), asking.clone()]] {
            assert_eq!(reason(&open, None), None);
        }
        assert_eq!(reason(&[started()], Some(StopReason::TokenBudget)), Some(StopReason::TokenBudget));
        let before_tools =
            recorded_end(vec![started(), asking], Some(StopReason::TokenBudget)).unwrap().unwrap();
        assert_eq!((before_tools.stop_reason, before_tools.tool_calls.len()), (StopReason::TokenBudget, 1));
        assert_eq!(reason(&[], Some(StopReason::Completed)), None);
    }
}
