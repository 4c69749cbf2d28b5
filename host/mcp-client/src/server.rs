//! One server: the connections that wait to be used again, looks at its tools, and calls.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tool_egress::CallKey;
use tool_grants::Granted;
use tool_policy::Want;
use tool_policy::model::{McpEndpoint, McpTransport};

use serde_json::{Value, json};

use crate::answer::McpAnswer;
use crate::connection::{CALL, Connection, Means};
use crate::error::{LookError, McpError};
use crate::hosting::Hosting;
use crate::tool_list;

/// How often its tools are looked at though it says nothing. A child process is started for it.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_AT_CHILD_EVERY: Duration = Duration::from_secs(600);

/// The shortest time between two looks, however often it says that its tools changed.
const LOOK_PAUSE: Duration = Duration::from_secs(10);

/// Most pages of a list, and most tools on them.
const MOST_PAGES: u32 = 10;
const MOST_LISTED: usize = 1_000;

/// Connections that wait to be used again, and for how long.
const MOST_IDLE: usize = 4;
const IDLE_FOR: Duration = Duration::from_secs(30);

/// Processes of one server, unless its entry says otherwise.
const CHILDREN: u32 = 4;

pub struct Server {
    name: String,
    endpoint: McpEndpoint,
    /// Whether it is no command, or the one that the policy had at the start.
    may_start: bool,
    hosting: Hosting,
    /// Held for a few instructions, like `looks`.
    idle: Mutex<Waiting>,
    looks: Mutex<Looks>,
    has_answered: AtomicBool,
}

/// The connections that wait to be used again.
#[derive(Default)]
struct Waiting {
    connections: Vec<Idle>,
    /// Whether another server has taken the place of this one: nothing waits any more.
    is_retired: bool,
}

/// A connection that waits to be used again, by calls under the same grant.
struct Idle {
    connection: Connection,
    granted: Arc<Granted>,
    since: Instant,
}

/// When its tools were looked at.
#[derive(Debug, Default)]
struct Looks {
    /// Another one for every look that is due.
    round: u64,
    last: Option<Instant>,
    /// Whether something was noticed that asks for a look.
    is_asked_for: bool,
    /// The policy under which the last round began.
    policy: String,
    /// The names that the policy allows and that its last list did not have.
    lacked: BTreeSet<String>,
}

impl Server {
    pub(crate) fn new(name: &str, endpoint: McpEndpoint, may_start: bool, hosting: Hosting) -> Self {
        Self {
            name: name.to_owned(),
            endpoint,
            may_start,
            hosting,
            idle: Mutex::default(),
            looks: Mutex::default(),
            has_answered: AtomicBool::new(false),
        }
    }

    /// What the policy has to grant it beside itself.
    pub fn wants(&self) -> Vec<Want> {
        match self.endpoint.transport {
            McpTransport::Http { .. } => vec![Want::Http],
            McpTransport::Command { .. } => vec![],
        }
    }

    /// Calls at the same time unless its entry says otherwise; absent: as many as a component may have. Each
    /// of a child process has one of its own.
    pub fn most_calls(&self) -> Option<u32> {
        match self.endpoint.transport {
            McpTransport::Http { .. } => None,
            McpTransport::Command { .. } => Some(CHILDREN),
        }
    }

    pub(crate) fn endpoint(&self) -> &McpEndpoint {
        &self.endpoint
    }

    /// Whether it has listed its tools since the service started.
    pub fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// The number of the look that is due under a policy: another one than before means that it is to be
    /// looked at again.
    pub(crate) fn round(&self, policy: &str) -> u64 {
        let every = match self.endpoint.transport {
            McpTransport::Http { .. } => LOOK_EVERY,
            McpTransport::Command { .. } => LOOK_AT_CHILD_EVERY,
        };
        let mut looks = self.looks.lock();
        let is_due = looks.last.is_some_and(|last| {
            let since = last.elapsed();
            // Another policy may allow other tools.
            since >= every || (looks.is_asked_for && since >= LOOK_PAUSE) || looks.policy != policy
        });
        if is_due {
            looks.round += 1;
            looks.last = Some(Instant::now());
        }
        policy.clone_into(&mut looks.policy);
        looks.round
    }

