//! A tool host over a temporary folder that holds one component, with nothing real behind it: what
//! `agent-tool inspect`, `check` and `test` look at components with. Requests are answered by [`MockedHttp`],
//! values are kept in [`CountedValues`], questions are answered by [`Answering`], and nothing that it writes
//! outlives it but compiled components.
//!
//! One call is made at a time: what was seen during a call is that call's.

mod answering;
mod component_file;
mod counted_values;
mod log_tail;
mod mocked_http;
mod probe;

use parking_lot::Mutex;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{NestedTools, ToolRequest, Toolbox as _};
use agent_core::words::{ToolCall, ToolOutcome, ToolReturn};
use anyhow::Context as _;
use host_setup::program::install_tls;
use host_setup::settings::{ProcessEnv, Tools, token_budget};
use host_setup::tools::tool_host_config;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tool_host::{
    CallReport, Cost, HttpMode, Learned, NeededGrants, Observer, PolicyFile, SetReport, ToolHost, ToolListing,
};
use tool_kit::case_policy;
use tool_kit::cases::Case;

pub(super) use answering::Answering;
pub(super) use component_file::ComponentFile;
pub(super) use counted_values::CountedValues;
pub(super) use log_tail::LogTail;
pub(super) use mocked_http::MockedHttp;
pub(super) use probe::{Probe, Upstreams, is_bad};

/// How long a call that was dropped may hold its slot: what the host gives it to end well, and a tick of its
/// clock.
const GRACE: Duration = Duration::from_secs(2);

/// What every host of a command is started with.
pub(super) struct Setup {
    pub(super) config: Tools,
    pub(super) log: LogTail,
}

/// What the component is granted.
pub(super) enum Grants {
    /// What this policy says. What it lacks refuses the component.
    Policy(PolicyFile),
    /// What this text says. What it lacks is denied to calls and noted.
    Made(String),
}

/// One component in a host of its own.
pub(super) struct Isolated {
    pub(super) http: Arc<MockedHttp>,
    pub(super) values: Arc<CountedValues>,
    pub(super) people: Answering,
    host: ToolHost,
    meter: Arc<Meter>,
    log: LogTail,
    timeout: Duration,
    _folders: TempDir,
}

pub(super) struct Called {
    pub(super) returned: ToolReturn,
    /// Absent when no code ran.
    pub(super) cost: Option<Cost>,
    /// What was logged as a warning or an error meanwhile.
    pub(super) log: Vec<String>,
}

impl Setup {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self { config: Tools::from_vars(&ProcessEnv)?, log: LogTail::install()? })
    }
}

impl Isolated {
    /// Loads the component. That it is refused is no error: [`Self::refusal`].
    pub(super) async fn start(
        setup: &Setup,
        component: &ComponentFile,
        grants: Grants,
    ) -> anyhow::Result<Self> {
        install_tls();
        let folders = tempfile::tempdir().context("making a temporary folder")?;
        let tools = folders.path().join("tools");
        component.copy_to(&tools)?;
        let (policy, learn) = match grants {
            Grants::Policy(policy) => (policy, false),
            Grants::Made(text) => {
                let file = folders.path().join("policy.toml");
                fs::write(&file, text).context("writing the policy of the test")?;
                (PolicyFile::At(file), true)
            }
        };
        let meter = Arc::new(Meter::default());
        let (http, values) = (Arc::new(MockedHttp::default()), Arc::new(CountedValues::default()));
        let needs_approval = false;
        let config = Tools { folder: tools, policy, needs_approval, ..setup.config.clone() };
        let own = tool_host_config(&config, token_budget::from_vars(&ProcessEnv)?);
        let host = ToolHost::start(tool_host::Config {
            environment: if learn { Arc::new(case_policy::secret_value) } else { own.environment.clone() },
            observer: meter.clone(),
            key_value: Some(values.clone()),
            http: HttpMode::Answers(http.clone()),
            learn,
            ..own
        })
        .await?;
        host.reload().await;
        let (log, timeout) = (setup.log.clone(), config.timeout);
        let people = Answering::default();
        Ok(Self { http, values, people, host, meter, log, timeout, _folders: folders })
    }

