//! The MCP servers of the policy in force.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tool_policy::model::{McpEndpoint, McpTransport};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::hosting::Hosting;
use crate::server::Server;

pub struct McpServers {
    hosting: Hosting,
    /// Whether any is asked at all.
    is_on: bool,
    /// How servers were reached by the policy that the service started with.
    at_start: BTreeMap<String, McpEndpoint>,
    /// Held for a few instructions.
    servers: Mutex<BTreeMap<String, Arc<Server>>>,
}

impl McpServers {
    /// Servers of the policy in force. Commands are those that the policy has now, whatever it says later:
    /// someone who can change the file while the service runs cannot make it start programs, nor change what
    /// they execute through their variables.
    pub fn new(hosting: Hosting, is_on: bool) -> Self {
        let policy = hosting.grants.current();
        let endpoint = |name: &str| policy.mcp(name)?.mcp_endpoint();
        let names = policy.entries().iter().map(|entry| entry.name.clone());
        let at_start: BTreeMap<_, _> =
            names.filter_map(|name| Some((name.clone(), endpoint(&name)?))).collect();
        if is_on && at_start.values().any(is_command) {
            close_to_children();
        }
        Self { hosting, is_on, at_start, servers: Mutex::default() }
    }

    /// The name of each server with the number of the look at it that is due. Closes connections that nobody
    /// uses.
    pub fn rounds(&self) -> Vec<(String, u64)> {
        let policy = self.hosting.grants.current();
        let names = policy.entries().iter().filter(|entry| entry.mcp.is_some()).map(|entry| &entry.name);
        let found: BTreeMap<_, _> =
            names.filter_map(|name| Some((name.clone(), self.server(name)?))).collect();
        let mut servers = self.servers.lock();
        let gone: Vec<_> = servers.extract_if(.., |name, _| !found.contains_key(name)).collect();
        drop(servers);
        for (_, server) in gone {
            server.retire();
        }
        let round = |(name, server): (String, Arc<Server>)| {
            server.close_idle();
            (name, server.round(policy.digest()))
        };
        found.into_iter().map(round).collect()
    }

    /// The server of that name, if the policy has one.
    pub fn server(&self, name: &str) -> Option<Arc<Server>> {
        let policy = self.hosting.grants.current();
        let endpoint = policy.mcp(name).filter(|_| self.is_on)?.mcp_endpoint()?;
        let mut servers = self.servers.lock();
        if let Some(server) = servers.get(name).filter(|server| *server.endpoint() == endpoint) {
            return Some(server.clone());
        }
        let may_start = !is_command(&endpoint) || self.at_start.get(name) == Some(&endpoint);
        let server = Arc::new(Server::new(name, endpoint, may_start, self.hosting.clone()));
        let old = servers.insert(name.to_owned(), server.clone());
        drop(servers);
        if let Some(old) = old {
            old.retire();
        }
        Some(server)
    }
}

fn is_command(endpoint: &McpEndpoint) -> bool {
    matches!(endpoint.transport, McpTransport::Command { .. })
}

/// Keeps processes of the same user without privileges, as child processes are, from reading this one's
/// memory and what it was started with (`/proc/<pid>/environ`). It leaves no core dump from then on, and what
/// only its owner reads of `/proc/self` belongs to root. Processes that it starts are as any: they are what
/// they execute.
fn close_to_children() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "MCP servers that are child processes may read the service's environment");
    }
}
