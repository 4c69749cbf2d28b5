//! The tool calls of a run, read from its journal: what the model asked for, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_core::agent_loop::{Decided, OpenWait};
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
    /// The call as it was made: somebody who approved it may have edited its arguments.
    pub(super) call: ToolCall,
    /// The call as the model asked for it.
    pub(super) asked: ToolCall,
    /// Whether a wait was the call, and what was decided is its answer: no tool ran.
    pub(super) is_wait: bool,
    pub(super) answer: ToolReturn,
}

/// Absent without the event that begins a run.
pub(super) fn calls(events: &[Event]) -> Option<RecordedRun> {
    let Some(Event::Started { task, .. }) = events.first() else { return None };
    let (mut replies, mut answered) = (0_u32, BTreeMap::new());
    // Waits of calls of the last reply, by the place of the call in it.
    let mut open = BTreeMap::<usize, OpenWait>::new();
    let mut asked: &[ToolCall] = task.options.call.as_slice();
    for event in events {
        match event {
            Event::ModelReplied { reply, .. } => {
                replies += 1;
                asked = &reply.tool_calls;
                open.clear();
            }
            Event::Waiting { waits, .. } => {
                for wait in waits.iter().filter(|wait| wait.within.is_none()) {
                    open.insert(wait.index, OpenWait { wait: wait.clone(), decisions: vec![] });
                }
            }
            Event::Decided { wait, decision } => {
                if let Some(open) = open.values_mut().find(|open| open.wait.id == *wait) {
                    open.decisions.push(decision.clone());
                }
            }
            Event::ToolReturned { index, answer } => {
                let Some(call) = asked.get(*index) else { continue };
                let call_id = format!("{}.{replies}.{index}", task.id);
                let recorded = record(call_id, call, open.get(index), answer);
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

/// A call, with what was decided about it while it waited.
fn record(call_id: String, asked: &ToolCall, waited: Option<&OpenWait>, answer: &ToolReturn) -> RecordedCall {
    let decided = waited.and_then(|open| open.makes_of(&Arc::new(asked.clone())));
    let is_wait = matches!(decided, Some(Decided::Answered(_)));
    let call = match decided {
        Some(Decided::Made { call, .. }) => ToolCall::clone(&call),
        Some(Decided::Answered(_)) | None => asked.clone(),
    };
    RecordedCall { call_id, call, asked: asked.clone(), is_wait, answer: answer.clone() }
}
