//! A model of one provider over HTTP: one request, one reply, no retries.
//!
//! A call is a loop: render the request, exchange it, and read the reply, or let [`Negotiation`] find a form
//! of the request that the provider accepts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use agent_core::ports::{Deltas, Model, ModelError, ModelRequest, ToolChoice};
use agent_core::secret::Secret;
use agent_core::words::{Finish, ModelReply};
use boxed_async::boxed_async;
use http::StatusCode;
use tokio::time::Instant;
use tracing::warn;

use crate::connect_error::ConnectError;
use crate::http::fault::Faults;
use crate::http::provider_error::ProviderError;
use crate::http::transport::{HttpResponse, StreamReader, Transport};
use crate::negotiation::profile_cache::ProfileCache;
use crate::negotiation::{Negotiation, PROBE_TOKENS};
use crate::protocol::streamed_reply::StreamedReply;
use crate::protocol::{Prompt, Protocol, UnreadableReply, output_format, text_tool_calls};
use crate::rendered_tools::RenderedToolsCache;
use crate::settings::ProviderSettings;

/// A call whose own time limit ends less than this before the run's deadline is given the deadline instead,
/// so that the error says that the run is out of time, not that the model was slow.
const DEADLINE_MARGIN: Duration = Duration::from_secs(1);

/// How often one call is made again because its provider could make no call of what the model wrote.
const MOST_FAILED_CALLS: u8 = 2;

/// A model of one provider. Holds a pool of connections, so make one and share it.
pub struct HttpModel {
    protocol: &'static dyn Protocol,
    model: String,
    timeout: Duration,
    transport: Transport,
    tools: RenderedToolsCache,
    profiles: ProfileCache,
    faults: Faults,
}

/// Sets a client up. Nothing is sent before the first call.
pub fn connect(settings: ProviderSettings) -> Result<HttpModel, ConnectError> {
    let ProviderSettings { provider, model, api_key, base_url, timeout } = settings;
    if model.trim().is_empty() {
        return Err(ConnectError::Model);
    }
    let key = Secret::new(api_key.expose().trim());
    let endpoint = provider.endpoint(base_url.as_ref())?;
    let protocol = provider.protocol();
    Ok(HttpModel {
        profiles: ProfileCache::new(protocol.initial_profile(&endpoint)),
        transport: Transport::new(endpoint, protocol.headers(&key)?)?,
        tools: RenderedToolsCache::default(),
        faults: Faults { model: format!("{provider}/{model}"), key },
        protocol,
        model,
        timeout,
    })
}

#[boxed_async]
impl Model for HttpModel {
    fn name(&self) -> &str {
        &self.faults.model
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let Some(deltas) = request.deltas else { return self.negotiate(request, None).await };
        let told = ToldDeltas { deltas, has_told: AtomicBool::new(false) };
        let replied = self.negotiate(request, Some(&told)).await;
        if replied.is_err() {
            told.take_back();
        }
        replied
    }
}

/// Where the text of a reply goes, and whether any did.
struct ToldDeltas<'a> {
    deltas: &'a dyn Deltas,
    has_told: AtomicBool,
}

impl ToldDeltas<'_> {
    /// What was told of the reply does not count.
    fn take_back(&self) {
        if self.has_told.swap(false, Ordering::Relaxed) {
            self.deltas.reset();
        }
    }
}

/// A reply that is read as it comes.
struct ReadReply<'a> {
    reply: StreamedReply,
    told: &'a ToldDeltas<'a>,
}

impl StreamReader for ReadReply<'_> {
    fn read(&mut self, bytes: &[u8]) -> bool {
        let text = self.reply.push(bytes);
        if !text.is_empty() {
            self.told.has_told.store(true, Ordering::Relaxed);
            self.told.deltas.text(&text);
        }
        !self.reply.is_over()
    }

    fn is_whole(&self) -> bool {
        self.reply.is_whole()
    }
}

