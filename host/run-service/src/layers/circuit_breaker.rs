//! Transitions requests away while the agent fails too often.

use std::panic::AssertUnwindSafe;

use agent_core::circuit_breaker::{SharedCircuit, Transition, Verdict};
use agent_core::ports::ModelError;
use agent_core::words::StopReason;
use boxed_async::boxed_async;
use futures::FutureExt;
use tracing::{info, warn};

use super::{Ask, Invoke, InvokeError, RunAnswer};
use crate::loop_driver::RunError;

/// Passes requests through a circuit (host/docs/interface/errors-and-limits.md#errors). The deadline belongs
/// inside, so that runs whose model takes too long count as failures. So do runs that panic: the next one
/// would panic as well.
#[derive(Debug)]
pub struct Breaker<I> {
    inner: I,
    circuit: SharedCircuit,
}

impl<I> Breaker<I> {
    /// Requests pass through `circuit`.
    pub fn new(inner: I, circuit: SharedCircuit) -> Self {
        Self { inner, circuit }
    }
}

#[boxed_async]
impl<I: Invoke> Invoke for Breaker<I> {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        let pass = self.circuit.enter().map_err(|retry_after| InvokeError::CircuitOpen { retry_after })?;
        let replied = ask.control.model_replied.clone();
        let answer = AssertUnwindSafe(self.inner.invoke(ask)).catch_unwind().await;
        let mut answer = answer.unwrap_or(Err(RunError::Panicked.into()));
        match pass.end(judge(&answer, replied.is_set())) {
            Some(Transition::Opened) => warn!("the agent fails too often: its circuit opens"),
            Some(Transition::Closed) => info!("the agent answers again: its circuit closes"),
            None => {}
        }
        if let Err(InvokeError::TimedOut { retry_after, .. }) = &mut answer {
            *retry_after = self.circuit.retry_after();
        }
        answer
    }
}

