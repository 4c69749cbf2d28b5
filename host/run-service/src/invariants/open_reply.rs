//! What a journal says of the calls that were asked for last.

use agent_core::words::{Decision, Event, Verdict, Wait};
use serde_json::Value;

/// What a journal says of the calls of its last reply.
#[derive(Debug, Default)]
pub(super) struct OpenReply<'a> {
    pub(super) replies: usize,
    pub(super) started: Vec<usize>,
    pub(super) returned: Vec<usize>,
    /// Digests of what was shown to those who approved.
    pub(super) approved: Vec<&'a str>,
    /// The arguments of each call: as they were asked for, or as somebody has edited them since.
    pub(super) arguments: Vec<&'a Value>,
    waits: Vec<&'a Wait>,
}

impl<'a> OpenReply<'a> {
    pub(super) fn read(events: impl IntoIterator<Item = &'a Event>) -> Option<Self> {
        let mut open = Self::default();
        for event in events {
            match event {
                Event::Started { task, .. } => {
                    open.arguments.extend(task.options.call.iter().map(|call| &call.arguments));
                }
                Event::ModelReplied { reply, .. } => {
                    let arguments = reply.tool_calls.iter().map(|call| &call.arguments).collect();
                    open = Self { replies: open.replies + 1, arguments, ..Self::default() };
                }
                Event::ToolsStarted { indexes } => open.started.extend(indexes),
                Event::ToolReturned { index, .. } => open.returned.push(*index),
                Event::Waiting { waits, .. } => open.waits.extend(waits),
                Event::Decided { wait, decision } => open.decided(wait, decision),
                _ => {}
            }
        }
        (open.replies > 0 || !open.arguments.is_empty()).then_some(open)
    }

    fn decided(&mut self, id: &str, decision: &'a Decision) {
        let edited = match &decision.verdict {
            Verdict::Edit { arguments } => Some(arguments),
            Verdict::Approve => None,
            _ => return,
        };
        self.approved.push(&decision.shown);
        let wait = self.waits.iter().rfind(|wait| wait.id == id && wait.within.is_none()).copied();
        if let Some(wait) = wait
            && let Some(arguments) = self.arguments.get_mut(wait.index)
        {
            // A call that was shown anew is decided anew.
            *arguments = edited.unwrap_or(&wait.shown.arguments);
        }
    }
}
