//! Runs that a run begins (`run_agent`): what each has of its parent's, and until when that waits for it.

use std::sync::Arc;

use json_schema::Exact;
use sha2::{Digest, Sha256};

use super::open_wait::Decided;
use super::{Run, Waiting, budget, refusal};
use crate::words::{
    CallPlace, ChildRun, Message, Options, ParentCall, RunLimits, Task, ToolCall, ToolReturn, Wait,
};

/// The tool by which a model begins a run.
pub const RUN_AGENT: &str = "run_agent";

/// How deep runs may begin runs. One that no other run began is 0 deep.
pub const MOST_DEPTH: u32 = 3;

impl Run {
    /// The call of another run that this one answers.
    pub fn parent(&self) -> Option<&ParentCall> {
        self.task.parent.as_ref()
    }

    /// The waits for runs that this one began and that are not known to have ended.
    pub fn children(&self) -> impl Iterator<Item = (&Wait, &ChildRun)> {
        let open = self.waits().filter(|open| open.decided().is_none());
        open.filter_map(|open| Some((&open.wait, open.wait.child.as_ref()?)))
    }

    /// Tokens that were used, or that a child run may use which is not known to have ended.
    pub(super) fn spoken_for(&self) -> u64 {
        let given = self.children().map(|(_, child)| child.tokens);
        given.fold(self.usage.total(), u64::saturating_add)
    }

    /// Whether the run still waits for the end of a child: it has not ended itself, nor is that decided.
    pub fn waits_for(&self, wait: &str) -> bool {
        matches!(self.waiting, Waiting::Tools(_)) && self.children().any(|(open, _)| open.id == wait)
    }

    /// Gives each of these waits that is for a child run its run: ids that follow from this run and the call,
    /// the tools that the call names, or all, and an equal part of half of the tokens that nobody has yet.
    /// The other half is for this run, which has to read the answers. Where that is too little for a child to
    /// call a tool, this run keeps no more than it needs to read an answer and to end in words. One whose
    /// part does not pay for a single model call has none of it, and is not begun ([`Self::child_refusal`]).
    pub fn begin_children(&self, waits: &mut [Wait]) {
        let is_child = |wait: &&mut Wait| wait.shown.tool == RUN_AGENT && wait.kind.is_child();
        let used = self.spoken_for().saturating_add(self.next_input());
        let left = self.task.limits.tokens.saturating_sub(used);
        let count = waits.iter_mut().filter(is_child).count().max(1) as u64;
        for wait in waits.iter_mut().filter(is_child) {
            let asked = wait.shown.arguments["tokens"].as_number().map(Exact::of);
            let asked = asked.and_then(Exact::as_u64).unwrap_or(u64::MAX);
            let id = id_of(&self.task.id, wait);
            let tools = self.tools_of_child(&wait.shown.arguments["tools"]);
            let run_id = format!("run_{id}");
            let input = self.first_input_of_child(wait, &tools);
            let most = left.saturating_sub(budget::least_of_parent()) / count;
            let part = (left / 2 / count).max(budget::with_one_tool_call(input).min(most));
            let tokens = if asked.min(part) < budget::least_of_run(input) { 0 } else { asked.min(part) };
            wait.child = Some(ChildRun { job_id: id, run_id, tools, tokens });
        }
    }

    /// Why a child is not begun, as the model is told: it has no tokens.
    pub fn child_refusal(&self, wait: &Wait) -> Option<String> {
        let child = wait.child.as_ref().filter(|child| child.tokens == 0)?;
        let least = budget::least_of_run(self.first_input_of_child(wait, &child.tools));
        Some(format!(
            "no run was begun. Asking a model once takes it about {least} tokens, which are not left for it or more than \
             \"tokens\" allows. Do that part yourself, or answer with what you have"
        ))
    }

    /// About how many tokens the first model call of a child reads.
    fn first_input_of_child(&self, wait: &Wait, tools: &[String]) -> u64 {
        let bytes =
            tools.iter().filter_map(|name| self.catalog.get(name)).map(|tool| tool.prompt_bytes() as u64);
        let system =
            self.task.instructions.iter().map(|content| Message::System { content: content.clone() });
        let task = wait.shown.arguments["task"].as_str().unwrap_or_default();
        let messages: Vec<_> = system.chain([Message::User { content: task.to_owned().into() }]).collect();
        budget::estimate_first_input(bytes.sum(), &messages)
    }

