//! `agent-host doctor`: whether a service with these settings would work here, and what to do where it would
//! not.
//!
//! Every check is made, whatever the others find, and changes nothing: no table is made, no run begun, no
//! file written but compiled components in their cache. `stores` has the checks of the stores, `approvals`
//! what waits for one; `report` is how it is shown.

mod approvals;
mod report;
mod stores;

use std::io::ErrorKind;
use std::time::Duration;

use agent_core::ports::Toolbox as _;
use clap::Args;
use host_setup::output::print;
use host_setup::program::install_tls;
use host_setup::tools::tool_host_config;
use run_service::health::{Check, check_all};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tool_host::ToolHost;

use super::Exit;
use crate::composition::{self, WireError};
use crate::config::{Config, HttpUrl, ProcessEnv, Tools};
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

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let report = match Config::from_vars(&ProcessEnv) {
        Ok(config) => {
            install_tls();
            telemetry::install(&config.observe.log, Destination::Command, None)?;
            examine(&config, arguments).await
        }
        // Nothing else can be looked at without them.
        Err(problems) => {
            let problem =
                |problem: String| Finding::failed("settings", problem, "agent-host variables lists them all");
            Report(problems.all().iter().map(ToString::to_string).map(problem).collect())
        }
    };
    print(&if arguments.json { report.as_json()? } else { report.to_string() })?;
    Ok(if report.has_failed() { Exit::Failure } else { Exit::Success })
}

async fn examine(config: &Config, arguments: &Arguments) -> Report {
    let mut findings = vec![settings(config)];
    findings.extend(
        config.all_warnings().into_iter().map(|warning| Finding::warning("settings", warning.to_owned(), "")),
    );
    findings.extend(instructions(config));
    let (address, stores, models, servers, tools, approvals) = futures::join!(
        address(config),
        stores::examine(config),
        models(config, arguments),
        servers(config),
        tools(config),
        approvals::examine(config),
    );
    let all = address.into_iter().chain(stores).chain(models).chain(servers).chain(tools).chain(approvals);
    findings.extend(all.chain(compile_cache(config)));
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

/// The file that is read at the start.
fn instructions(config: &Config) -> Option<Finding> {
    Some(match composition::read_instructions(&config.agent).transpose()? {
        Ok(text) => {
            Finding::ok("instructions", format!("{} bytes stand before every conversation", text.len()))
        }
        Err(error) => {
            Finding::failed("instructions", error.to_string(), "mend that file, or unset AGENT_INSTRUCTIONS")
        }
    })
}

/// The providers, each by itself and all at the same time.
async fn models(config: &Config, arguments: &Arguments) -> Vec<Finding> {
    if arguments.without_model {
        return vec![];
    }
    let providers = match composition::providers(&config.models) {
        Ok(providers) => providers,
        Err(error) => {
            let text = format!("{:#}", anyhow::Error::from(error));
            return vec![Finding::failed("model", text, "mend the setting that is named")];
        }
    };
    let probes: Vec<_> = providers.iter().map(|provider| provider.probe.clone()).collect();
    let checks = check_all(&probes, config.models.timeout).await;
    let is_answered = checks.iter().any(|check| check.outcome.is_ok());
    let findings = providers.iter().zip(checks).map(|(provider, Check { outcome, .. })| {
        let todo = match provider.variable {
            "ALT_LLM_MODEL" => {
                "see ALT_LLM_MODEL, ALT_LLM_API_KEY and ALT_LLM_BASE_URL, and that this machine may reach the provider; the \
                 log above says more"
            }
            _ => {
                "see LLM_MODEL, LLM_API_KEY and LLM_BASE_URL, and that this machine may reach the provider; the log above \
                 says more"
            }
        };
        let model = &provider.model;
        match outcome {
            Ok(latency) => Finding::ok("model", format!("{model} answers, in {} ms", latency.as_millis())),
            // The other one answers in its place.
            Err(error) if is_answered => Finding::warning("model", format!("{model}: {}", error.0), todo),
            Err(error) => Finding::failed("model", format!("{model}: {}", error.0), todo),
        }
    });
    findings.collect()
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
    let why = match timeout(CONNECT_LIMIT, outbound::probe(endpoint.as_url())).await {
        Ok(Ok(())) => return Some(Finding::ok(check, format!("{place} takes connections"))),
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => "no answer".to_owned(),
    };
    Some(Finding::warning(check, format!("{place} takes no connection: {why}"), todo))
}

/// What the tools folder has.
async fn tools(config: &Config) -> Vec<Finding> {
    let folder = config.tools.folder.display();
    if !config.tools.folder.is_dir() && !config.tools.is_default_folder {
        let text = format!("there is no folder {folder}");
        return vec![Finding::failed("tools", text, "create it, or set TOOLS_DIR to the one that is meant")];
    }
    // Where there is a database it knows who approved what; else the policy is to name every file.
    let needs_approval = config.tools.needs_approval && config.stores.database.is_none();
    let settings = Tools { needs_approval, ..config.tools.clone() };
    // silent-ok: what is wrong with the stores is found by their own check.
    let opened = composition::open_stores(&config.stores).await.ok();
    let key_value =
        opened.and_then(|opened| composition::open_key_value(&config.stores, &opened).ok()).flatten();
    let host = async {
        // Nothing is read or written there: a component that may keep values wants to know of a store.
        let start = tool_host::Config { key_value, ..tool_host_config(&settings, config.agent.token_budget) };
        let host = ToolHost::start(start).await.map_err(WireError::Tools)?;
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
            host.no_tools().unwrap_or_else(|| format!("{folder} has no tool that can be loaded")),
            "agent-tool new makes one",
        ),
        count => Finding::ok("tools", format!("{folder} has {count}: {}", names.join(", "))),
    }];
    findings.extend(host.faults().into_iter().map(|fault| {
        let text = format!("{} cannot be loaded: {}", fault.file, fault.error);
        Finding::warning("tools", text, "agent-tool inspect FILE.wasm says more")
    }));
    findings
}

/// Whether a restart finds its tools compiled.
fn compile_cache(config: &Config) -> Option<Finding> {
    let todo = "set TOOLS_CACHE_DIR to a folder that only this user can write: without one every start compiles all tools";
    let Some(folder) = &config.tools.cache else {
        return Some(Finding::warning("tools", "compiled tools are kept nowhere".to_owned(), todo));
    };
    let error = tool_host::check_compile_cache(folder).err()?;
    let text = format!("compiled tools cannot be kept in {}: {error}", folder.display());
    let todo = if is_full(error.kind()) {
        "make room on its disk, or set TOOLS_CACHE_DIR to a folder on another one: every start compiles what is not \
         kept"
    } else {
        todo
    };
    Some(Finding::warning("tools", text, todo))
}

/// Whether another folder of the same disk would not be of use either.
fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use std::io::{Error, Write as _};

    use super::*;

    #[test]
    fn a_disk_that_takes_no_more_is_told_from_a_folder_that_may_not_be_written() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap().write_all(b"x");
        assert!(is_full(full.unwrap_err().kind()));
        assert!(!is_full(Error::from(ErrorKind::PermissionDenied).kind()));
    }
}
