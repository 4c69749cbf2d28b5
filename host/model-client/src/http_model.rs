//! A model behind HTTP: one provider, one question, one answer. No retries; see `retry` for them.

use std::time::{Duration, SystemTime};

use agent_core::ports::{Model, ModelError, ModelRequest};
use agent_core::words::{Finish, ModelReply};
use async_trait::async_trait;
use reqwest::StatusCode;
use tokio::time::Instant;
use tracing::warn;

use crate::complaint::Complaint;
use crate::connect_error::ConnectError;
use crate::fault::Faults;
use crate::negotiation::{Negotiation, TRIAL_TOKENS};
use crate::profile::Profile;
use crate::provider::{Prompt, Provider, Unreadable};
use crate::settings::ProviderSettings;
use crate::text_calls;
use crate::tool_cache::ToolCache;
use crate::transport::{Answer, Transport};

/// A call whose own time would end so shortly before the run's is given the run's: it is the run that is over then,
/// and who asked is told so.
const LAST_MOMENTS: Duration = Duration::from_secs(1);

/// A model of one provider. Holds a pool of connections, so make one and share it.
#[derive(Debug)]
pub struct HttpModel {
    provider: Provider,
    model: String,
    timeout: Duration,
    transport: Transport,
    tools: ToolCache,
    profile: Profile,
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
        profile: Profile::new(provider.shape(&endpoint)),
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
        let until = self.until(Instant::from_std(request.deadline));
        let mut call = Negotiation::new(request, &self.profile);
        loop {
            let answer = self.ask(&call, until).await?;
            if answer.status.is_success() {
                let reply = self.read(&answer, &request)?;
                if let Some(reply) = call.accepted(reply) {
                    self.remember(&call);
                    return Ok(reply);
                }
                continue;
            }
            let complaint = Complaint::read(&answer.body);
            let refusal = complaint.as_ref().filter(|said| is_about_the_request(answer.status, said));
            if let Some(finish) = refusal.and_then(without_words) {
                let reply = self.reply_of(refusal, finish);
                // A trial asks for a few tokens only to see whether its tools are taken. They were.
                let reply = if call.only_tries() { call.accepted(reply) } else { Some(reply) };
                if let Some(reply) = reply {
                    return Ok(reply);
                }
                continue;
            }
            if !refusal.is_some_and(|refusal| call.refused(refusal)) {
                let now = SystemTime::now();
                return Err(self.faults.status(answer.status, &answer, complaint.as_ref(), now));
            }
        }
    }
}

impl HttpModel {
    /// How many tools requests go without for now, because the provider refuses them.
    pub fn refused_tools(&self) -> usize {
        self.profile.count_refused()
    }

    /// When a call that is made now is given up.
    fn until(&self, deadline: Instant) -> Instant {
        let own = Instant::now().checked_add(self.timeout);
        own.filter(|own| *own + LAST_MOMENTS < deadline).unwrap_or(deadline)
    }

    /// One HTTP exchange.
    async fn ask(&self, call: &Negotiation<'_>, until: Instant) -> Result<Answer, ModelError> {
        let unwritable = |error: serde_json::Error| self.faults.refused(&error.to_string());
        let tools = self.tools.get(call.request.tools, self.provider).map_err(unwritable)?;
        let tools = tools.list(|name| call.offers(name)).map_err(unwritable)?;
        let mut request = call.request;
        if call.only_tries() {
            request.max_tokens = request.max_tokens.min(TRIAL_TOKENS);
        }
        let prompt =
            Prompt { model: &self.model, request: &request, tools: tools.as_deref(), shape: call.shape };
        let body = self.provider.render(prompt).map_err(unwritable)?;
        let answer = self.transport.post(request.request_id, body, until).await;
        answer.map_err(|broken| self.faults.broken(broken))
    }

    /// The reply in a successful answer, with the calls that stand in its text.
    fn read(&self, answer: &Answer, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let read = if answer.body.iter().all(u8::is_ascii_whitespace) {
            Err(Unreadable { cut_short: true, ..Unreadable::empty("it is empty") })
        } else {
            self.provider.read(&answer.body, request, self.name())
        };
        let mut reply = read.map_err(|unreadable| self.unreadable(answer, &unreadable))?;
        text_calls::take(&mut reply, request);
        Ok(reply)
    }

    /// Why a successful answer holds no reply.
    fn unreadable(&self, answer: &Answer, unreadable: &Unreadable) -> ModelError {
        let now = SystemTime::now();
        if unreadable.cut_short && answer.ends_with_the_connection() {
            return self.faults.unreachable("the connection broke in the middle of the reply");
        }
        // Gateways answer 200 before they ask the provider behind them, and its error comes as the body.
        match Complaint::read(&answer.body) {
            Some(complaint) => {
                let status = complaint.implied_status().and_then(|status| StatusCode::from_u16(status).ok());
                match status {
                    Some(status) => self.faults.status(status, answer, Some(&complaint), now),
                    None => {
                        let why = format!("it is an error: {}", complaint.message);
                        self.faults.without_reply(answer, &why, now)
                    }
                }
            }
            None if unreadable.may_pass => self.faults.without_reply(answer, &unreadable.detail, now),
            None => self.faults.malformed(&unreadable.detail),
        }
    }

    /// The reply that a refusal stands for, with the provider's words if they are meant for whoever asked.
    fn reply_of(&self, refusal: Option<&Complaint>, finish: Finish) -> ModelReply {
        let words = refusal.filter(|_| finish == Finish::ContentFilter).map(|said| said.message.as_str());
        ModelReply {
            content: self.faults.quote(words.unwrap_or_default()),
            tool_calls: Vec::new(),
            usage: None,
            finish,
            model: self.name().to_owned(),
        }
    }

    /// Keeps what an accepted request has taught for the requests to come.
    fn remember(&self, call: &Negotiation<'_>) {
        let (model, request_id) = (self.name(), call.request.request_id);
        if let Some(shape) = call.lesson() {
            self.profile.learn(shape);
            warn!(model, request_id, ?shape, "requests to this model are shaped differently for a while");
        }
        let refused = call.refused_tools();
        if !refused.is_empty() {
            self.profile.refuse(&refused, call.request.tools);
            let provider_said = self.faults.quote(call.refusal());
            let tools = refused.join(", ");
            warn!(
                model,
                request_id,
                tools,
                provider_said,
                "the provider refuses tools: requests go without them for a while"
            );
        }
    }
}

/// Whether an answer refuses the form of a request: most servers use 400, those with a schema of their own 422, and
/// llama.cpp's had 500 for a schema that it could not convert.
fn is_about_the_request(status: StatusCode, complaint: &Complaint) -> bool {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => true,
        StatusCode::INTERNAL_SERVER_ERROR => {
            let text = complaint.message.to_ascii_lowercase();
            ["schema conversion failed", "failed to parse grammar"].iter().any(|words| text.contains(words))
        }
        // OpenRouter: no endpoint takes tools.
        StatusCode::NOT_FOUND => complaint.message.contains("support tool use"),
        _ => false,
    }
}

/// A refusal that is a reply: a filter stopped the conversation, or the model wrote nothing within its limit.
fn without_words(refusal: &Complaint) -> Option<Finish> {
    if refusal.is_content_filter() {
        Some(Finish::ContentFilter)
    } else if refusal.is_cut_off() {
        Some(Finish::Length)
    } else {
        None
    }
}