    /// The tools that a call names, of those that the run has itself: not the functions of its caller, who
    /// carries them out for this run only.
    fn tools_of_child(&self, named: &serde_json::Value) -> Vec<String> {
        let is_named = |name: &str| {
            named.as_array().is_none_or(|named| named.iter().any(|other| other.as_str() == Some(name)))
        };
        let functions = &self.task.options.functions;
        let names = self.catalog.tools().iter().map(|tool| &tool.name);
        let own = names.filter(|name| functions.iter().all(|function| function.name != **name));
        let may_begin = self.depth() + 1 < MOST_DEPTH;
        own.filter(|name| is_named(name) && (may_begin || *name != RUN_AGENT)).cloned().collect()
    }

    /// The answer of a call that began a run, when this one ends before it has read it: what that came to, or
    /// that nobody knows what it has done. None where no run was begun.
    pub(super) fn unanswered_child(&self, index: usize, call: &Arc<ToolCall>) -> Option<ToolReturn> {
        let open = self.waits.get(&CallPlace { index, nested: None })?;
        let child = open.wait.child.as_ref()?;
        if let Some(Decided::Answered(answer)) = open.makes_of(call) {
            return Some(*answer);
        }
        let mut answer = refusal::interrupted(call);
        answer.receipt.detail_mut().child = Some(child.job_id.clone());
        (child.tokens > 0).then_some(answer)
    }

    fn depth(&self) -> u32 {
        self.task.parent.as_ref().map_or(0, |parent| parent.depth)
    }

    /// What a child run is to do: on behalf of the same user, with what this run may do and no more.
    pub fn child_task(&self, wait: &Wait) -> Option<Task> {
        let child = wait.child.as_ref()?;
        let options = Options {
            tools: Some(child.tools.clone()),
            temperature: self.task.options.temperature,
            ..Options::default()
        };
        Some(Task {
            id: child.run_id.clone(),
            input: wait.shown.arguments["task"].as_str()?.to_owned(),
            options,
            limits: RunLimits { tokens: child.tokens, ..self.task.limits },
            parent: Some(ParentCall {
                run_id: self.task.id.clone(),
                wait: wait.id.clone(),
                depth: self.depth() + 1,
            }),
            ..self.task.clone()
        })
    }
}

