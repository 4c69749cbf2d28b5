//! One client's MCP server: it lists and calls the tools that its caller may use.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::ProgressSink;
use agent_core::words::Principal;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CustomRequest, CustomResult, ErrorCode,
    ErrorData, GetTaskParams, GetTaskResult, Implementation, InitializeResult, JsonObject, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, SubscriptionFilter,
    UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use run_service::direct_calls::{Called, DirectCall, DirectCalls};
use run_service::latest_progress::LatestProgress;
use run_service::streams::{MOST_STREAMS, STREAM_LIFE, StreamPermits};
use tokio::time::timeout;

use crate::listing;
use crate::progress::ProgressNotices;
use crate::request_state::RequestStates;
use crate::under_way::{CallId, CallUnderWay, CallsUnderWay};
use crate::waiting::{Abilities, ClientCalls};

/// The versions that are spoken, oldest first. The newest one has no handshake.
pub const SUPPORTED: &[ProtocolVersion] = &[
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

/// The methods that are answered here, `tasks/…` where calls can wait.
const METHODS: [&str; 9] = [
    "initialize",
    "ping",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// The code of the answer to a call that its client cancelled, as language servers have it. Clients do not
/// wait for it.
const CANCELLED: ErrorCode = ErrorCode(-32800);

/// One client's server. Clones are the same client's.
#[derive(Clone)]
pub struct McpServer {
    calls: DirectCalls,
    caller: Principal,
    /// The request or session, for the log.
    request_id: Arc<str>,
    /// Present over HTTP, where messages come one by one.
    over_http: Option<OverHttp>,
}

/// What requests of all clients share over HTTP.
#[derive(Clone)]
struct OverHttp {
    under_way: CallsUnderWay,
    session: Arc<str>,
    /// Absent where clients cannot be told of swaps.
    streams: Option<StreamPermits>,
    states: RequestStates,
}

impl McpServer {
    /// The server of a client whose messages all come the same way. `request_id` stands in the log lines of
    /// its calls.
    pub fn new(calls: DirectCalls, caller: Principal, request_id: &str) -> Self {
        Self { calls, caller, request_id: request_id.into(), over_http: None }
    }

    /// The server of one request over HTTP. The session is the client's, or empty. Without `streams` clients
    /// are told of no swaps.
    pub fn over_http(
        self,
        under_way: CallsUnderWay,
        session: &str,
        streams: Option<StreamPermits>,
        states: RequestStates,
    ) -> Self {
        let over_http = Some(OverHttp { under_way, session: session.into(), streams, states });
        Self { over_http, ..self }
    }

    fn tells_of_swaps(&self) -> bool {
        self.over_http.as_ref().is_none_or(|over_http| over_http.streams.is_some())
    }

    /// Waits until the tools are prepared, so that no client reads a part of the list.
    async fn tools_prepared(&self) -> Result<(), ErrorData> {
        let prepared = self.calls.prepared().await;
        prepared.map_err(|error| ErrorData::internal_error(format!("{error}: ask again"), None))
    }

    /// The client's calls that wait, where calls can.
    fn waiting(&self, context: &RequestContext<RoleServer>) -> Option<ClientCalls<'_>> {
        let (waiting, over_http) = (self.calls.waiting()?, self.over_http.as_ref()?);
        let (states, client) = (&over_http.states, Abilities::of(context));
        Some(ClientCalls { waiting, caller: &self.caller, states, client })
    }

    /// Makes a call or goes on with one, and tells of its progress meanwhile.
    async fn answer(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let waiting = self.waiting(context);
        if let (Some(waiting), Some(state)) = (&waiting, &request.request_state) {
            return waiting.go_on(request, state).await;
        }
        let nothing = JsonObject::new();
        let (notices, latest) = (ProgressNotices::asked_for(&context.meta), LatestProgress::default());
        let call = self.calls.call(DirectCall {
            request_id: &self.request_id,
            caller: &self.caller,
            name: &request.name,
            arguments: request.arguments.as_ref().unwrap_or(&nothing),
            progress: notices.is_some().then_some(&latest as &dyn ProgressSink),
        });
        let called = match notices {
            Some(notices) => {
                let peer = &context.peer;
                let send = |notice| async move {
                    // silent-ok: a client that is gone has its call cancelled.
                    let _ = peer.notify_progress(notice).await;
                };
                notices.follow(&latest, call, send).await
            }
            None => call.await,
        };
        match (called, waiting) {
            (Called::Answered(answer), _) => listing::answer(answer).map(CallToolResponse::from),
            (Called::Waits { job_id }, Some(waiting)) => waiting.begun(request, &job_id).await,
            // Calls that come over a pipe are refused where others wait.
            (Called::Waits { .. }, None) => Err(no_tasks()),
        }
    }

    /// Notes the call as one that can be cancelled, where a later request may do so: in its session. Without
    /// one the clients of a user cannot be told apart, and each counts its requests from 1.
    fn note(&self, request: &impl ToString) -> Option<CallUnderWay> {
        let OverHttp { under_way, session, .. } =
            self.over_http.as_ref().filter(|over_http| !over_http.session.is_empty())?;
        Some(under_way.begin(CallId {
            user_id: self.caller.user_id.clone().unwrap_or_default(),
            session: session.to_string(),
            request: request.to_string(),
        }))
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let tools = ServerCapabilities::builder().enable_tools();
        let tools = if self.over_http.is_some() && self.calls.waiting().is_some() {
            tools.enable_tasks()
        } else {
            tools
        };
        let capabilities =
            if self.tells_of_swaps() { tools.enable_tool_list_changed().build() } else { tools.build() };
        InitializeResult::new(capabilities)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_server_info(Implementation::new("agent-host", env!("CARGO_PKG_VERSION")))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(SUPPORTED)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // There is one page, so no cursor is ours.
        if request.is_some_and(|request| request.cursor.is_some()) {
            return Err(ErrorData::invalid_params("there is no page of that cursor", None));
        }
        self.tools_prepared().await?;
        Ok(listing::list(&self.calls.catalog(&self.caller)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.tools_prepared().await?;
        let under_way = self.note(&context.id);
        let cancelled = async {
            match &under_way {
                Some(call) => call.cancelled().await,
                None => std::future::pending().await,
            }
        };
        // Whichever is first, the call is dropped with this future, which interrupts the tool.
        tokio::select! {
            biased;
            answer = self.answer(&request, &context) => answer,
            // The client left, or cancelled over the same way.
            () = context.ct.cancelled() => Err(cancelled_by_client()),
            () = cancelled => Err(cancelled_by_client()),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.waiting(&context).ok_or_else(no_tasks)?.task(&request.task_id).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let waiting = self.waiting(&context).ok_or_else(no_tasks)?;
        waiting.update(&request.task_id, &request.input_responses).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.waiting(&context).ok_or_else(no_tasks)?.cancel(&request.task_id).await
    }

    /// A request that the SDK could not read as one of a method that it knows: because it does not know the
    /// method, or because `params` do not fit.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if METHODS.contains(&request.method.as_str()) {
            return Err(ErrorData::invalid_params("`params` are not what this method takes", None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.tells_of_swaps().then(|| SubscriptionFilter::builder().tools_list_changed().build())
    }

    /// Tells the client of swaps as long as it listens (2026-07-28 and later).
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let permit = match &self.over_http {
            // The request was refused: no filter is accepted.
            Some(OverHttp { streams: None, .. }) => return Ok(()),
            Some(OverHttp { streams: Some(streams), .. }) => {
                let user_id = self.caller.user_id.as_deref().unwrap_or_default();
                Some(streams.acquire(user_id).ok_or_else(too_many_streams)?)
            }
            None => None,
        };
        self.tools_prepared().await?;
        // Who listens over HTTP proves only at the beginning who they are, and no token is good for ever.
        let life = if permit.is_some() { STREAM_LIFE } else { Duration::MAX };
        let mut changes = self.calls.changes(&self.caller, None);
        let tell = async {
            while changes.next().await.is_some() {
                if context.sink().notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = context.cancelled() => {}
            _ = timeout(life, tell) => {}
        }
        Ok(())
    }

    /// Tells the client of swaps until it is gone (before 2026-07-28). Over HTTP this is not called: there
    /// the client asks for a stream.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if self.tools_prepared().await.is_err() {
            return;
        }
        let mut changes = self.calls.changes(&self.caller, None);
        while changes.next().await.is_some() {
            if context.peer.notify_tool_list_changed().await.is_err() {
                return;
            }
        }
    }
}

fn cancelled_by_client() -> ErrorData {
    ErrorData::new(CANCELLED, "the call was cancelled", None)
}

fn no_tasks() -> ErrorData {
    ErrorData::invalid_params("nothing can wait here, so there are no tasks", None)
}

fn too_many_streams() -> ErrorData {
    ErrorData::internal_error(format!("you have {MOST_STREAMS} streams already"), None)
}
