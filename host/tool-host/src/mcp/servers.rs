//! The MCP servers of the policy in force.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::launch::Launcher;
use super::server::Server;
use crate::grants::Grants;
use crate::policy::model::McpTransport;

/// The servers, by name.
pub(crate) struct McpServers {
    grants: Arc<Grants>,
    launcher: Launcher,
    /// Whether any is asked at all.
    is_on: bool,
    /// How servers were reached by the policy that the service started with.
    at_start: BTreeMap<String, McpTransport>,
    /// Held for a few instructions.
    servers: Mutex<BTreeMap<String, Arc<Server>>>,
}

impl McpServers {
    /// Those of the policy in force. Commands are those that it has now, whatever it says later: whoever can change the file
    /// while the service runs cannot make it start programs.
    pub(crate) fn new(grants: Arc<Grants>, launcher: Launcher, is_on: bool) -> Self {
        let policy = grants.current();
        let transport = |name: &str| Some(policy.mcp(name)?.mcp.as_ref()?.transport.clone());
        let names = policy.entries().iter().map(|entry| entry.name.clone());
        let at_start = names.filter_map(|name| Some((name.clone(), transport(&name)?))).collect();
        Self { grants, launcher, is_on, at_start, servers: Mutex::default() }
    }

    /// The name of each server with the number of the look at it that is due. Closes connections that nobody uses.
    pub(crate) fn rounds(&self) -> Vec<(String, u64)> {
        let policy = self.grants.current();
        let names = policy.entries().iter().filter(|entry| entry.mcp.is_some()).map(|entry| &entry.name);
        let found: BTreeMap<_, _> =
            names.filter_map(|name| Some((name.clone(), self.server(name)?))).collect();
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|name, _| found.contains_key(name));
        drop(servers);
        let round = |(name, server): (String, Arc<Server>)| {
            server.close_idle();
            (name, server.round(policy.digest()))
        };
        found.into_iter().map(round).collect()
    }

    /// The server of that name, if the policy has one.
    pub(crate) fn server(&self, name: &str) -> Option<Arc<Server>> {
        let policy = self.grants.current();
        let transport = &policy.mcp(name).filter(|_| self.is_on)?.mcp.as_ref()?.transport;
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(name).filter(|server| server.transport() == transport) {
            return Some(server.clone());
        }
        let is_command = matches!(transport, McpTransport::Command { .. });
        let may_start = !is_command || self.at_start.get(name) == Some(transport);
        let (grants, launcher) = (self.grants.clone(), self.launcher.clone());
        let server = Arc::new(Server::new((name, transport.clone()), may_start, grants, launcher));
        servers.insert(name.to_owned(), server.clone());
        Some(server)
    }
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServers").finish_non_exhaustive()
    }
}