/// The id of a child's job, and behind `run_` of its run: the time at which its parent began to wait, as
/// stores want it of ids, and a digest of the call. It has the form of a UUID of version 7.
fn id_of(run_id: &str, wait: &Wait) -> String {
    let digest = format!("{:x}", Sha256::digest(format!("{run_id}\0{}", wait.id)));
    let time = wait.began_at & 0xffff_ffff_ffff;
    format!("{time:012x}7{}8{}", &digest[..3], &digest[3..18])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent_loop::Step;
    use crate::ports::WaitingCall;
    use crate::testing::{EchoTools, asks_for, task};
    use crate::words::{
        BYTES_PER_TOKEN, ClientFunction, Decision, Event, ToolOutcome, ToolReceipt, Usage, Verdict, WaitKind,
    };

    /// A run of that depth which asks for these child runs, and the waits for them.
    fn asking(depth: u32, calls: &[serde_json::Value]) -> (Run, Vec<Wait>) {
        let function =
            ClientFunction { name: "mine".into(), description: String::new(), parameters: json!({}) };
        let options = Options { functions: vec![function], ..Options::default() };
        let parent = (depth > 0).then(|| ParentCall { run_id: "run_0".into(), wait: "1:1.0".into(), depth });
        let task = Task { parent, options, ..task("hi") };
        let tools = EchoTools::new(&["add", "mine", "pay", RUN_AGENT]).approved_by(RUN_AGENT, "");
        let catalog = crate::ports::ToolSet::catalog(&tools).clone();
        let (mut run, _) = Run::start(task, catalog);
        let named: Vec<_> = calls.iter().map(|arguments| ("c", RUN_AGENT, arguments.clone())).collect();
        let Ok(Step::CallTools(open)) = run.on(Event::from(asks_for(&named))) else { panic!() };
        let mut waits: Vec<_> = open.iter().map(|open| wait(&tools, open)).collect();
        run.begin_children(&mut waits);
        run.on(Event::Waiting { waits: waits.clone(), epoch: 1 }).unwrap();
        (run, waits)
    }

    fn wait(tools: &EchoTools, open: &crate::agent_loop::OpenCall) -> Wait {
        let terms =
            crate::ports::ToolSet::approval(tools, &open.call, crate::words::Principal::nobody()).unwrap();
        let id = format!("7:1.{}", open.index);
        let call =
            WaitingCall { id: &id, times_shown: 0, index: open.index, within: None, usage: Usage::default() };
        Wait { kind: WaitKind::Child, ..terms.wait(call, 1_700_000_000_000) }
    }

    fn ended(wait: &Wait, is_answered: bool, tokens: u64) -> Event {
        let verdict = Verdict::Ended { answer: "42".into(), is_answered, usage: Usage::of(tokens, 0) };
        let decision =
            Decision { by: None, at: 2, shown: wait.shown.digest(), verdict, nonce: String::new() };
        Event::Decided { wait: wait.id.clone(), decision }
    }

    #[test]
    fn children_have_the_tools_that_were_named_of_their_parents_and_half_of_what_is_left() {
        let calls = [json!({ "task": "a" }), json!({ "task": "b", "tools": ["pay", "rm"], "tokens": 700.0 })];
        let (run, waits) = asking(0, &calls);
        let children: Vec<_> = run.children().map(|(_, child)| child.clone()).collect();
        assert_eq!(children[0].tools, ["add", "pay", RUN_AGENT]);
        assert_eq!((&children[1].tools[..], children[1].tokens), (&["pay".to_owned()][..], 700));
        let left = run.task.limits.tokens - run.usage().total();
        assert!(children[0].tokens * 2 <= left / 2 && children[0].tokens * 4 > left / 2, "{children:?}");
        assert_ne!(children[0].job_id, children[1].job_id);
        // Whoever takes the run up comes to the same ids.
        let mut again = waits.clone();
        run.begin_children(&mut again);
        assert_eq!(again[0].child.as_ref().unwrap().job_id, children[0].job_id);
        let task = run.child_task(&waits[1]).unwrap();
        assert_eq!((task.input.as_str(), task.limits.tokens), ("b", 700));
        assert!(task.options.functions.is_empty() && task.principal == run.task.principal);
        assert_eq!(
            task.parent.unwrap(),
            ParentCall { run_id: "run_1".into(), wait: "7:1.1".into(), depth: 1 }
        );
        // The second of two generations has what the first has not given away.
        let mut later = vec![Wait { id: "7:1.9".into(), child: None, ..waits[0].clone() }];
        run.begin_children(&mut later);
        assert!(later[0].child.as_ref().unwrap().tokens * 2 <= left - children[0].tokens - 700);
    }

    /// The waits of a run with so many tokens for these children.
    fn with_tokens(tokens: u64, calls: &[serde_json::Value]) -> (Run, Vec<Wait>) {
        let (mut run, mut waits) = asking(0, calls);
        run.task.limits.tokens = tokens;
        run.waits.clear();
        run.begin_children(&mut waits);
        (run, waits)
    }

    #[test]
    fn a_child_has_enough_for_a_call_of_a_tool_or_is_not_begun() {
        let task = [json!({ "task": "a" })];
        let (run, waits) = with_tokens(1_000_000, &task);
        let input = run.first_input_of_child(&waits[0], &waits[0].child.as_ref().unwrap().tools);
        let used = run.usage.total() + run.next_input();
        let (floor, least) = (2 * input + 3 * 256, input + 256);
        for (left, expected) in [
            (2 * floor + 100, floor + 50),
            // Half of it would not do.
            (floor + 512, floor),
            (floor + 500, floor - 12),
            (2 * least + 4, least + 2),
            (2 * least - 1, 0),
            (0, 0),
        ] {
            let (run, waits) = with_tokens(used + left, &task);
            let tokens = waits[0].child.as_ref().unwrap().tokens;
            assert_eq!(tokens, expected, "{left} are left, {floor} and {least}");
            assert_eq!(run.child_refusal(&waits[0]).is_some(), expected == 0);
        }
        // One that the model gives too little is not begun either, and says how much it takes.
        let (run, waits) = with_tokens(1_000_000, &[json!({ "task": "a", "tokens": 7 })]);
        let said = run.child_refusal(&waits[0]).unwrap();
        assert!(said.contains(&format!("about {least} tokens")), "{said}");
    }

    #[test]
    fn the_third_generation_begins_no_other() {
        for (depth, may_begin) in [(0, true), (1, true), (2, false)] {
            let (run, _) = asking(depth, &[json!({ "task": "a" })]);
            let (_, child) = run.children().next().unwrap();
            assert_eq!(child.tools.iter().any(|tool| tool == RUN_AGENT), may_begin, "{depth}");
        }
    }

    #[test]
    fn the_end_of_a_child_is_the_answer_of_its_call_and_its_tokens_are_the_parents() {
        for (is_answered, said, outcome) in
            [(true, "42", ToolOutcome::Ok), (false, "Error: 42", ToolOutcome::Failed)]
        {
            let (mut run, waits) = asking(0, &[json!({ "task": "a" })]);
            let before = run.usage().total();
            assert!(run.waits_for("7:1.0") && !run.waits_for("7:1.1"));
            let Ok(Step::CallTools(calls)) = run.on(ended(&waits[0], is_answered, 100)) else { panic!() };
            assert!(!run.waits_for("7:1.0"));
            assert_eq!(run.usage().total(), before + 100);
            let answer = calls[0].refusal.clone().unwrap();
            assert_eq!((answer.content.as_str(), answer.receipt.outcome), (said, outcome));
            let child = &waits[0].child.as_ref().unwrap().job_id;
            assert_eq!(answer.receipt.detail.unwrap().child.as_ref(), Some(child));
            assert!(run.on(ended(&waits[0], true, 100)).is_err(), "it ends once");
        }
    }

    /// Otherwise the child would use them behind the answer, and the run could not read what either says.
    #[test]
    fn an_answer_beside_an_open_child_leaves_it_its_tokens() {
        let (mut run, waits) = asking(0, &[json!({ "task": "a" }), json!({ "task": "b" })]);
        run.on(ended(&waits[0], true, 0)).unwrap();
        let of_other = waits[1].child.as_ref().unwrap().tokens;
        let left = run.task.limits.tokens - run.usage().total() - run.next_input();
        let fits = |run: &Run, tokens: u64| {
            let content = "x".repeat(usize::try_from(tokens * BYTES_PER_TOKEN).unwrap());
            let receipt = ToolReceipt::new(RUN_AGENT, ToolOutcome::Ok);
            run.fit(0, ToolReturn { content, receipt }).receipt.outcome == ToolOutcome::Ok
        };
        assert!(fits(&run, left - of_other - 500) && !fits(&run, left - of_other));
        run.on(ended(&waits[1], true, 0)).unwrap();
        assert!(fits(&run, left - of_other), "it has ended, and used nothing");
    }

    /// What they did counts, although nobody waits for them any more.
    #[test]
    fn nobody_is_told_of_children_that_were_begun_that_they_did_not_run() {
        let (mut run, waits) = asking(0, &[json!({ "task": "a" }), json!({ "task": "b" })]);
        run.on(ended(&waits[0], true, 100)).unwrap();
        let Ok(Step::Done(result)) = run.on(Event::Cancelled) else { panic!() };
        let told: Vec<_> = result.tool_calls.iter().map(|receipt| receipt.outcome).collect();
        assert_eq!(told, [ToolOutcome::Ok, ToolOutcome::Interrupted]);
    }

    #[test]
    fn a_run_that_was_cancelled_waits_for_no_child() {
        let (mut run, _) = asking(0, &[json!({ "task": "a" })]);
        run.take_note(Event::Cancelled).unwrap();
        assert!(!run.waits_for("7:1.0"));
        assert_eq!(run.children().count(), 1, "which is to be stopped");
    }
}