    /// Closes the connections that nobody has used for a while.
    pub(crate) fn close_idle(&self) {
        let closed: Vec<_> = {
            let mut idle = self.idle.lock();
            let (stay, go): (Vec<_>, Vec<_>) =
                idle.connections.drain(..).partition(|idle| idle.since.elapsed() < IDLE_FOR);
            idle.connections = stay;
            go
        };
        drop(closed);
    }

    /// Closes the connections that wait, and from now on each that a call under way gives back: nobody looks
    /// after them once the policy has another server of the name, or none.
    pub(crate) fn retire(&self) {
        let closed = {
            let mut idle = self.idle.lock();
            idle.is_retired = true;
            std::mem::take(&mut idle.connections)
        };
        drop(closed);
    }

    /// Looks at its tools: the canonical text of those that the policy allows. Ends within the limit for
    /// that.
    pub async fn look(&self) -> Result<Vec<u8>, LookError> {
        {
            let mut looks = self.looks.lock();
            (looks.last, looks.is_asked_for) = (Some(Instant::now()), false);
        }
        let (kind, detail) = match tokio::time::timeout(self.hosting.look_limit, self.list()).await {
            Ok(Ok((tools, allow))) => {
                self.has_answered.store(true, Ordering::Relaxed);
                return tool_list::write(&tools, &allow).map_err(LookError::Tools);
            }
            Ok(Err(error)) => (error.kind(), error.to_string()),
            Err(_elapsed) => (
                "does not answer",
                format!("no list of tools within {} s", self.hosting.look_limit.as_secs_f64()),
            ),
        };
        // Whoever asked for this look asks again by itself.
        self.looks.lock().is_asked_for = false;
        let todo = self.todo();
        tracing::warn!(server = self.name, problem = detail, todo, "an MCP server did not list its tools");
        Err(LookError::Unavailable(kind))
    }

