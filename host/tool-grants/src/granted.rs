//! What one component may do in one call, made of the policy's lines and of the values of its secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_core::secret::Secret;
use http::HeaderName;
use tool_egress::{Admission, Authorize};
use tool_policy::Want;
use tool_policy::effective::ResolvedLimits;
use tool_policy::model::{KeyValueRule, McpEndpoint, Placement, Scope};
use tool_policy::{ComponentPolicy, EffectivePolicy, RequestLine, SecretRule, Target};

use crate::learning::Learning;

/// What one component may do in one call.
#[derive(Debug)]
pub struct Granted {
    pub(crate) policy: EffectivePolicy,
    pub(crate) limits: ResolvedLimits,
    /// By name, to notice that one was replaced.
    pub(crate) secrets: BTreeMap<String, Secret>,
    pub(crate) http: Arc<tool_egress::Grant>,
    pub(crate) learning: Option<Arc<Learning>>,
}

/// The secrets of a component as the way out injects them.
pub(crate) fn credentials(
    entry: &ComponentPolicy,
    values: &BTreeMap<String, Secret>,
) -> Result<Vec<tool_egress::Secret>, String> {
    let of = |(name, rule): (&String, &SecretRule)| {
        let wrong =
            |problem: String| format!("the secret {name:?} of the component {:?}: {problem}", entry.name);
        let value = values.get(name).cloned().map(tool_egress::SecretValue::new).transpose();
        let placement = match &rule.placement {
            Placement::Header { name, prefix } => tool_egress::Placement::Header {
                name: HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(error.to_string()))?,
                prefix: prefix.clone(),
            },
            Placement::Query(name) => tool_egress::Placement::Query { name: name.clone() },
            Placement::Basic { user } => tool_egress::Placement::Basic { user: user.clone() },
            // No request has it, because none is granted beside it. It is here to be found in what comes
            // back.
            Placement::Variable(name) => tool_egress::Placement::Query { name: name.clone() },
        };
        let value = value.map_err(|error| wrong(error.to_string()))?;
        Ok(tool_egress::Secret { name: name.clone(), value, placement })
    };
    entry.secrets.iter().map(of).collect()
}

impl Granted {
    /// What bounds one of its calls.
    pub fn limits(&self) -> ResolvedLimits {
        self.limits
    }

    /// What stands under a key of the component's configuration.
    pub fn config(&self, key: &str) -> Option<&str> {
        let value = self.policy.config(key);
        if let (None, Some(learning)) = (value, &self.learning) {
            learning.note_config(&self.policy.current().name, key);
        }
        value
    }

    /// Whether it may be called although it wants this.
    pub fn allows(&self, want: Want) -> bool {
        // Where it is to be learned what it wants, what it does is refused one by one.
        self.learning.is_some() || self.policy.grants(want)
    }

    /// What it may keep; absent: nothing.
    pub fn key_value(&self) -> Option<KeyValueRule> {
        self.policy.key_value()
    }

    /// Whether its answers may be of one user's data.
    pub fn keeps_data_of_users(&self) -> bool {
        self.policy.key_value().is_some_and(|rule| rule.scope == Scope::User)
    }

    /// Whether a tool of an MCP server may be called, by the server's name for it.
    pub fn allows_tool(&self, tool: &str) -> bool {
        self.policy.allows_tool(tool)
    }

    /// Whether the entry in force is that of an MCP server.
    pub fn is_of_server(&self) -> bool {
        self.policy.current().mcp.is_some()
    }

    /// How an MCP server is reached now.
    pub fn mcp_endpoint(&self) -> Option<McpEndpoint> {
        self.policy.current().mcp_endpoint()
    }

    /// The memory of an MCP server that is a child process; absent: as much as such servers have.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.policy.current().limits.memory_bytes
    }

    /// The secrets that are environment variables of a child process, with their values.
    pub fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let rules = &self.policy.current().secrets;
        self.secrets.iter().filter_map(|(name, value)| match &rules.get(name)?.placement {
            Placement::Variable(variable) => Some((variable.clone(), value.expose().to_owned())),
            _ => None,
        })
    }

    /// Instructions that one call may use; absent: as many as it likes.
    pub fn fuel(&self) -> Option<u64> {
        self.limits.fuel
    }

    pub fn has_secret(&self, name: &str) -> bool {
        let has = self.policy.secret_names().contains(name);
        if let (false, Some(learning)) = (has, &self.learning) {
            learning.note_secret(&self.policy.current().name, name);
        }
        has
    }

    /// Finds the values of its secrets in whatever the component says.
    pub fn scanner(&self) -> &tool_egress::Scanner {
        self.http.scanner()
    }
}

/// The rules of a policy, as the way out asks them.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) policy: EffectivePolicy,
    pub(crate) learning: Option<Arc<Learning>>,
}

impl Rules {
    fn decide(&self, request: &tool_egress::RequestLine<'_>) -> Result<Admission, String> {
        let line = RequestLine {
            scheme: request.scheme.as_str(),
            authority: request.authority,
            method: request.method.as_str(),
            path_and_query: request.path_and_query,
        };
        let target = Target::parse(&line).map_err(|refusal| refusal.to_string())?;
        let allowed = self.policy.decide(&target).map_err(|mismatch| mismatch.to_string())?;
        Ok(Admission {
            private: allowed.private,
            scheme: request.scheme,
            secrets: allowed.secrets.iter().map(|(name, _)| (*name).to_owned()).collect(),
            path: Some(target.path.clone()),
        })
    }
}

impl Authorize for Rules {
    fn authorize(&self, request: &tool_egress::RequestLine<'_>) -> Result<Admission, String> {
        let decided = self.decide(request);
        if let Some(learning) = &self.learning {
            learning.note_request(&self.policy.current().name, request, decided.is_ok());
        }
        decided
    }

    fn forbidden(&self, host: &str) {
        if let Some(learning) = &self.learning {
            learning.note_private(&self.policy.current().name, host);
        }
    }
}
