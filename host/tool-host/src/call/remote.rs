//! A call of a tool that an MCP server has: the server is asked in the place of a guest.

use mcp_client::{McpAnswer, McpError, Means, Server, ToolList};

use super::admitted::Admitted;
use super::fault::Fault;
use crate::bindings::exports::agent::tool::tool::Failure;
use crate::capability::state::Caller;

/// The code of the failure of a server that was not reached, of one that answered with an error of the
/// protocol, and of the tool's own failure.
const UNAVAILABLE: &str = "unavailable";
const REFUSED: &str = "refused";
const FAILED: &str = "failed";

impl Admitted {
    /// Has the server carry out the call. What it returns is bounded and has no secret in it.
    pub(super) async fn ask_server(
        &self,
        server: &Server,
        tools: &ToolList,
        caller: &Caller,
        arguments: &str,
    ) -> Result<String, Fault> {
        let no_tool = || Fault::host("the server has no such tool".into());
        let tool = tools.get(&self.tool.name).ok_or_else(no_tool)?;
        // What a call is granted whose lines are gone has limits, and no server.
        let granted = self.granted.as_ref().filter(|granted| granted.is_of_server());
        let granted = granted.ok_or_else(|| Fault::ungranted("the policy has no lines for it"))?;
        caller.progress.begin();
        caller.progress.instantiated();
        let means =
            Means { granted, requests: caller.requests.as_deref(), progress: caller.reports.as_ref() };
        let asked = server.call(means, &tool.name, arguments).await;
        caller.progress.ended();
        let value = match asked {
            Ok(McpAnswer::Value(value)) => value,
            Ok(McpAnswer::Failure(text)) => return Err(self.refused(failure(FAILED, text))),
            Err(error) => return Err(self.not_answered(&error)),
        };
        if value.len() > self.limits.output_bytes {
            return Err(Fault::too_much(&self.limits));
        }
        Ok(self.without_secrets(value))
    }

    fn not_answered(&self, error: &McpError) -> Fault {
        match error {
            McpError::Protocol(problem) => Fault::output(self.without_secrets(problem.clone())),
            McpError::TooMuch(_) => Fault { log: error.to_string(), ..Fault::too_much(&self.limits) },
            McpError::Refused { .. } => self.refused(failure(REFUSED, error.to_string())),
            McpError::Unreachable(_) | McpError::SessionGone | McpError::Died(_) | McpError::Asks(_) => {
                self.refused(failure(UNAVAILABLE, error.to_string()))
            }
        }
    }
}

fn failure(code: &str, message: String) -> Failure {
    Failure { code: code.to_owned(), message, meta: vec![] }
}