impl HttpModel {
    /// Sends the request in one form after another until the provider accepts it. The reply is streamed if
    /// anybody reads along, unless the server does not know that.
    async fn negotiate(
        &self,
        request: ModelRequest<'_>,
        told: Option<&ToldDeltas<'_>>,
    ) -> Result<ModelReply, ModelError> {
        let deadline = self.deadline(Instant::from_std(request.deadline));
        let mut call = Negotiation::new(request, &self.profiles);
        let mut told = told.filter(|_| call.profile.stream);
        let mut failed_calls = 0;
        loop {
            let response = self.exchange(&call, deadline, told).await?;
            let is_probe = call.is_probe();
            let read = response.status.is_success().then(|| self.read(&response, &request, is_probe));
            if let Some(Ok(reply)) = read {
                if let Some(reply) = call.accepted(reply) {
                    self.refuse_functions(&call)?;
                    self.keep_learnt(&call);
                    return Ok(reply);
                }
                continue;
            }
            let error = ProviderError::parse(&response.body);
            let refusal = error.as_ref().filter(|error| is_about_the_request(response.status, error));
            let reply = refusal.and_then(|refusal| self.reply_of_error(refusal, &request, is_probe));
            if let Some(reply) = reply {
                // To a probe this is an acceptance: the model was run, so its tools were taken.
                let reply = if is_probe { call.accepted(reply) } else { Some(reply) };
                if let Some(reply) = reply {
                    self.refuse_functions(&call)?;
                    return Ok(reply);
                }
                continue;
            }
            if failed_calls < MOST_FAILED_CALLS && error.as_ref().is_some_and(ProviderError::is_failed_call) {
                failed_calls += 1;
                if let Some(told) = told {
                    told.take_back();
                }
                continue;
            }
            if let Some(Err(error)) = read {
                return Err(error);
            }
            if told.is_some() && refusal.is_some_and(|refusal| call.refused_stream(refusal)) {
                told = None;
                continue;
            }
            if !refusal.is_some_and(|refusal| call.refused(refusal)) {
                let now = SystemTime::now();
                return Err(self.faults.status(response.status, &response, error.as_ref(), now));
            }
        }
    }

    /// How many tools requests are sent without at the moment, because the provider refuses them.
    pub fn refused_tools(&self) -> usize {
        self.profiles.count_refused()
    }

    /// When a call that begins now times out.
    fn deadline(&self, of_the_run: Instant) -> Instant {
        let own = Instant::now().checked_add(self.timeout);
        own.filter(|own| *own + DEADLINE_MARGIN < of_the_run).unwrap_or(of_the_run)
    }

    /// One HTTP exchange.
    async fn exchange(
        &self,
        call: &Negotiation<'_>,
        deadline: Instant,
        told: Option<&ToldDeltas<'_>>,
    ) -> Result<HttpResponse, ModelError> {
        let unwritable = |error: serde_json::Error| self.faults.refused(&error.to_string());
        let rendered = self.tools.get(call.request.tools, self.protocol).map_err(unwritable)?;
        let tools = rendered.list(|name| call.offers(name), call.profile.prompt_cache).map_err(unwritable)?;
        let mut request = call.request;
        if let ToolChoice::Tool(name) = request.tool_choice
            && (rendered.get(name).is_none() || !call.offers(name))
        {
            // Providers refuse a choice of what they are not shown, which would end the search for the tool
            // that they refuse, and each later call without it.
            request.tool_choice = ToolChoice::Auto;
        }
        if call.is_probe() {
            request.max_tokens = request.max_tokens.min(PROBE_TOKENS);
        }
        // Nobody is to read the reply to a probe, nor words behind an end that a provider may not know.
        let told = told.filter(|_| !call.is_probe() && request.rules.stop.is_empty());
        let prompt = Prompt {
            model: &self.model,
            request: &request,
            tools: tools.as_deref(),
            profile: call.profile,
            stream: told.is_some(),
        };
        let body = self.protocol.render_request(prompt).map_err(unwritable)?;
        let mut reading =
            told.map(|told| ReadReply { reply: StreamedReply::new(self.protocol.assembler()), told });
        let reader = reading.as_mut().map(|reading| reading as &mut dyn StreamReader);
        let response = self.transport.post(request.request_id, body, deadline, reader).await;
        let mut response = response.map_err(|error| self.faults.exchange(error))?;
        if let Some(reading) = reading.filter(|_| response.is_streamed) {
            let body = reading.reply.into_body();
            response.body = body.map_err(|unreadable| self.unreadable(&response, &unreadable))?;
        }
        Ok(response)
    }

    /// The reply in a successful response, with the calls that the model wrote into its text.
    fn read(
        &self,
        response: &HttpResponse,
        request: &ModelRequest<'_>,
        is_probe: bool,
    ) -> Result<ModelReply, ModelError> {
        let read = if response.body.iter().all(u8::is_ascii_whitespace) {
            Err(UnreadableReply { truncated: true, ..UnreadableReply::empty("it is empty") })
        } else {
            self.protocol.read_reply(&response.body, request, self.name())
        };
        let mut reply = match read {
            Ok(reply) => reply,
            Err(unreadable) => {
                let error = ProviderError::parse(&response.body);
                let reply = error.and_then(|error| self.reply_of_error(&error, request, is_probe));
                return reply.ok_or_else(|| self.unreadable(response, &unreadable));
            }
        };
        text_tool_calls::extract_calls(&mut reply, request);
        keep_to_rules(&mut reply, request);
        Ok(reply)
    }

