//! Ways for a request or a check to end that no scripted model brings about.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Probe, ProbeError};
use agent_core::words::{AgentResult, Message, StopReason, Usage};
use boxed_async::boxed_async;
use run_service::layers::{Ask, Invoke, InvokeError, RunAnswer};

/// Answers every request with its own input and its own id.
pub(crate) struct Answers;

#[boxed_async]
impl Invoke for Answers {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        let messages = vec![Message::User { content: ask.input.into() }];
        let result = AgentResult {
            output: ask.request_id,
            usage: Usage::default(),
            model: "test/answers".into(),
            ..agent_core::testing::result(messages, StopReason::Completed)
        };
        Ok(RunAnswer { result: Arc::new(result), cached: None, is_turn_lost: false })
    }
}

/// Panics with the caller's text.
pub(crate) struct Panics;

#[boxed_async]
impl Invoke for Panics {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        tokio::task::yield_now().await;
        panic!("cannot answer: {}", ask.input)
    }
}

/// A dependency that is always in the same state.
pub(crate) struct FixedProbe {
    name: &'static str,
    state: Option<Result<(), &'static str>>,
}

impl FixedProbe {
    pub(crate) fn passes(name: &'static str) -> Arc<dyn Probe> {
        Arc::new(Self { name, state: Some(Ok(())) })
    }

    pub(crate) fn fails(name: &'static str, error: &'static str) -> Arc<dyn Probe> {
        Arc::new(Self { name, state: Some(Err(error)) })
    }

    pub(crate) fn hangs(name: &'static str) -> Arc<dyn Probe> {
        Arc::new(Self { name, state: None })
    }
}

#[boxed_async]
impl Probe for FixedProbe {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        match self.state {
            Some(state) => state.map(|()| None).map_err(|error| ProbeError(error.into())),
            None => std::future::pending().await,
        }
    }
}
