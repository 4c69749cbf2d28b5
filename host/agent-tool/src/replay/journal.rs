//! The tool calls of a run, read from its journal: what the model asked for, and what came of it.

use std::collections::BTreeMap;

use agent_core::words::{Event, Grants, Principal, ToolCall, ToolReturn};

/// A run as it is made again.
pub(super) struct RecordedRun {
    pub(super) id: String,
    pub(super) principal: Principal,
    pub(super) grants: Grants,
    /// Calls that were answered, in the order in which the model asked for them.
    pub(super) calls: Vec<RecordedCall>,
}

/// A call that was answered.
pub(super) struct RecordedCall {
    /// The id of `OpenCall`, by which HTTP is recorded: run, number of the reply from 1, place in it.
    pub(super) call_id: String,
    pub(super) call: ToolCall,
    pub(super) answer: ToolReturn,
}

/// Absent without the event that begins a run.
pub(super) fn calls(events: &[Event]) -> Option<RecordedRun> {
    let Some(Event::Started { task, .. }) = events.first() else { return None };
    let (mut replies, mut answered) = (0_u32, BTreeMap::new());
    let mut asked: &[ToolCall] = task.options.call.as_slice();
    for event in events {
        match event {
            Event::ModelReplied { reply, .. } => {
                replies += 1;
                asked = &reply.tool_calls;
            }
            Event::ToolReturned { index, answer } => {
                let Some(call) = asked.get(*index) else { continue };
                let call_id = format!("{}.{replies}.{index}", task.id);
                let recorded = RecordedCall { call_id, call: call.clone(), answer: answer.clone() };
                answered.insert((replies, *index), recorded);
            }
            _ => {}
        }
    }
    Some(RecordedRun {
        id: task.id.clone(),
        principal: task.principal.clone(),
        grants: task.grants.clone(),
        calls: answered.into_values().collect(),
    })
}
