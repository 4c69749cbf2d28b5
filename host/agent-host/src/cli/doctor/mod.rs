//! `agent-host doctor`: whether a service with these settings would work here, and what to do where it would not.
//!
//! Every check is made, whatever the others find, and changes nothing: no table is made, no run begun, no file written but
//! compiled components in their cache. `report` is how it is shown.

mod report;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_core::health::{Check, check_all};
use agent_core::ports::{Probe, Toolbox as _};
use clap::Args;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tool_host::NoObserver;

use super::{Exit, install_tls};
use crate::composition::{self, PROBE_LIMIT};
use crate::config::{Config, Database, HttpUrl, ProcessEnv, Tools};
use crate::telemetry::{self, Destination};
use report::{Finding, Report};

/// How long a server may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// What to check, and how to show it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print JSON: {"state": "ok", "checks": [{"check", "state", "found", "todo"}]}
    #[arg(long)]
    json: bool,
    /// Do not ask the model provider, which bills one short call
    #[arg(long)]
    without_model: bool,
}

pub(crate) async fn run(arguments: &Arguments, guest_runtime: Handle) -> anyhow::Result<Exit> {
    let report = match Config::from_vars(&ProcessEnv) {
        Ok(config) => {
            install_tls();
            telemetry::install(&config.observe.log, Destination::Command, None)?;
            examine(&config, arguments, guest_runtime).await
        }
        // Nothing else can be looked at without them.
        Err(problems) => {
            let problem =
                |problem: String| Finding::failed("settings", problem, "agent-host variables lists them all");
            Report(problems.iter().map(ToString::to_string).map(problem).collect())
        }
    };
    super::tools::print(&if arguments.json { report.as_json()? } else { report.to_string() })?;
    Ok(if report.has_failed() { Exit::Failure } else { Exit::Success })
}

async fn examine(config: &Config, arguments: &Arguments, guest_runtime: Handle) -> Report {
    let mut findings = vec![settings(config)];
    findings.extend(config.warnings.iter().map(|warning| Finding::warning("settings", warning.clone(), "")));
    let (address, dependencies, servers, tools) = futures::join!(
        address(config),
        dependencies(config, arguments),
        servers(config),
        tools(config, guest_runtime),
    );
    findings.extend(address.into_iter().chain(dependencies).chain(servers).chain(tools));
    Report(findings)
}

fn settings(config: &Config) -> Finding {
    Finding::ok("settings", format!("all are valid, for the environment {}", config.service.environment))
}

