//! The innermost `Invoke`: a caller's text becomes a run, driven to its end.

use std::sync::Arc;

use agent_core::agent_loop::kept_history;
use agent_core::chosen_tools::{self, restricted};
use agent_core::ports::{EarlierClaims, Journal, JournalError, Model, ToolSet, Toolbox, Versions};
use agent_core::trace::InTrace as _;
use agent_core::words::{Catalog, Event, Options, RunLimits, Task};
use boxed_async::boxed_async;
use tracing::info;

use super::{Ask, Invoke, InvokeError, RunAnswer, client_functions, wait_tools};
use crate::loop_driver::{Driver, RunClaim, RunError, gen_ai};

/// How often the run of a job is taken up again, under one claim, because its journal has an event that was
/// not there when it was read: the last one of a worker that was replaced, or what stands behind a gap.
const MOST_TAKEN_UP_AGAIN: usize = 3;

/// Runs the agent, with the tools that its caller may use and chose. The run of a job goes on where its
/// journal ends.
pub struct Agent {
    /// Who is asked.
    pub model: Arc<dyn Model>,
    /// Where each run gets its tool set from.
    pub toolbox: Arc<dyn Toolbox>,
    /// Where the runs' histories go.
    pub journal: Arc<dyn Journal>,
    /// What one run may use up.
    pub limits: RunLimits,
    /// What the model is told before everything else (`AGENT_INSTRUCTIONS`).
    pub instructions: Option<Arc<str>>,
    /// Whether runs that can wait have the tools to do so (`WAIT_TOOLS`).
    pub wait_tools: bool,
}

impl Agent {
    /// An agent with the default limits, and neither instructions nor tools to wait with.
    pub fn new(model: Arc<dyn Model>, toolbox: Arc<dyn Toolbox>, journal: Arc<dyn Journal>) -> Self {
        let limits = RunLimits::default();
        Self { model, toolbox, journal, limits, instructions: None, wait_tools: false }
    }
}

#[boxed_async]
impl Invoke for Agent {
    /// A worker whose lease has ended drops this. Until then it is the job's only one, and an event that is
    /// in its way came from a worker before it: it goes on behind that. Once it has written an event of its
    /// own, earlier ones are fenced off.
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        if let Some(claim) = ask.claim.as_ref().filter(|claim| claim.is_given_up) {
            return Err(RunError::Stuck { attempts: claim.earlier.lost }.into());
        }
        let mut ask = ask;
        for _ in 0..MOST_TAKEN_UP_AGAIN {
            let Some(claim) = ask.claim.clone() else { break };
            let again = ask.clone();
            match Box::pin(self.run(ask)).await {
                Err(InvokeError::Run(RunError::Journal(error @ JournalError::Conflict { .. }))) => {
                    info!(run_id = again.run_id, %error, "the run is taken up again behind what another worker wrote");
                    let earlier = EarlierClaims { are_none: false, ..claim.earlier };
                    ask = Ask { claim: Some(RunClaim { earlier, ..claim }), ..again };
                }
                ended => return ended,
            }
        }
        Box::pin(self.run(ask)).await
    }
}

