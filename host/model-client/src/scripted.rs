//! A model that answers from a script, for the tests of the wrappers around models.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::ports::{Model, ModelError, ModelRequest, ToolChoice};
use agent_core::words::{Catalog, Finish, ModelReply, NO_RULES};
use boxed_async::boxed_async;
use tokio::time::Instant;

static NO_TOOLS: LazyLock<Catalog> = LazyLock::new(Catalog::default);

/// Gives the answers of its script in order, then the last one again.
#[derive(Debug)]
pub(crate) struct Scripted {
    name: &'static str,
    script: Vec<Result<ModelReply, ModelError>>,
    calls: AtomicUsize,
}

impl Scripted {
    pub(crate) fn new(name: &'static str, script: Vec<Result<ModelReply, ModelError>>) -> Self {
        Self { name, script, calls: AtomicUsize::new(0) }
    }

    pub(crate) fn failing(name: &'static str, error: &ModelError) -> Self {
        Self::new(name, vec![Err(error.clone())])
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

#[boxed_async]
impl Model for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    async fn complete(&self, _: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        self.script.get(call).or(self.script.last()).expect("this model is not to be asked").clone()
    }
}

pub(crate) fn request() -> ModelRequest<'static> {
    request_until(Instant::now() + Duration::from_secs(30))
}

pub(crate) fn request_until(deadline: Instant) -> ModelRequest<'static> {
    ModelRequest {
        request_id: "req",
        messages: &[],
        tools: &NO_TOOLS,
        tool_choice: ToolChoice::Auto,
        rules: &NO_RULES,
        max_tokens: 100,
        temperature: 0.0,
        deadline: deadline.into_std(),
        deltas: None,
    }
}

pub(crate) fn reply(model: &str) -> ModelReply {
    ModelReply {
        content: "hello".into(),
        tool_calls: vec![],
        usage: None,
        finish: Finish::Done,
        model: model.into(),
    }
}

pub(crate) fn timeout() -> ModelError {
    ModelError::Timeout { provider: "a".into() }
}

pub(crate) fn unreachable() -> ModelError {
    ModelError::Unreachable { provider: "a".into(), detail: String::new() }
}

pub(crate) fn unavailable(retry_after: Option<Duration>) -> ModelError {
    ModelError::Unavailable { provider: "a".into(), detail: String::new(), retry_after }
}

pub(crate) fn rate_limited(retry_after: Option<Duration>) -> ModelError {
    let (provider, detail) = ("a".into(), String::new());
    ModelError::RateLimited { provider, detail, retry_after, quota_exhausted: false }
}

pub(crate) fn quota_exhausted() -> ModelError {
    let (provider, detail) = ("a".into(), String::new());
    ModelError::RateLimited { provider, detail, retry_after: None, quota_exhausted: true }
}

pub(crate) fn refused() -> ModelError {
    ModelError::Refused { provider: "a".into(), detail: String::new() }
}

pub(crate) fn malformed() -> ModelError {
    ModelError::Malformed { provider: "a".into(), detail: String::new() }
}
