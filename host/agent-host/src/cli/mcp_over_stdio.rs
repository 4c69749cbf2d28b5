//! `agent-host mcp`: the tools as an MCP server over the standard input and output.

use std::io::{self, IsTerminal as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use agent_core::ports::Toolbox as _;
use agent_core::words::Principal;
use anyhow::Context as _;
use clap::Args;
use mcp_server::McpServer;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::stdio_pipes;
use run_service::direct_calls::DirectCalls;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tool_host::ToolHost;

use super::{Exit, tools};
use crate::config::{Log, ProcessEnv, Tools};
use crate::telemetry::{self, Destination};

/// How long a client waits at most for its first answer while components compile: less than clients wait for
/// it. The list of tools waits for the rest of them. A client that ends its input early is answered all the
/// same if they are there by then.
const PREPARE_LIMIT: Duration = Duration::from_secs(20);

/// Longest message, in bytes: the largest request body that a service may be set to take is a fraction of it.
const MESSAGE_BYTES: usize = 4 << 20;

/// On whose behalf tools are called.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Offer what this user may use, and call it as them
    #[arg(long)]
    user: Option<String>,
    /// Of this tier
    #[arg(long)]
    tier: Option<String>,
    /// In this role
    #[arg(long)]
    role: Option<String>,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    telemetry::install(&Log::from_vars(&ProcessEnv)?, Destination::Command, None)?;
    if io::stdin().is_terminal() {
        tracing::warn!("an MCP client starts this and speaks JSON-RPC with it: end it with Ctrl-D");
    }
    let config = Tools::from_vars(&ProcessEnv)?;
    let host = Arc::new(tools::start_folder(&config).await?);
    let Arguments { user, tier, role } = arguments;
    let caller = Principal { user_id: user, tier, role };
    // A tool's own limit ends a call; twice that is for those that wait for others.
    let ended = CancellationToken::new();
    let calls = DirectCalls::new(host.clone(), config.timeout * 2).until(ended.clone());
    tokio::select! {
        () = host.watch() => Ok(Exit::Success),
        served = serve(&host, McpServer::new(calls, caller, "mcp"), ended) => served,
    }
}

/// Serves the one client until its input ends, of which `ended` tells those that wait for swaps. Calls under
/// way have some seconds more.
async fn serve(host: &ToolHost, server: McpServer, ended: CancellationToken) -> anyhow::Result<Exit> {
    // silent-ok: what is not prepared by then is waited for by who asks for the list.
    let _ = timeout(PREPARE_LIMIT, host.prepared()).await;
    let (input, output) = stdio_pipes();
    let input = Input { inner: input, ended };
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(MESSAGE_BYTES);
    let session = match server.serve(transport).await {
        Ok(session) => session,
        // The client said nothing.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(Exit::Success),
        Err(error) => return Err(error).context("the client did not begin as the protocol has it"),
    };
    session.waiting().await.context("the client was not served to the end")?;
    Ok(Exit::Success)
}

/// An input that says when it has ended.
struct Input<R> {
    inner: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = (buffer.filled().len(), buffer.remaining());
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buffer));
        if read.is_err() || (before.1 > 0 && buffer.filled().len() == before.0) {
            self.ended.cancel();
        }
        Poll::Ready(read)
    }
}