    /// The error for a successful response without a reply.
    fn unreadable(&self, response: &HttpResponse, unreadable: &UnreadableReply) -> ModelError {
        let now = SystemTime::now();
        if unreadable.truncated && response.ends_with_the_connection() {
            return self.faults.unreachable("the connection broke in the middle of the reply");
        }
        // Gateways send the status 200 before they ask the provider behind them, whose error is then the
        // body.
        match ProviderError::parse(&response.body) {
            Some(error) => {
                let status = error.implied_status().and_then(|status| StatusCode::from_u16(status).ok());
                match status {
                    Some(status) => self.faults.status(status, response, Some(&error), now),
                    None => {
                        let why = format!("it is an error: {}", error.message);
                        self.faults.without_reply(response, &why, now)
                    }
                }
            }
            None if unreadable.retryable => self.faults.without_reply(response, &unreadable.detail, now),
            None => self.faults.malformed(&unreadable.detail),
        }
    }

    /// The reply that an error stands for, be it a refusal or the end of a stream that had begun: a filter
    /// stopped the conversation, the model wrote nothing within its limit, or it wrote what its provider
    /// could not read. Calls in that are made; one that was not allowed is a reply without words, and so is
    /// one that the few tokens of a probe have cut off.
    fn reply_of_error(
        &self,
        error: &ProviderError,
        request: &ModelRequest<'_>,
        is_probe: bool,
    ) -> Option<ModelReply> {
        let is_call = error.is_failed_call();
        let needs_call = is_call && !is_probe && request.tool_choice != ToolChoice::None;
        let (content, finish) = if error.is_content_filter() {
            (self.faults.quote(&error.message), Finish::ContentFilter)
        } else if error.is_cut_off() {
            (String::new(), Finish::Length)
        } else if is_call && !needs_call {
            (String::new(), Finish::Done)
        } else {
            (error.failed_generation.clone()?, Finish::Done)
        };
        let model = self.name().to_owned();
        let mut reply = ModelReply { content, tool_calls: Vec::new(), usage: None, finish, model };
        if finish == Finish::Done {
            text_tool_calls::extract_calls(&mut reply, request);
            keep_to_rules(&mut reply, request);
        }
        let has_call = !reply.tool_calls.is_empty();
        (has_call || !needs_call).then_some(reply)
    }

    /// The error for a request that was accepted without functions of its caller. Nothing is learnt of tools
    /// then: so many functions may be refused that the search gave all tools up.
    fn refuse_functions(&self, call: &Negotiation<'_>) -> Result<(), ModelError> {
        let functions = call.refused_functions();
        if functions.is_empty() {
            return Ok(());
        }
        Err(self.faults.refused_functions(&functions, call.refusal()))
    }

    /// Caches what an accepted request has taught for later ones.
    fn keep_learnt(&self, call: &Negotiation<'_>) {
        let (model, request_id) = (self.name(), call.request.request_id);
        if let Some(profile) = call.learnt_profile() {
            self.profiles.learn(profile);
            warn!(
                model,
                request_id,
                ?profile,
                "the model refuses a parameter: requests are changed for a while"
            );
        }
        let refused = call.refused_tools();
        if !refused.is_empty() {
            self.profiles.refuse(&refused, call.request.tools);
            let provider_said = self.faults.quote(call.refusal());
            let tools = refused.join(", ");
            warn!(
                model,
                request_id,
                tools,
                provider_said,
                "the provider refuses tools: requests are sent without them for a while"
            );
        }
    }
}

impl std::fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpModel")
            .field("model", &self.faults.model)
            .field("timeout", &self.timeout)
            .field("profiles", &self.profiles)
            .finish_non_exhaustive()
    }
}

/// Carries out what a provider may have been unable to: a reply ends where its caller said, makes one call
/// where no more are allowed, and is JSON without a fence where it is to be JSON.
fn keep_to_rules(reply: &mut ModelReply, request: &ModelRequest<'_>) {
    let rules = request.rules;
    if rules.one_call {
        reply.tool_calls.truncate(1);
    }
    if rules.output.is_some() {
        output_format::unfence(&mut reply.content);
    }
    let ends = rules.stop.iter().filter(|stop| !stop.is_empty());
    if let Some(end) = ends.filter_map(|stop| reply.content.find(stop.as_str())).min() {
        reply.content.truncate(end);
    }
}

/// Whether an error refuses the form of a request: most servers use 400, those with a schema of their own
/// 422, and llama.cpp's had 500 for a schema that it could not convert.
fn is_about_the_request(status: StatusCode, error: &ProviderError) -> bool {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => true,
        StatusCode::INTERNAL_SERVER_ERROR => {
            let text = error.message.to_ascii_lowercase();
            ["schema conversion failed", "failed to parse grammar"].iter().any(|words| text.contains(words))
        }
        // More tokens than may be used in a minute, or than are paid for (OpenRouter).
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::TOO_MANY_REQUESTS => error.is_too_large(),
        StatusCode::PAYMENT_REQUIRED => error.message.contains("fewer max_tokens"),
        // OpenRouter: no endpoint takes tools, or the demand for a call.
        StatusCode::NOT_FOUND => {
            ["support tool use", "'tool_choice' value"].iter().any(|words| error.message.contains(words))
        }
        _ => false,
    }
}