/// Whether the service could listen.
async fn address(config: &Config) -> Option<Finding> {
    // A function has no address.
    if config.service.lambda_runtime_api.is_some() {
        return None;
    }
    let (host, port) = (config.http.host.as_str(), config.http.port);
    Some(match TcpListener::bind((host, port)).await {
        Ok(_) => Finding::ok("address", format!("{host} port {port} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Finding::warning(
            "address",
            format!("somebody listens on {host} port {port} already"),
            "if that is not this service, set PORT to another one or end it",
        ),
        Err(error) => Finding::failed(
            "address",
            format!("{host} port {port} cannot be listened on: {error}"),
            "set HOST to an address of this machine, and PORT to one that this user may have (above 1023)",
        ),
    })
}

/// The stores and the model, asked at the same time.
async fn dependencies(config: &Config, arguments: &Arguments) -> Vec<Finding> {
    let found = match composition::dependencies(config).await {
        Ok(found) => found,
        Err(error) => {
            let text = format!("{:#}", anyhow::Error::from(error));
            return vec![Finding::failed("stores", text, "mend the setting that is named")];
        }
    };
    let mut findings = Vec::new();
    let mut stores = found.stores;
    if let Some(file) = sqlite_file(config).filter(|file| !file.exists()) {
        // Asking would make it.
        stores.retain(|store| store.name() != "database");
        findings.push(new_database(&file));
    }
    let model: Vec<Arc<dyn Probe>> = if arguments.without_model { vec![] } else { vec![found.model] };
    let (stores, model) =
        futures::join!(check_all(&stores, PROBE_LIMIT), check_all(&model, config.models.timeout));
    findings.extend(stores.into_iter().chain(model).map(|check| answered(check, config)));
    findings
}

/// What a dependency said.
fn answered(Check { name, outcome }: Check, config: &Config) -> Finding {
    match outcome {
        Ok(latency) if name == "llm" => {
            Finding::ok("model", format!("{} answers, in {} ms", config.models.first.id, latency.as_millis()))
        }
        Ok(latency) => Finding::ok(name, format!("answers, in {:.1} ms", latency.as_secs_f64() * 1e3)),
        Err(error) => {
            let (name, todo) = match name {
                "llm" => (
                    "model",
                    "see LLM_MODEL, LLM_API_KEY and LLM_BASE_URL, and that this machine may reach the provider; the log \
                     above says more",
                ),
                "redis" => (
                    name,
                    "see that the server of REDIS_URL runs and lets this machine in; REDIS_URL=memory:// needs none",
                ),
                "mongodb" => (name, "see that the server of MONGODB_URL runs and lets this machine in"),
                _ => (
                    name,
                    "see that the server of DATABASE_URL runs and lets this machine in, or that the file may be written",
                ),
            };
            Finding::failed(name, error.0, todo)
        }
    }
}

/// The file of an embedded database.
fn sqlite_file(config: &Config) -> Option<std::path::PathBuf> {
    let Some(Database::Sqlite(url)) = &config.stores.database else { return None };
    let path = url.expose().strip_prefix("sqlite:")?.trim_start_matches("//");
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    (!path.is_empty() && path != ":memory:").then(|| path.into())
}

fn new_database(file: &Path) -> Finding {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() {
        return Finding::ok("database", format!("{} will be made at the first start", file.display()));
    }
    let text = format!("{} cannot be made: there is no folder {}", file.display(), folder.display());
    Finding::failed("database", text, "create the folder, or name another file in DATABASE_URL")
}

/// The servers of which nothing can be asked but whether they take a connection.
async fn servers(config: &Config) -> Vec<Finding> {
    let traces = config.observe.tracing.as_ref().map(|tracing| &tracing.endpoint);
    let todo_of_traces = "see OTEL_EXPORTER_OTLP_ENDPOINT and its collector; the service serves all the same";
    let todo_of_cluster = "see AGENT_CLUSTER_URL and its server: requests of high priority go there";
    let (traces, cluster) = futures::join!(
        takes_connections("traces", traces, todo_of_traces),
        takes_connections("cluster", config.agent.cluster_url.as_ref(), todo_of_cluster),
    );
    traces.into_iter().chain(cluster).collect()
}

async fn takes_connections(
    check: &'static str,
    endpoint: Option<&HttpUrl>,
    todo: &'static str,
) -> Option<Finding> {
    let endpoint = endpoint?;
    let place = endpoint.as_url().origin().ascii_serialization();
    let why = match timeout(CONNECT_LIMIT, connect(endpoint)).await {
        Ok(Ok(_)) => return Some(Finding::ok(check, format!("{place} takes connections"))),
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => "no answer".to_owned(),
    };
    Some(Finding::warning(check, format!("{place} takes no connection: {why}"), todo))
}

async fn connect(endpoint: &HttpUrl) -> std::io::Result<TcpStream> {
    let url = endpoint.as_url();
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    TcpStream::connect((host, url.port_or_known_default().unwrap_or(443))).await
}

/// What the tools folder has.
async fn tools(config: &Config, guest_runtime: Handle) -> Vec<Finding> {
    let folder = config.tools.folder.display();
    if !config.tools.folder.is_dir() {
        let text = format!("there is no folder {folder}");
        return vec![Finding::failed("tools", text, "create it, or set TOOLS_DIR to the one that is meant")];
    }
    // Whether they can be loaded; who approved what is in the store (`agent-host tool versions`).
    let settings = Tools { needs_approval: false, ..config.tools.clone() };
    let host = async {
        let start = composition::ToolsStart {
            config: &settings,
            token_budget: config.agent.token_budget,
            guest_runtime,
            observer: Arc::new(NoObserver),
            storage: composition::ToolStorage::default(),
            egress: composition::ToolEgress::default(),
            learn: false,
            remembers: false,
        };
        let host = composition::start_observed_tools(start).await?;
        host.reload().await;
        anyhow::Ok(host)
    };
    let host = match host.await {
        Ok(host) => host,
        Err(error) => {
            return vec![Finding::failed(
                "tools",
                format!("{error:#}"),
                "mend what is named in the policy or the folder",
            )];
        }
    };
    let names: Vec<_> = host.list().into_iter().map(|tool| tool.tool).collect();
    let mut findings = vec![match names.len() {
        0 => Finding::warning(
            "tools",
            format!("{folder} has no tool that can be loaded"),
            "agent-host tool new makes one",
        ),
        count if config.tools.needs_approval => Finding::ok(
            "tools",
            format!(
                "{folder} has {count}: {}; agent-host tool versions shows which are approved",
                names.join(", ")
            ),
        ),
        count => Finding::ok("tools", format!("{folder} has {count}: {}", names.join(", "))),
    }];
    findings.extend(host.faults().into_iter().map(|fault| {
        let text = format!("{} cannot be loaded: {}", fault.file, fault.error);
        Finding::warning("tools", text, "agent-host tool inspect FILE.wasm says more")
    }));
    findings
}
