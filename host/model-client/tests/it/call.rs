//! What the tests ask a model, and how.

use std::sync::LazyLock;
use std::time::Duration;

use agent_core::ports::{Model, ModelError, ModelRequest, ToolChoice};
use agent_core::secret::Secret;
use agent_core::words::{Catalog, Message, ModelReply, NO_RULES, ToolCall, ToolSpec};
use model_client::{HttpModel, Provider, ProviderSettings, Retry, RetryPolicy, connect};
use serde_json::json;
use url::Url;

use crate::provider::{Answer, KEY, ScriptedProvider};

pub(crate) fn openai() -> Provider {
    Provider::with_prefix("openai").unwrap()
}

pub(crate) fn anthropic() -> Provider {
    Provider::with_prefix("anthropic").unwrap()
}

pub(crate) fn both() -> [Provider; 2] {
    [openai(), anthropic()]
}

/// Three retries without delays.
pub(crate) const NO_DELAYS: RetryPolicy =
    RetryPolicy { retries: 3, first_delay: Duration::ZERO, longest_delay: Duration::ZERO };

static TOOLS: LazyLock<Catalog> = LazyLock::new(|| {
    let input_schema = json!({"type": "object", "properties": {"a": {"type": "number"}}});
    let tool =
        ToolSpec { name: "add".into(), description: "Adds.".into(), input_schema, ..ToolSpec::default() };
    Catalog::new(vec![tool], "tools-1".into())
});

/// A short conversation with everything in it that providers are particular about: text beside calls, two
/// calls at once, one with unreadable arguments and the other with an invented name, and answers to both.
static CONVERSATION: LazyLock<Vec<Message>> = LazyLock::new(|| {
    let call = |id: &str, name: &str, arguments| ToolCall { id: id.into(), name: name.into(), arguments };
    let answer = |id: &str, name: &str, content: &str| Message::Tool {
        tool_call_id: id.into(),
        name: name.into(),
        content: content.into(),
    };
    let odd = call("weird id:1", "functions.add", json!({"a": 1}));
    vec![
        Message::User { content: "What is 1+2?".into() },
        Message::Assistant {
            content: String::new(),
            tool_calls: vec![odd, call("call_2", "add", json!("{\"a\":"))],
        },
        answer("weird id:1", "functions.add", "there is no such tool"),
        answer("call_2", "add", ""),
    ]
});

pub(crate) fn settings(provider: Provider, base_url: Url) -> ProviderSettings {
    ProviderSettings {
        provider,
        model: "test-model".into(),
        // As a file leaves it. Every request is checked for the key alone.
        api_key: Secret::new(format!(" {KEY}\n")),
        base_url: Some(base_url),
        timeout: Duration::from_secs(30),
    }
}

pub(crate) fn model(protocol: Provider, provider: &ScriptedProvider) -> HttpModel {
    connect(settings(protocol, provider.url())).unwrap()
}

/// A provider that gives these answers, and its model.
pub(crate) async fn scripted(
    protocol: Provider,
    script: impl IntoIterator<Item = Answer>,
) -> (ScriptedProvider, HttpModel) {
    let provider = ScriptedProvider::start(protocol, script).await;
    let model = model(protocol, &provider);
    (provider, model)
}

pub(crate) fn retrying(protocol: Provider, provider: &ScriptedProvider) -> Retry<HttpModel> {
    Retry::with_policy(model(protocol, provider), NO_DELAYS)
}

pub(crate) fn request() -> ModelRequest<'static> {
    ModelRequest {
        request_id: "req-1",
        messages: &CONVERSATION,
        tools: &TOOLS,
        tool_choice: ToolChoice::Auto,
        rules: &NO_RULES,
        max_tokens: 100,
        temperature: 0.0,
        // Of the clock that tests may move.
        deadline: tokio::time::Instant::now().into_std() + Duration::from_secs(30),
        deltas: None,
    }
}

pub(crate) async fn ask(model: &dyn Model) -> Result<ModelReply, ModelError> {
    model.complete(request()).await
}
