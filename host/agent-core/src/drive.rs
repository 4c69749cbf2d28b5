//! Carries a run's steps out: asks the model, calls the tools, and journals every event before the next step.

use std::time::Instant;

use futures::future::join_all;
use tracing::Instrument;

use crate::message::ToolCall;
use crate::ports::{
    Journal, JournalError, Model, ModelError, ModelRequest, ToolRequest, ToolReturn, ToolSet,
};
use crate::result::AgentResult;
use crate::run::{Event, Run, Step, Task, UnexpectedEvent};

/// What a run is driven with.
#[derive(Clone, Copy)]
pub struct Driver<'a> {
    /// The HTTP request or job on whose behalf the run is made.
    pub request_id: &'a str,
    /// When the caller stops waiting.
    pub deadline: Instant,
    /// Who is asked.
    pub model: &'a dyn Model,
    /// The tools, pinned for the whole run.
    pub tools: &'a dyn ToolSet,
    /// Where the run's history goes.
    pub journal: &'a dyn Journal,
}

/// Why a run has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DriveError {
    /// The model gave no reply.
    #[error("the model call failed")]
    Model(#[source] ModelError),
    /// The history could not be written, so the run must not go on.
    #[error("the run could not be recorded")]
    Journal(#[source] JournalError),
    /// The run was told something it did not ask for: a bug or a damaged journal.
    #[error("the run was driven wrongly")]
    Driver(#[source] UnexpectedEvent),
}

impl Driver<'_> {
    /// Starts a run and takes it to its end. Dropping the future stops whatever is under way.
    pub async fn start(&self, task: Task) -> Result<AgentResult, DriveError> {
        let catalog = self.tools.catalog();
        let started = Event::Started { task: task.clone(), tools: catalog.digest().to_owned() };
        self.journal.append(&task.id, 0, &started).await.map_err(DriveError::Journal)?;
        let (run, step) = Run::start(task, catalog.clone());
        self.go_on(run, step, 1).await
    }

    /// Takes up a run that stopped after `events`, which are its journal.
    pub async fn resume(&self, events: Vec<Event>) -> Result<AgentResult, DriveError> {
        let sequence = events.len() as u64;
        let (run, step) = Run::resume(events, self.tools.catalog().clone()).map_err(DriveError::Driver)?;
        self.go_on(run, step, sequence).await
    }

    async fn go_on(&self, mut run: Run, mut step: Step, first: u64) -> Result<AgentResult, DriveError> {
        let mut sequence = first;
        loop {
            let event = match step {
                Step::Done(result) => return Ok(*result),
                Step::AskModel { max_tokens, temperature } => {
                    self.ask_model(&run, max_tokens, temperature).await?
                }
                Step::CallTools(calls) => Event::ToolsReturned { returns: self.call_tools(&calls).await },
            };
            self.journal.append(run.id(), sequence, &event).await.map_err(DriveError::Journal)?;
            sequence += 1;
            step = run.on(event).map_err(DriveError::Driver)?;
        }
    }

    async fn ask_model(&self, run: &Run, max_tokens: u32, temperature: f64) -> Result<Event, DriveError> {
        let request = ModelRequest {
            request_id: self.request_id,
            messages: run.messages(),
            tools: run.catalog(),
            max_tokens,
            temperature,
            deadline: self.deadline,
        };
        let span = tracing::debug_span!("chat", model = self.model.name());
        let reply = self.model.complete(request).instrument(span).await.map_err(DriveError::Model)?;
        Ok(Event::ModelReplied { reply })
    }

    /// All calls of one reply at once, answered in the order asked.
    async fn call_tools(&self, calls: &[ToolCall]) -> Vec<ToolReturn> {
        join_all(calls.iter().map(|call| {
            let request = ToolRequest { request_id: self.request_id, call, deadline: self.deadline };
            let span = tracing::debug_span!("execute_tool", tool = %call.name);
            self.tools.call(request).instrument(span)
        }))
        .await
    }
}

impl std::fmt::Debug for Driver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("request_id", &self.request_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::message::Options;
    use crate::run::Limits;
    use crate::testing::{EchoTools, ScriptedModel, TestJournal, asks_for, says};

    fn task() -> Task {
        Task {
            id: "run_1".into(),
            input: "hello".into(),
            options: Options::default(),
            limits: Limits::default(),
            model: "test/scripted".into(),
        }
    }

    fn driver<'a>(model: &'a ScriptedModel, tools: &'a EchoTools, journal: &'a TestJournal) -> Driver<'a> {
        let deadline = Instant::now() + Duration::from_secs(60);
        Driver { request_id: "req-1", deadline, model, tools, journal }
    }

    fn script() -> [Result<crate::ports::ModelReply, ModelError>; 3] {
        [
            Ok(asks_for(&[("1", "echo", json!({"n": 1})), ("2", "nope", json!({}))])),
            Ok(asks_for(&[("3", "echo", json!({"n": 3}))])),
            Ok(says("done")),
        ]
    }

    #[tokio::test]
    async fn a_run_is_driven_to_its_end_and_every_event_is_journaled() {
        let (model, tools, journal) =
            (ScriptedModel::new(script()), EchoTools::new(&["echo"]), TestJournal::default());
        let result = driver(&model, &tools, &journal).start(task()).await.unwrap();
        assert_eq!((result.output.as_str(), result.iterations), ("done", 3));
        let names: Vec<_> = journal
            .events()
            .iter()
            .map(|event| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            names,
            [
                "started",
                "model_replied",
                "tools_returned",
                "model_replied",
                "tools_returned",
                "model_replied"
            ]
        );
    }

    #[tokio::test]
    async fn a_run_resumed_after_any_event_repeats_no_model_call() {
        let (model, tools, journal) =
            (ScriptedModel::new(script()), EchoTools::new(&["echo"]), TestJournal::default());
        let whole = driver(&model, &tools, &journal).start(task()).await.unwrap();
        let events = journal.events();
        for kept in 1..=events.len() {
            let replies_kept =
                events[..kept].iter().filter(|event| matches!(event, Event::ModelReplied { .. })).count();
            let model = ScriptedModel::new(script().into_iter().skip(replies_kept));
            let journal = TestJournal::default();
            for (sequence, event) in (0..).zip(&events[..kept]) {
                journal.append("run_1", sequence, event).await.unwrap();
            }
            let resumed = driver(&model, &tools, &journal).resume(events[..kept].to_vec()).await.unwrap();
            assert_eq!(resumed, whole, "resumed after {kept} events");
            assert_eq!(model.asked().len(), 3 - replies_kept);
        }
    }

    #[tokio::test]
    async fn a_run_that_cannot_be_recorded_does_not_go_on() {
        let (model, tools, journal) =
            (ScriptedModel::new(script()), EchoTools::new(&["echo"]), TestJournal::failing_at(1));
        let error = driver(&model, &tools, &journal).start(task()).await.unwrap_err();
        assert!(matches!(error, DriveError::Journal(_)), "{error:?}");
        assert_eq!(model.asked().len(), 1, "no second model call after the journal failed");
    }
}
