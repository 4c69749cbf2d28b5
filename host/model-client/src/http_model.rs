//! A model behind HTTP: one provider, one question, one answer. No retries; see `retry` for them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::{Model, ModelError, ModelReply, ModelRequest, ToolChoice};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use reqwest::StatusCode;
use tokio::time::Instant;
use tracing::warn;

use crate::complaint::Complaint;
use crate::connect_error::ConnectError;
use crate::fault::Faults;
use crate::provider::{Prompt, Provider, Unreadable};
use crate::settings::ProviderSettings;
use crate::shape::Shape;
use crate::tool_cache::ToolCache;
use crate::transport::{Answer, Transport};

/// A model of one provider. Holds a pool of connections, so make one and share it.
#[derive(Debug)]
pub struct HttpModel {
    provider: Provider,
    model: String,
    timeout: Duration,
    transport: Transport,
    tools: ToolCache,
    shape: ArcSwap<Shape>,
    faults: Faults,
}

/// Sets a client up. Nothing is sent before the first call.
pub fn connect(settings: ProviderSettings) -> Result<HttpModel, ConnectError> {
    let ProviderSettings { provider, model, api_key, base_url, timeout } = settings;
    if model.trim().is_empty() {
        return Err(ConnectError::Model);
    }
    let endpoint = provider.endpoint(base_url.as_ref())?;
    Ok(HttpModel {
        shape: ArcSwap::from_pointee(provider.shape(&endpoint)),
        transport: Transport::new(endpoint, provider.headers(&api_key)?)?,
        tools: ToolCache::default(),
        faults: Faults { who: format!("{provider}/{model}"), key: api_key },
        provider,
        model,
        timeout,
    })
}

#[async_trait]
impl Model for HttpModel {
    fn name(&self) -> &str {
        &self.faults.who
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let deadline = Instant::from_std(request.deadline);
        let until = Instant::now().checked_add(self.timeout).map_or(deadline, |end| end.min(deadline));
        let mut shape = **self.shape.load();
        loop {
            let answer = self.ask(&request, shape, until).await?;
            if answer.status.is_success() {
                let reply = self.provider.read(&answer.body, &request, self.name());
                return reply.map_err(|unreadable| self.unreadable(&answer, &unreadable));
            }
            let complaint = Complaint::read(&answer.body);
            let about_the_request = complaint.as_ref().filter(|_| refuses_the_request(answer.status));
            let better = |refusal| shape.corrected_by(refusal, request.max_tokens);
            let Some(better) = about_the_request.and_then(better) else {
                return Err(self.faults.status(
                    answer.status,
                    &answer,
                    complaint.as_ref(),
                    SystemTime::now(),
                ));
            };
            self.remember(better, &request);
            shape = better;
        }
    }
}

impl HttpModel {
    /// One HTTP exchange.
    async fn ask(
        &self,
        request: &ModelRequest<'_>,
        shape: Shape,
        until: Instant,
    ) -> Result<Answer, ModelError> {
        let unwritable = |error: serde_json::Error| self.faults.refused(&error.to_string());
        let tools = self.tools.get(request.tools, |tools| self.provider.render_tools(tools));
        let refuses_choice = request.tool_choice == ToolChoice::None && !shape.tool_choice;
        let tools = tools.map_err(unwritable)?.filter(|_| !refuses_choice);
        let prompt = Prompt { model: &self.model, request, tools: tools.as_deref(), shape };
        let body = self.provider.render(prompt).map_err(unwritable)?;
        let answer = self.transport.post(request.request_id, body, until).await;
        answer.map_err(|broken| self.faults.broken(broken))
    }

    /// Why a successful answer holds no reply.
    fn unreadable(&self, answer: &Answer, unreadable: &Unreadable) -> ModelError {
        if unreadable.cut_short && answer.ends_with_the_connection() {
            return self.faults.unreachable("the connection broke in the middle of the reply");
        }
        // Gateways answer 200 before they ask the provider behind them, and its error comes as the body.
        match Complaint::read(&answer.body) {
            Some(complaint) => match complaint.status.and_then(|status| StatusCode::from_u16(status).ok()) {
                Some(status) if status.is_client_error() || status.is_server_error() => {
                    self.faults.status(status, answer, Some(&complaint), SystemTime::now())
                }
                Some(_) | None => self.faults.malformed(&format!("it is an error: {}", complaint.message)),
            },
            None => self.faults.malformed(&unreadable.detail),
        }
    }

    /// Keeps what the provider has taught us for the requests to come.
    fn remember(&self, shape: Shape, request: &ModelRequest<'_>) {
        warn!(
            model = self.name(),
            request_id = request.request_id,
            temperature = shape.temperature,
            max_completion_tokens = shape.completion_tokens,
            most_tokens = shape.most_tokens,
            tool_choice = shape.tool_choice,
            "the model does not take a parameter or its value; requests are shaped differently from now on",
        );
        self.shape.store(Arc::new(shape));
    }
}

/// The statuses with which servers refuse the form of a request: most use 400, those with a schema of their own 422.
fn refuses_the_request(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY)
}