impl Agent {
    /// Drives a run from its beginning, or from where its journal ends.
    async fn run(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        // Only jobs are taken up again. The run of a request ends with it, so nothing is read for it; nor for
        // a job that nobody can have begun.
        let journaled = match &ask.claim {
            Some(claim) if claim.earlier.are_none => Vec::new(),
            Some(_) => self.journal.read(&ask.run_id, 0).await.map_err(RunError::Journal)?,
            None => Vec::new(),
        };
        let tools = match journaled.first() {
            // A run that is taken up is on behalf of whom it was begun for, and has the tools that this
            // caller may use by now, in the versions that it began with. What was chosen and is not there any
            // more is missing then, which ends no run.
            Some(Event::Started { task, .. }) => {
                Box::pin(self.cancel_unwanted(&ask, task)).await;
                if task.options.history.len() > ask.control.own_history.len() {
                    ask.control.began_behind_turns.set();
                }
                let tools = self.toolbox.pinned(&task.principal, &task.id, &task.versions).await;
                choose(self.with_waits(tools, &task.options, &ask), &task.options)
            }
            Some(_) | None => {
                let tools = self.toolbox.for_run(&ask.principal, &ask.run_id);
                let tools = self.with_waits(tools, &ask.options, &ask);
                chosen_tools::check(tools.catalog(), ask.options.tools.as_deref())?;
                choose(tools, &ask.options)
            }
        };
        let options = self.keep_history(ask.options, &ask.input, tools.catalog());
        let task = Task {
            id: ask.run_id,
            input: ask.input,
            instructions: self.instructions.as_deref().filter(|_| options.call.is_none()).map(str::to_owned),
            options,
            limits: self.limits,
            model: self.model.name().to_owned(),
            principal: ask.principal,
            grants: ask.grants,
            // The run of a request is never taken up, unless it has to wait for somebody.
            versions: if ask.claim.is_some() || (ask.control.job_id.is_some() && tools.may_wait()) {
                tools.versions()
            } else {
                Versions::new()
            },
            parent: None,
        };
        let driver = Driver {
            request_id: &ask.request_id,
            model: &*self.model,
            tools: &*tools,
            journal: &*self.journal,
            claim: ask.claim.as_ref(),
            control: &ask.control,
        };
        let span = gen_ai::invoke_agent(&task);
        let driven = async {
            if journaled.is_empty() { driver.start(task).await } else { driver.resume(journaled).await }
        };
        let ended = driven.in_trace(span.inner()).await;
        gen_ai::agent_ended(&span, &ended);
        Ok(RunAnswer { result: Arc::new(ended?), cached: None, is_turn_lost: false })
    }

    /// The tools with those by which a run waits, if this one can and they were chosen.
    fn with_waits(&self, tools: Arc<dyn ToolSet>, options: &Options, ask: &Ask) -> Arc<dyn ToolSet> {
        let can_wait = ask.claim.is_some() || ask.control.job_id.is_some();
        if !self.wait_tools || !can_wait {
            return tools;
        }
        wait_tools::offered(tools, options.tools.as_deref(), ask.control.children.are_possible())
    }

    /// Cancels a run whose parent waits for it no longer.
    async fn cancel_unwanted(&self, ask: &Ask, task: &Task) {
        if let (Some(parent), Some(cancel)) = (&task.parent, &ask.control.cancel)
            && !ask.control.children.are_wanted_by(&*self.journal, parent).await
        {
            cancel.cancel();
        }
    }

    /// The options with as much of the history as the token budget has room for.
    fn keep_history(&self, options: Options, input: &str, catalog: &Catalog) -> Options {
        let asked = options.history.len();
        let history =
            kept_history(options.history, self.instructions.as_deref(), input, catalog, self.limits);
        if history.len() < asked {
            info!(kept = history.len(), of = asked, "the token budget has no room for the whole history");
        }
        Options { history, ..options }
    }
}

fn choose(tools: Arc<dyn ToolSet>, options: &Options) -> Arc<dyn ToolSet> {
    let tools = match &options.tools {
        Some(chosen) => restricted(tools, chosen),
        None => tools,
    };
    client_functions::offered(tools, &options.functions)
}

#[cfg(test)]
mod tests {
    use agent_core::testing::{EchoTools, ScriptedModel, TestJournal, asks_for, reply, says, task, user};
    use agent_core::words::{AgentResult, Message, Principal, ToolOutcome};
    use serde_json::json;

    use super::*;
    use crate::testing::scripted_agent;

    fn premium() -> Principal {
        Principal { tier: Some("premium".into()), ..Principal::user("u1") }
    }

    /// An agent whose model calls both tools, of which `search` is for one tier, and its journal.
    fn agent(journal: TestJournal) -> (Agent, Arc<TestJournal>) {
        let journal = Arc::new(journal);
        let calls = asks_for(&[("1", "add", json!({})), ("2", "search", json!({}))]);
        let tools = EchoTools::new(&["add", "search"]).only_for_tier("search", "premium");
        (scripted_agent([Ok(calls), Ok(says("done"))], tools, journal.clone()), journal)
    }

    fn ask(principal: Principal, tools: Option<&[&str]>) -> Ask {
        let tools = tools.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let options = Options { tools, ..Options::default() };
        Ask { principal, options, ..Ask::new("r".into(), "hi".into()) }
    }

