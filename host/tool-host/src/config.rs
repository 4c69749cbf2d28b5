//! What a tool host is made of.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{KeyValueStore, ToolVersions};
use agent_core::secret::Secret;
use mcp_client::Launcher;
use tokio::runtime::Handle;
use tool_egress::HttpMode;
use tool_grants::{Environment, PolicyFile};

use crate::compiler::Compiler;
use crate::limits::ToolLimits;
use crate::observer::Observer;

/// What a tool host is made of.
pub struct Config {
    /// The folder whose `*.wasm` files are the tools.
    pub folder: PathBuf,
    /// Whether the folder may be missing, as the default one may: then it has no tools until somebody makes
    /// it.
    pub folder_may_be_absent: bool,
    /// Where compiled components are kept; without it every start compiles all of them.
    pub cache: Option<PathBuf>,
    /// How components are compiled.
    pub compiler: Compiler,
    /// How MCP servers are started that are child processes.
    pub launcher: Launcher,
    /// Longest an MCP server may take to list its tools, its start included.
    pub mcp_look_limit: Duration,
    /// What one call may use up.
    pub limits: ToolLimits,
    /// About how many tokens all tools together may add to every model call:
    /// [`agent_core::agent_loop::most_catalog_tokens`].
    pub catalog_tokens: u64,
    /// Whether fuel is counted. It makes guests some ten percent slower.
    pub metering: bool,
    /// Where calls that compute longer than one tick go on: a runtime that serves nothing else, so that
    /// guests which compute for seconds keep nobody waiting.
    pub guest_runtime: Handle,
    /// What components are granted.
    pub policy: PolicyFile,
    /// Looks up the environment variables that the policy names as sources of secrets.
    pub environment: Environment,
    /// Where the requests of guests on `guest_runtime` are sent from: a runtime that runs no guests, so that
    /// network I/O does not wait behind one that computes. Others are sent where their calls are made.
    pub io_runtime: Handle,
    /// Where versions of components are kept, so that all replicas serve the same; without it the folder
    /// decides.
    pub versions: Option<Arc<dyn ToolVersions>>,
    /// Whether a component that is new, reaches for more or tells models something else serves only once it
    /// is approved.
    pub needs_approval: bool,
    /// Whether they are sent at all, and who is told of them.
    pub http: HttpMode,
    /// Where components keep values; without it none can.
    pub key_value: Option<Arc<dyn KeyValueStore>>,
    /// What the key is derived from under which components are told names of users: the same on every
    /// replica, and nobody else's to know. Without it they know no users.
    pub user_names_key: Option<Secret>,
    /// Whether to note down what components want that they are not granted, for
    /// [`ToolHost::learned`](crate::ToolHost). Everything is loaded then, and nothing more is granted.
    pub learn: bool,
    /// Whether to remember, beside the compiled components, which file has which tools and what served last.
    /// For services: whoever only looks must not change what a restart finds.
    pub remembers: bool,
    /// Is told of calls and swaps.
    pub observer: Arc<dyn Observer>,
}