    /// Why the component is not there.
    pub(super) fn refusal(&self) -> Option<String> {
        self.host.faults().into_iter().next().map(|fault| fault.error)
    }

    pub(super) fn tools(&self) -> Vec<ToolListing> {
        self.host.list()
    }

    /// What a tool wanted until now that it was not granted.
    pub(super) fn learned(&self, tool: &str) -> Option<Learned> {
        self.host.learned(tool)
    }

    /// Calls a tool, which is given this long or what the host allows.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        limit: Option<Duration>,
    ) -> Called {
        let _before = (self.log.take(), self.meter.take());
        let call = to_call(tool, arguments);
        // Twice what the host allows, so that it is the tool's own limit that ends a call, as it does in a
        // service.
        let deadline = Instant::now() + limit.unwrap_or(self.timeout * 2);
        let tools = self.host.everything();
        let may_ask = tools.catalog().get(tool).is_some_and(|spec| spec.may_ask);
        let nested = may_ask.then_some(&self.people as &dyn NestedTools);
        let request = ToolRequest::outside_of_runs("test", &call, deadline);
        // Nobody is asked what a policy has people approve: whatever the call does reaches nothing.
        let terms = tools.approval(&call, request.principal);
        let approved = terms.map(|terms| terms.approve(&call));
        let request = ToolRequest { nested, approved: approved.as_ref(), ..request };
        let returned = tools.call(request).await;
        Called { returned, cost: self.meter.take(), log: self.log.take() }
    }

    /// Calls a tool and goes away as soon as the call waits. False if it still holds its slot when all grace
    /// is over.
    pub(super) async fn cancel(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        let call = to_call(tool, arguments);
        let tools = self.host.everything();
        let request = ToolRequest::outside_of_runs("test", &call, Instant::now() + self.timeout * 2);
        let terms = tools.approval(&call, request.principal);
        let approved = terms.map(|terms| terms.approve(&call));
        let request = ToolRequest { approved: approved.as_ref(), ..request };
        let mut called = tools.call(request);
        let _whether_it_was_faster = futures::poll!(&mut called);
        tokio::task::yield_now().await;
        drop(called);
        let until = Instant::now() + GRACE;
        while self.host.calls_under_way() > 0 {
            if Instant::now() > until {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let _nobody_reads_it = (self.log.take(), self.meter.take());
        true
    }
}

impl Called {
    pub(super) fn outcome(&self) -> ToolOutcome {
        self.returned.receipt.outcome
    }

    /// The code of the tool's own failure.
    pub(super) fn code(&self) -> Option<&str> {
        self.returned.receipt.detail.as_ref()?.code.as_deref()
    }
}

fn to_call(tool: &str, arguments: &Map<String, Value>) -> ToolCall {
    ToolCall { id: "call_1".into(), name: tool.to_owned(), arguments: Value::Object(arguments.clone()) }
}

/// Keeps what the last call cost.
#[derive(Default)]
struct Meter(Mutex<Option<Cost>>);

impl Meter {
    fn take(&self) -> Option<Cost> {
        self.0.lock().take()
    }
}

impl Observer for Meter {
    fn call_ended(&self, call: &CallReport<'_>) {
        if call.cost != Cost::default() {
            *self.0.lock() = Some(call.cost);
        }
    }

    fn set_changed(&self, _change: &SetReport<'_>) {}

    fn version_withdrawn(&self, _component: &str) {}

    fn secrets_met(&self, _component: &str, _times: u64) {}
}

/// The policy that gives a component all that it wants and that its case mocks.
pub(super) fn granting(component: (&str, &str), wants: NeededGrants, case: Option<&Case>) -> String {
    let NeededGrants { http, key_value, toolbox, ask } = wants;
    case_policy::policy(component, case_policy::NeededGrants { http, key_value, toolbox, ask }, case)
}

/// The policy that a command was told, or that of the tools folder.
pub(super) fn policy_file(setup: &Setup, named: Option<&PathBuf>) -> PolicyFile {
    named.map_or_else(|| setup.config.policy.clone(), |path| PolicyFile::At(path.clone()))
}
