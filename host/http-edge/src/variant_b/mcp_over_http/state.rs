//! The state of the handlers of `/mcp`.

use std::sync::Arc;

use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use crate::middleware::request_id::RequestId;
use crate::server_sent_events::HEARTBEAT;
use crate::variant_b::auth::Caller;
use crate::variant_b::state as variant_b;
use mcp_server::{CallsUnderWay, McpServer, RequestStates};

/// Shared by all of them.
pub(super) type Shared = Arc<Mcp>;

/// What they have.
pub(super) struct Mcp {
    pub(super) edge: variant_b::Shared,
    pub(super) under_way: CallsUnderWay,
    pub(super) states: RequestStates,
}

impl Mcp {
    /// The server of one request.
    pub(super) fn server(&self, caller: &Caller, request_id: &RequestId, session: &str) -> McpServer {
        let calls = self.edge.variant.tool_calls.clone();
        McpServer::new(calls, caller.principal(), &request_id.to_string()).over_http(
            self.under_way.clone(),
            session,
            // A stream without an end would never be passed on where answers are passed on whole.
            (!self.edge.settings.whole_answers).then(|| self.edge.streams.clone()),
            self.states.clone(),
        )
    }

    /// The SDK's side of one request. It keeps nothing for the next one.
    pub(super) fn service(&self, server: McpServer) -> StreamableHttpService<McpServer, NeverSessionManager> {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_sse_keep_alive(Some(HEARTBEAT))
            // The body was bounded as it came. Written anew it may be longer: `1e15` has more digits then.
            .with_max_request_body_bytes(usize::MAX)
            // Both are checked for every route (`middleware/refusals.rs`).
            .disable_allowed_hosts()
            .disable_allowed_origins();
        StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), config)
    }
}