/// What an answer says about the agent. Refusals of the provider are the request's own fault as often as not,
/// and so are tools that take the run's whole time. A caller must not be able to open the circuit for
/// everybody else.
fn judge(answer: &Result<RunAnswer, InvokeError>, has_replied: bool) -> Verdict {
    match answer {
        Ok(answer) if answer.result.stop_reason == StopReason::Cancelled => Verdict::Neither,
        // A run that waits for somebody behind a reply has been answered as well.
        Ok(_) | Err(InvokeError::Waits { .. } | InvokeError::Run(RunError::Parked { .. })) if has_replied => {
            Verdict::Success
        }
        // No model was asked.
        Ok(_) => Verdict::Neither,
        Err(InvokeError::Run(RunError::Model(
            ModelError::Refused { .. } | ModelError::TooLong { .. } | ModelError::RefusedFunctions { .. },
        ))) => Verdict::Success,
        Err(
            InvokeError::TimedOut { in_tools: false, .. }
            | InvokeError::Run(RunError::Model(_) | RunError::Panicked),
        ) => Verdict::Failure,
        Err(
            InvokeError::TimedOut { in_tools: true, .. }
            | InvokeError::Busy { .. }
            | InvokeError::CircuitOpen { .. }
            | InvokeError::Stopping
            | InvokeError::ToolsNotPrepared { .. }
            | InvokeError::OverLimit
            | InvokeError::UnknownTools { .. }
            | InvokeError::Waits { .. }
            | InvokeError::Conversation(_)
            | InvokeError::Run(
                RunError::Journal(_)
                | RunError::Driver(_)
                | RunError::Stopped
                | RunError::Parked { .. }
                | RunError::Stuck { .. },
            ),
        ) => Verdict::Neither,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use agent_core::circuit_breaker::{CircuitState, DEFAULT_MIN_VOLUME, RESET_TIMEOUT, Transitions};
    use agent_core::ports::{Epoch, Journal as _};
    use agent_core::testing::{EchoTools, TestRuns, asks_for, says, task};
    use agent_core::words::Event;
    use serde_json::json;

    use super::*;
    use crate::layers::Deadline;
    use crate::loop_driver::RunClaim;
    use crate::testing::{ScriptedInvoke, scripted_agent};

    fn ask() -> Ask {
        Ask::new("r".into(), "hi".into())
    }

    fn unreachable() -> InvokeError {
        let (provider, detail) = ("p".into(), "connection refused".into());
        InvokeError::Run(RunError::Model(ModelError::Unreachable { provider, detail }))
    }

    fn refused() -> InvokeError {
        let (provider, detail) = ("p".into(), "400".into());
        InvokeError::Run(RunError::Model(ModelError::Refused { provider, detail }))
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_fails_is_left_alone_for_a_while() {
        let circuit = agent_core::testing::circuit(DEFAULT_MIN_VOLUME);
        let agent = ScriptedInvoke::new((0..5).map(|_| Err(unreachable())));
        let breaker = Breaker::new(agent.clone(), circuit.clone());
        for _ in 0..5 {
            assert!(matches!(breaker.invoke(ask()).await, Err(InvokeError::Run(_))));
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        let error = breaker.invoke(ask()).await.unwrap_err();
        let InvokeError::CircuitOpen { retry_after } = error else { panic!("{error}") };
        assert_eq!(retry_after, RESET_TIMEOUT - Duration::from_secs(10));
        assert_eq!(agent.asked().len(), 5);

        tokio::time::advance(retry_after).await;
        agent.add(Ok(ScriptedInvoke::answer("back")));
        breaker.invoke(ask()).await.unwrap();
        assert_eq!(circuit.state(), CircuitState::Closed);
        assert_eq!(circuit.transitions(), Transitions { opened: 1, closed: 1 });
    }

    #[tokio::test(start_paused = true)]
    async fn what_says_nothing_about_the_agent_does_not_open_the_circuit() {
        for (error, opens) in [
            (unreachable(), true),
            (InvokeError::TimedOut { limit: RESET_TIMEOUT, retry_after: None, in_tools: false }, true),
            (InvokeError::TimedOut { limit: RESET_TIMEOUT, retry_after: None, in_tools: true }, false),
            (refused(), false),
            (InvokeError::Busy { waited: Duration::ZERO }, false),
            (InvokeError::Run(RunError::Stopped), false),
        ] {
            let circuit = agent_core::testing::circuit(DEFAULT_MIN_VOLUME);
            let agent = ScriptedInvoke::new((0..9).map(|_| Err(error.clone())));
            let breaker = Breaker::new(agent, circuit.clone());
            for _ in 0..9 {
                breaker.invoke(ask()).await.unwrap_err();
            }
            assert_eq!(circuit.state() == CircuitState::Open, opens, "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_panics_opens_the_circuit() {
        let circuit = agent_core::testing::circuit(DEFAULT_MIN_VOLUME);
        let agent = ScriptedInvoke::default();
        agent.panic();
        let breaker = Breaker::new(agent.clone(), circuit.clone());
        for _ in 0..DEFAULT_MIN_VOLUME {
            let error = breaker.invoke(ask()).await.unwrap_err();
            assert!(matches!(error, InvokeError::Run(RunError::Panicked)), "{error}");
        }
        assert_eq!(circuit.state(), CircuitState::Open);
        assert_eq!(circuit.transitions(), Transitions { opened: 1, closed: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_closes_the_circuit_though_its_run_waits_and_one_that_is_only_folded_does_not() {
        let started = Event::Started { task: task("hi"), tools: "sha256:test".into() };
        for (journaled, state) in [
            (vec![], CircuitState::Closed),
            (vec![started, Event::from(says("done"))], CircuitState::HalfOpen),
        ] {
            let circuit = agent_core::testing::circuit(1);
            circuit.enter().unwrap().end(Verdict::Failure);
            tokio::time::advance(RESET_TIMEOUT).await;
            let runs = Arc::new(TestRuns::default());
            let ask = Ask { run_id: "run_1".into(), ..ask() };
            runs.append(&ask.run_id, Epoch(1), 0, &journaled).await.unwrap();
            let tools = EchoTools::new(&["pay"]).approved_by("pay", "sha256:policy");
            let agent = scripted_agent([Ok(asks_for(&[("1", "pay", json!({}))]))], tools, runs);
            let breaker = Breaker::new(agent, circuit.clone());
            let claim = Some(RunClaim { job_id: "1".into(), epoch: Epoch(2), ..RunClaim::default() });
            let answer = breaker.invoke(Ask { claim, ..ask }).await;
            let is_parked = matches!(answer, Err(InvokeError::Run(RunError::Parked { .. })));
            assert_eq!((answer.is_ok(), is_parked), (!journaled.is_empty(), journaled.is_empty()));
            assert_eq!(circuit.state(), state);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_takes_too_long_is_told_when_to_come_back_once_that_opened_the_circuit() {
        let hanging = Deadline::new(ScriptedInvoke::hanging(), Duration::from_secs(30));
        let breaker = Breaker::new(hanging, agent_core::testing::circuit(2));
        let later = async {
            tokio::time::sleep(Duration::from_secs(25)).await;
            tokio::join!(breaker.invoke(ask()), breaker.invoke(ask()))
        };
        let (first, second, _) = tokio::join!(breaker.invoke(ask()), breaker.invoke(ask()), later);
        let retry_after = |answer: Result<RunAnswer, InvokeError>| match answer {
            Err(InvokeError::TimedOut { retry_after, .. }) => retry_after,
            other => panic!("{other:?}"),
        };
        assert_eq!(retry_after(first), None);
        assert_eq!(retry_after(second), Some(RESET_TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_whose_caller_goes_away_does_not_leave_the_circuit_half_open_for_ever() {
        let circuit = agent_core::testing::circuit(1);
        let agent = ScriptedInvoke::new([Err(unreachable())]);
        let breaker = Breaker::new(agent.clone(), circuit.clone());
        breaker.invoke(ask()).await.unwrap_err();
        tokio::time::advance(RESET_TIMEOUT).await;
        agent.hang();
        let mut gone = breaker.invoke(ask());
        assert!((&mut gone).now_or_never().is_none());
        assert!(matches!(breaker.invoke(ask()).await, Err(InvokeError::CircuitOpen { .. })));
        drop(gone);
        agent.add(Ok(ScriptedInvoke::answer("back")));
        breaker.invoke(ask()).await.unwrap();
        assert_eq!(circuit.state(), CircuitState::Closed);
    }
}