    /// Whether each of the two calls reached its tool.
    fn called(result: &AgentResult) -> [bool; 2] {
        [0, 1].map(|index| match result.tool_calls[index].outcome {
            ToolOutcome::Ok => true,
            ToolOutcome::UnknownTool => false,
            outcome => panic!("{outcome:?}"),
        })
    }

    #[tokio::test]
    async fn a_run_has_the_tools_that_its_caller_may_use_and_chose() {
        for (principal, chosen, reached) in [
            (premium(), None, [true, true]),
            (Principal::user("u1"), None, [true, false]),
            (Principal::default(), None, [true, false]),
            (premium(), Some(&["search"][..]), [false, true]),
            (Principal::user("u1"), Some(&["add"]), [true, false]),
            (premium(), Some(&[]), [false, false]),
        ] {
            let (agent, journal) = agent(TestJournal::default());
            let answer = agent.invoke(ask(principal.clone(), chosen)).await.unwrap();
            assert_eq!(called(&answer.result), reached, "{principal:?} {chosen:?}");
            let Some(Event::Started { task, .. }) = journal.events().into_iter().next() else { panic!() };
            assert_eq!(task.principal, principal);
        }
    }

    #[tokio::test]
    async fn a_choice_that_cannot_be_had_begins_no_run() {
        for chosen in [&["add", "search"][..], &["add", "nope"]] {
            let (agent, journal) = agent(TestJournal::default());
            let error = agent.invoke(ask(Principal::user("u1"), Some(chosen))).await.unwrap_err();
            assert!(matches!(&error, InvokeError::UnknownTools { indexes } if *indexes == [1]), "{error:?}");
            assert!(journal.events().is_empty());
        }
    }

    #[tokio::test]
    async fn a_run_that_is_taken_up_is_its_submitters_and_keeps_what_there_is_of_its_choice() {
        for (begun_by, chosen, reached) in [
            (premium(), None, [true, true]),
            (Principal::user("u1"), None, [true, false]),
            (premium(), Some(&["search", "gone"][..]), [false, true]),
        ] {
            let (agent, journal) = agent(TestJournal::default());
            let Ask { run_id, options, principal, grants, .. } = ask(begun_by, chosen);
            let task = Task { id: run_id.clone(), options, principal, grants, ..task("hi") };
            let started = Event::Started { task, tools: "sha256:before".into() };
            let epoch = agent_core::ports::Epoch(1);
            journal.append(&run_id, epoch, 0, &[started]).await.unwrap();
            // As the queue has it by now, which does not count.
            let somebody = Principal { role: Some("admin".into()), ..Principal::user("u2") };
            let claim = Some(RunClaim { epoch, ..RunClaim::default() });
            let ask = Ask { run_id, claim, ..ask(somebody, None) };
            assert_eq!(called(&agent.invoke(ask).await.unwrap().result), reached, "{chosen:?}");
        }
    }

    #[tokio::test]
    async fn the_model_reads_instructions_and_history_and_the_result_has_neither() {
        let model = Arc::new(ScriptedModel::new([Ok(says("done"))]));
        let journal = Arc::new(TestJournal::default());
        let agent = Agent {
            limits: RunLimits { tokens: 1_400, ..RunLimits::default() },
            instructions: Some("be kind".into()),
            ..Agent::new(model.clone(), Arc::new(EchoTools::new(&[])), journal.clone())
        };
        // Too much for the budget: the oldest turn goes.
        let history =
            vec![user(&"x".repeat(3_000)), reply("long ago"), user("and then?"), reply("then this")];
        let options = Options { history, ..Options::default() };
        let answer = agent.invoke(Ask { options, ..Ask::new("r".into(), "hi".into()) }).await.unwrap();
        let system = Message::System { content: "be kind".into() };
        let kept = [user("and then?"), reply("then this")];
        let shown = [vec![system], kept.to_vec(), vec![user("hi")]].concat();
        assert_eq!(model.asked(), [shown]);
        assert_eq!(answer.result.messages, [user("hi"), reply("done")]);
        // Whoever takes the run up finds what it began with.
        let Some(Event::Started { task, .. }) = journal.events().into_iter().next() else { panic!() };
        assert_eq!((task.instructions.as_deref(), task.options.history), (Some("be kind"), kept.to_vec()));
    }
}