    /// What may mend it, as far as its entry says so.
    fn todo(&self) -> Option<&'static str> {
        let McpTransport::Command { environment, .. } = &self.endpoint.transport else { return None };
        (!environment.contains_key("PATH")).then_some(
            "it has no PATH, without which npx, uvx and other programs that start programs find none: give its [[mcp]] \
             env = { PATH = \"/usr/local/bin:/usr/bin:/bin\", HOME = \"…\" }",
        )
    }

    /// Warns of names that the policy allows and the server does not have, once for each set of them.
    fn say_what_it_lacks(&self, listed: &BTreeSet<String>, allow: &BTreeSet<String>) {
        let lacked: BTreeSet<_> = allow.difference(listed).cloned().collect();
        let before = std::mem::replace(&mut self.looks.lock().lacked, lacked.clone());
        if lacked.is_empty() || lacked == before {
            return;
        }
        let tools = lacked.into_iter().collect::<Vec<_>>().join(", ");
        tracing::warn!(
            server = self.name,
            tools,
            "an MCP server has no tools of these names, which its lines in the policy allow: mend allow"
        );
    }

    /// The tools that the policy allows, each as JSON: their values are not kept while the next page is
    /// waited for.
    async fn list(&self) -> Result<(Vec<String>, BTreeSet<String>), McpError> {
        let gone = || McpError::Unreachable("it is no longer in the policy".into());
        let entry = self.hosting.grants.current().mcp(&self.name).cloned().ok_or_else(gone)?;
        let allow = entry.mcp.as_ref().map(|rule| rule.allow.clone()).ok_or_else(gone)?;
        if entry.mcp_endpoint().as_ref() != Some(&self.endpoint) {
            return Err(other_endpoint());
        }
        let granted = self.hosting.grants.of_server(entry).await.map_err(McpError::Unreachable)?;
        let key = CallKey { run_id: "", call_id: "mcp" };
        let requests = self.hosting.grants.begin(key, &granted, Instant::now() + self.hosting.look_limit);
        let means = Means { granted: &granted, requests: requests.as_ref(), progress: None };
        let (mut tools, mut names, mut listed, mut params) = (vec![], BTreeSet::new(), 0, json!({}));
        for _ in 0..MOST_PAGES {
            let mut page = self.ask(means, "tools/list", &params).await?;
            let Some(Value::Array(found)) = page.get_mut("tools").map(Value::take) else {
                return Err(McpError::protocol("its list of tools is none"));
            };
            listed += found.len();
            if listed > MOST_LISTED {
                return Err(McpError::TooMuch(format!("more than {MOST_LISTED} tools")));
            }
            let name = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
            let is_allowed = |tool: &&Value| name(tool).is_some_and(|name| allow.contains(&name));
            names.extend(found.iter().filter_map(name));
            tools.extend(found.iter().filter(is_allowed).map(Value::to_string));
            // To the SDKs' clients, too, an empty one is that of no page.
            match page.get("nextCursor").and_then(Value::as_str).filter(|cursor| !cursor.is_empty()) {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => {
                    self.say_what_it_lacks(&names, &allow);
                    return Ok((tools, allow));
                }
            }
        }
        Err(McpError::TooMuch(format!("more than {MOST_PAGES} pages of tools")))
    }

    /// Calls a tool by its own name. Dropping the future closes the
    /// connection, and kills a child process.
    pub async fn call(&self, means: Means<'_>, tool: &str, arguments: &str) -> Result<McpAnswer, McpError> {
        let granted = means.granted;
        if granted.mcp_endpoint().as_ref() != Some(&self.endpoint) {
            return Err(other_endpoint());
        }
        if !granted.allows_tool(tool) {
            return Err(McpError::Unreachable("the policy allows this tool no longer".into()));
        }
        // The arguments have been checked against the schema; they were JSON before they were text.
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        let params = json!({ "name": tool, "arguments": arguments });
        McpAnswer::read(&self.ask(means, CALL, &params).await?)
    }

    /// Makes a request on a connection that waits, or on a new one.
    async fn ask(&self, means: Means<'_>, method: &str, params: &Value) -> Result<Value, McpError> {
        if let Some(connection) = self.take(means.granted) {
            match self.ask_on(connection, means, method, params).await {
                // The server has forgotten it and has done nothing.
                Err(McpError::SessionGone) => {}
                ended => return ended,
            }
        }
        if !self.may_start {
            let text = "its command is not the one that the policy had at the start, or has other variables or another \
                        bound of memory, and commands are read at start only: restart the service";
            return Err(McpError::Unreachable(text.into()));
        }
        let opened = Connection::open(&self.name, &self.endpoint.transport, &self.hosting, means).await;
        let connection = opened.inspect_err(|_| self.ask_for_look())?;
        self.ask_on(connection, means, method, params).await
    }

    async fn ask_on(
        &self,
        mut connection: Connection,
        means: Means<'_>,
        method: &str,
        params: &Value,
    ) -> Result<Value, McpError> {
        let answer = connection.request(means, method, params).await;
        if std::mem::take(&mut connection.tools_changed) {
            self.ask_for_look();
        }
        match &answer {
            Ok(_) | Err(McpError::Refused { .. }) => self.put_back(connection, means.granted),
            // Whoever is reached next may have other tools.
            Err(_) => self.ask_for_look(),
        }
        answer
    }

    fn ask_for_look(&self) {
        self.looks.lock().is_asked_for = true;
    }

    fn take(&self, granted: &Arc<Granted>) -> Option<Connection> {
        loop {
            let found = {
                let mut idle = self.idle.lock();
                let at = idle.connections.iter().rposition(|idle| Arc::ptr_eq(&idle.granted, granted))?;
                idle.connections.remove(at).connection
            };
            if found.is_alive() {
                return Some(found);
            }
        }
    }

    fn put_back(&self, connection: Connection, granted: &Arc<Granted>) {
        let idle = Idle { connection, granted: granted.clone(), since: Instant::now() };
        let mut waiting = self.idle.lock();
        waiting.connections.push(idle);
        let is_over = waiting.is_retired || waiting.connections.len() > MOST_IDLE;
        // Of a retired server it is the only one.
        let closed = is_over.then(|| waiting.connections.remove(0));
        drop(waiting);
        drop(closed);
    }
}

fn other_endpoint() -> McpError {
    McpError::Unreachable("its entry in the policy is another one now".into())
}
