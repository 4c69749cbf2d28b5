//! `agent-host tools call`: one call of one tool, as a model would make it, without a model.

use parking_lot::Mutex;
use std::io::{self, Read as _, Write};
use std::sync::Arc;
use std::time::Instant;

use agent_core::ports::{ToolFault, ToolRequest, Toolbox as _};
use agent_core::words::{Principal, ToolCall, ToolOutcome, ToolReturn};
use anyhow::{Context as _, bail};
use clap::Args;
use host_setup::advice;
use host_setup::output::{json_line, plain, print};
use serde_json::{Map, Value, json};
use tool_host::{CallReport, Cost, Observer, SetReport};

use super::{Exit, host_config, load, whence};
use crate::config::{Log, ProcessEnv, Tools};
use crate::telemetry::{self, Destination};

/// What is said of a call that the policy has approved first.
const WOULD_WAIT: &str =
    "a run would have waited until somebody approves it, as `approve` in the policy has it";

/// What to call.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The tool's name, as `agent-host tools` lists it
    tool: String,
    /// Its arguments, a JSON object; - reads them from the standard input
    #[arg(default_value = "{}")]
    arguments: String,
    /// Call it as this user
    #[arg(long)]
    user: Option<String>,
    /// Of this tier
    #[arg(long)]
    tier: Option<String>,
    /// In this role
    #[arg(long)]
    role: Option<String>,
    /// Say on the standard error what ran and what it cost
    #[arg(short, long)]
    verbose: bool,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let object = read_arguments(&arguments.arguments)?;
    let config = Tools::from_vars(&ProcessEnv)?;
    let meter = Arc::new(Meter::default());
    let log = Log::from_vars(&ProcessEnv)?;
    let observer = meter.clone();
    let host = load(tool_host::Config { observer, ..host_config(&config).await? }).await?;
    // From here on, so that it has what the call logs and not what was loaded; what could not be loaded is of
    // interest.
    telemetry::install(&log, Destination::Command, None)?;
    for ToolFault { file, error } in host.faults() {
        tracing::error!(file, error, "a tool component cannot be loaded");
    }
    let tools = host.everything();
    if tools.catalog().get(&arguments.tool).is_none() {
        let names: Vec<_> = tools.catalog().tools().iter().map(|tool| tool.name.as_str()).collect();
        let known = if names.is_empty() { "none are loaded".to_owned() } else { names.join(", ") };
        let more = match host.faults().is_empty() {
            true => "",
            false => {
                "; `agent-host tools` says more of those that are refused, and which lines a policy lacks"
            }
        };
        bail!("there is no tool `{}` {}: {known}{more}", arguments.tool, whence(&config)?);
    }
    let call =
        ToolCall { id: "call_1".into(), name: arguments.tool.clone(), arguments: Value::Object(object) };
    // Twice what the host allows, so that it is the tool's own limit that ends a call, as it does in a
    // service.
    let deadline = Instant::now() + config.timeout * 2;
    let caller = Principal {
        user_id: arguments.user.clone(),
        tier: arguments.tier.clone(),
        role: arguments.role.clone(),
    };
    let request = ToolRequest::outside_of_runs("command-line", &call, deadline);
    let would_wait = tools.approval(&call, &caller).is_some();
    let returned = tools.call(ToolRequest { principal: &caller, ..request }).await;
    let outcome = returned.receipt.outcome;
    let succeeded = outcome == ToolOutcome::Ok;
    let advice = if would_wait { Some(WOULD_WAIT) } else { advice::of(outcome) };
    if json {
        print(&json_line(&as_json(&returned, advice, meter.cost())))?;
        return Ok(if succeeded { Exit::Success } else { Exit::Failure });
    }
    print(&(plain(&returned.content) + "\n"))?;
    if arguments.verbose {
        io::stderr().write_all(describe(&returned, meter.cost()).as_bytes())?;
    } else if !succeeded {
        let advice = advice.map(|advice| format!(": {advice}")).unwrap_or_default();
        writeln!(io::stderr(), "agent-host: the outcome of the call is {}{advice}", outcome.as_str())?;
    }
    Ok(if succeeded { Exit::Success } else { Exit::Failure })
}

/// The arguments as a model's would be after they were read; what is no JSON object is refused with its
/// place.
pub(super) fn read_arguments(text: &str) -> anyhow::Result<Map<String, Value>> {
    let mut read = String::new();
    let text = if text == "-" {
        io::stdin().read_to_string(&mut read).context("reading the arguments from the standard input")?;
        &read
    } else {
        text
    };
    serde_json::from_str(text)
        .context("the arguments are no JSON object: write them in quotes, such as '{\"name\": \"Ada\"}'")
}

/// What ran and what it cost, a line each.
fn describe(returned: &ToolReturn, cost: Option<Cost>) -> String {
    let receipt = &returned.receipt;
    let mut lines = vec![
        ("outcome", receipt.outcome.as_str().to_owned()),
        ("component", receipt.component.as_deref().unwrap_or("none").to_owned()),
        ("duration", format!("{:.3} ms", receipt.duration_ms)),
    ];
    if let Some(cost) = cost {
        let (instantiate, run) = (cost.instantiate.as_secs_f64() * 1e3, cost.run.as_secs_f64() * 1e3);
        lines.push(("instance", format!("{instantiate:.3} ms to make, {run:.3} ms to run")));
        lines.push(("memory", format!("{:.2} MiB at most", cost.peak_memory_bytes as f64 / 1024.0 / 1024.0)));
        lines.extend(cost.fuel.map(|fuel| ("fuel", fuel.to_string())));
    }
    lines.into_iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}

/// What a model would read, what ran and what it cost, for programs.
fn as_json(returned: &ToolReturn, advice: Option<&str>, cost: Option<Cost>) -> Value {
    let receipt = &returned.receipt;
    let cost = cost.map(|cost| {
        json!({
            "instantiateMs": cost.instantiate.as_secs_f64() * 1e3, "runMs": cost.run.as_secs_f64() * 1e3,
            "peakMemoryBytes": cost.peak_memory_bytes, "fuel": cost.fuel,
        })
    });
    json!({
        "content": returned.content, "outcome": receipt.outcome.as_str(), "advice": advice,
        "component": receipt.component, "durationMs": receipt.duration_ms, "cost": cost,
    })
}

/// Keeps what the last call cost.
#[derive(Default)]
struct Meter(Mutex<Option<Cost>>);

impl Meter {
    fn cost(&self) -> Option<Cost> {
        *self.0.lock()
    }
}

impl Observer for Meter {
    fn call_ended(&self, call: &CallReport<'_>) {
        *self.0.lock() = Some(call.cost);
    }

    fn set_changed(&self, _change: &SetReport<'_>) {}

    fn version_withdrawn(&self, _component: &str) {}

    fn secrets_met(&self, _component: &str, _times: u64) {}
}
