//! A connection to a server, over either transport: the handshake, then one request after another.

pub(crate) mod child;
pub(crate) mod child_limits;
pub(crate) mod child_output;
pub(crate) mod farewell;
pub(crate) mod http;

use std::sync::Arc;

use agent_core::ports::ProgressSink;
use serde_json::Value;
use tool_egress::Call;
use tool_grants::Granted;
use tool_policy::model::McpTransport;

use crate::connection::child::{ChildProcess, Start};
use crate::connection::farewell::Farewell;
use crate::connection::http::Session;
use crate::error::McpError;
use crate::hosting::Hosting;
use crate::message::{self, Exchange, VERSIONS};
use crate::progress::Reports;

/// The method of a call: nothing else is reported on.
pub(crate) const CALL: &str = "tools/call";

/// What requests are made with: the grant of whoever asks, and over HTTP its requests.
#[derive(Debug, Clone, Copy)]
pub struct Means<'a> {
    pub granted: &'a Arc<Granted>,
    pub requests: Option<&'a Call>,
    /// Where reports on the progress of a call go, if somebody watches it.
    pub progress: Option<&'a Arc<dyn ProgressSink>>,
}

/// A connection. Dropping it closes it, and kills the server if it is a child process.
pub(crate) struct Connection {
    transport: Transport,
    /// The id of the request that was made last.
    last_id: u64,
    /// Whether the server said that its tools changed.
    pub(crate) tools_changed: bool,
}

enum Transport {
    Http(Box<Session>),
    Child(Box<ChildProcess>),
}

impl Connection {
    /// Connects to a server, or starts it, and agrees on a version of the protocol.
    pub(crate) async fn open(
        name: &str,
        transport: &McpTransport,
        hosting: &Hosting,
        means: Means<'_>,
    ) -> Result<Self, McpError> {
        let transport = match transport {
            McpTransport::Http { url } => {
                let (grants, tasks) = (hosting.grants.clone(), hosting.farewells.clone());
                let farewell = Farewell { grants, tasks, server: name.to_owned(), url: url.clone() };
                Transport::Http(Box::new(Session::new(farewell)?))
            }
            McpTransport::Command { program, arguments, environment } => {
                let memory_bytes = means.granted.memory_bytes();
                let launcher = &hosting.launcher;
                let start = Start { name, launcher, program, arguments, memory_bytes };
                let plain = environment.iter().map(|(name, value)| (name.clone(), value.clone()));
                let environment = plain.chain(means.granted.variables());
                Transport::Child(Box::new(ChildProcess::start(start, environment)?))
            }
        };
        let mut this = Self { transport, last_id: 0, tools_changed: false };
        this.shake_hands(means).await?;
        Ok(this)
    }

    async fn shake_hands(&mut self, means: Means<'_>) -> Result<(), McpError> {
        let version = self.agree_on_version(means).await?;
        let initialized = message::notification("notifications/initialized");
        match &mut self.transport {
            Transport::Http(session) => {
                session.set_version(version);
                session.send(requests(means)?, initialized).await
            }
            Transport::Child(child) => child.send(means.granted.scanner(), &initialized).await,
        }
    }

    /// The version that both speak. The rest of the server's answer is dropped here: it may take much memory,
    /// and how long the next message takes is the server's choice.
    async fn agree_on_version(&mut self, means: Means<'_>) -> Result<&'static str, McpError> {
        let answer = self.request(means, "initialize", &message::initialize()).await?;
        let version = answer.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let own = VERSIONS.into_iter().find(|own| *own == version);
        own.ok_or_else(|| McpError::protocol("it speaks no version of it that this host does"))
    }

    pub(crate) async fn request(
        &mut self,
        means: Means<'_>,
        method: &str,
        params: &Value,
    ) -> Result<Value, McpError> {
        self.last_id += 1;
        let sink = means.progress.filter(|_| method == CALL);
        let reports = sink.map(|sink| Reports { sink, scanner: means.granted.scanner() });
        let message = message::request(self.last_id, method, params, reports.is_some());
        let mut exchange = Exchange::new(self.last_id, reports);
        let answer = match &mut self.transport {
            Transport::Http(session) => session.request(requests(means)?, &mut exchange, message).await,
            Transport::Child(child) => child.request(means.granted.scanner(), &mut exchange, &message).await,
        };
        self.tools_changed |= exchange.tools_changed;
        answer.map_err(|error| error.cleaned(means.granted.scanner()))
    }

    /// Whether it may be used again.
    pub(crate) fn is_alive(&self) -> bool {
        match &self.transport {
            Transport::Http(_) => true,
            Transport::Child(child) => child.is_alive(),
        }
    }
}

fn requests<'a>(means: Means<'a>) -> Result<&'a Call, McpError> {
    means.requests.ok_or_else(|| McpError::Unreachable("it is granted no requests".into()))
}
