//! The end of a session that nobody needs any more: its server is told that a call was given up, and that
//! the session is over. Without it a server goes on with the call, and keeps the session until it forgets it
//! by itself.
//!
//! A session often ends where a future is dropped, which can wait for nothing: a task says it, which ends
//! within [`WITHIN`], and with the host.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tool_egress::CallKey;
use tool_grants::ComponentGrants;
use tool_policy::model::McpTransport;

/// How long a server may take to hear it.
const WITHIN: Duration = Duration::from_secs(5);

/// Most servers that are told at once. Others are told nothing: a client that gives up call after call of a
/// server that does not answer shall not pile up tasks.
const MOST: usize = 64;

/// The tasks that tell servers, of all servers together.
#[derive(Debug, Clone, Default)]
pub struct Farewells(Arc<Mutex<JoinSet<()>>>);

/// Which server is told, and by which tasks.
pub(crate) struct Farewell {
    pub(crate) grants: Arc<ComponentGrants>,
    pub(crate) tasks: Farewells,
    pub(crate) server: String,
    pub(crate) url: String,
}

impl Farewell {
    /// Sends these requests, one after the other, if the policy still has the server.
    pub(crate) fn say(&self, requests: Vec<Request<Full<Bytes>>>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut tasks = self.tasks.0.lock();
        while tasks.try_join_next().is_some() {}
        if tasks.len() >= MOST {
            return;
        }
        // Without the tasks themselves, which would then hold each other.
        let (grants, server, url) = (self.grants.clone(), self.server.clone(), self.url.clone());
        let told = async move {
            // silent-ok: a server that does not hear it forgets the session by itself.
            let _told = tokio::time::timeout(WITHIN, tell(&grants, &server, &url, requests)).await;
        };
        tasks.spawn_on(told, &runtime);
    }
}

async fn tell(
    grants: &Arc<ComponentGrants>,
    server: &str,
    url: &str,
    requests: Vec<Request<Full<Bytes>>>,
) -> Option<()> {
    let entry = grants.current().mcp(server).cloned()?;
    let transport = entry.mcp.as_ref().map(|rule| &rule.transport);
    if !matches!(transport, Some(McpTransport::Http { url: own }) if own == url) {
        return None;
    }
    let granted = grants.of_server(entry).await.ok()?;
    let key = CallKey { run_id: "", call_id: "mcp" };
    let call = grants.begin(key, &granted, Instant::now() + WITHIN)?;
    for request in requests {
        // silent-ok: as above. The session may end though the call was not heard to be given up.
        let _told = call.send(request, call.times()).await;
    }
    Some(())
}
