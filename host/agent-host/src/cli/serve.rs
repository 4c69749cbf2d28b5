//! `agent-host serve`: from the environment to the last answered request.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use futures::{Stream, StreamExt as _};
use host_setup::program::{guest_runtime, install_tls, processors};
use http_edge::{Hosts, Latch};
use run_service::shutdown::Shutdown;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Exit;
use crate::composition::{self, Identity, Running, Service};
use crate::config::{self, Config, EnvVars, Problems};
use crate::file_limits;
#[cfg(feature = "lambda")]
use crate::serve::lambda::LeftBehind;
use crate::serve::{self, BodyLimits, Cores, Outcome, Server, Signal};
use crate::tasks::{Supervisor, Tasks};
use crate::telemetry::export::Exporter;
use crate::telemetry::{self, Destination};

/// Serves until a signal ends it. `introduce` is told the address once it is served.
pub(crate) async fn run(vars: &impl EnvVars, introduce: impl FnOnce(SocketAddr)) -> anyhow::Result<Exit> {
    let config = Config::from_vars(vars).map_err(|problems| refused(vars, problems))?;
    let is_function = config.service.lambda_runtime_api.is_some();
    let destination = if is_function { Destination::Function } else { Destination::Service };
    install_tls();
    let exporter = telemetry::install(&config.observe.log, destination, config.observe.tracing.as_ref())
        .context("setting up the log and the traces")?;
    for warning in config.all_warnings() {
        tracing::warn!("{warning}");
    }
    if let Some(tracing) = &config.observe.tracing {
        say_where_traces_go(tracing);
    }
    let mut signals = serve::signals().context("listening for signals")?;
    let descriptors = file_limits::raise_limit();

    let latch = Latch::default();
    if is_function {
        return run_as_function(vars, &config, latch, signals, exporter).await;
    }

    let (host, port) = (config.http.host.as_str(), config.http.port);
    let listener = TcpListener::bind((host, port)).await.with_context(|| {
        format!("listening on {host} port {port} (HOST and PORT; PORT=0 takes any free port)")
    })?;
    let address = listener.local_addr().context("reading the address we listen on")?;
    let worker = worker_name(&address.to_string());
    let hosts = if address.ip().to_canonical().is_loopback() { Hosts::Loopback } else { Hosts::Named };
    let cores = start_cores(&config)?;
    let identity = Identity { worker, hosts, runtimes: runtimes(&cores) };
    let most_connections = most_connections(&config, descriptors);
    let shutdown = Shutdown::default();
    // What the start waits for, such as a database, must not keep a signal waiting.
    let built = tokio::select! {
        built = composition::build(&config, identity, latch.readiness(), &shutdown) => built?,
        signal = signals.next() => return Ok(end_early(signal)),
    };
    let Service { router, background, http_metrics, .. } = built;

    let exports = export(exporter, background.supervisor());
    let running = background.start(&shutdown, false);
    tracing::info!(
        %address,
        environment = %config.service.environment,
        model = %config.models.first.id,
        most_connections,
        version = env!("CARGO_PKG_VERSION"),
        "serving"
    );
    introduce(address);
    let server = Server {
        listener,
        cores,
        router,
        times: config.http.timeouts,
        bodies: BodyLimits { bytes: config.http.max_body_bytes, time: config.http.body_timeout },
        most_connections,
        metrics: http_metrics,
        shutdown,
    };
    let close = async move |forced| close(running, exports, &forced).await;
    Ok(exit(server.run(signals, latch, close).await))
}

/// A signal ended the start, of a release that migrates for long for example: nobody else says why it ended.
fn end_early(signal: Option<Signal>) -> Exit {
    tracing::warn!(signal = signal.map(tracing::field::display), "ended by a signal before it served");
    Exit::Forced
}

fn exit(outcome: Outcome) -> Exit {
    match outcome {
        Outcome::Clean => Exit::Success,
        Outcome::Forced => Exit::Forced,
    }
}

/// What is wrong with the settings. Whoever has set nothing of a model may look for a first try.
fn refused(vars: &impl EnvVars, problems: Problems) -> anyhow::Error {
    let is_open = |name| vars.get(name).is_none_or(|value| value.is_empty());
    if is_open("LLM_API_KEY") && is_open("LLM_MODEL") {
        return anyhow!("{problems}\n  To try it without any settings: agent-host dev");
    }
    problems.into()
}

/// Refuses a function whose platform has not set the variables that Lambda's library reads: without them it
/// panics.
#[cfg(feature = "lambda")]
fn check_platform(vars: &impl EnvVars) -> anyhow::Result<()> {
    const MEMORY: &str = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE";
    let text = |name| vars.get(name).and_then(|value| value.into_string().ok());
    for name in ["AWS_LAMBDA_FUNCTION_NAME", MEMORY, "AWS_LAMBDA_FUNCTION_VERSION"] {
        let problem = match text(name) {
            None => "is missing",
            Some(value) if name == MEMORY && value.parse::<i32>().is_err() => "is no number",
            Some(_) => continue,
        };
        return Err(anyhow!(
            "{name} {problem}, which AWS Lambda sets beside AWS_LAMBDA_RUNTIME_API: set it as the platform does, \
             or unset AWS_LAMBDA_RUNTIME_API to serve on HOST and PORT"
        ));
    }
    Ok(())
}

fn say_where_traces_go(config: &config::Tracing) {
    let url = config.endpoint.as_url();
    tracing::info!(
        endpoint = format!("{}{}", url.origin().ascii_serialization(), url.path()),
        project = config.project,
        ratio = config.sampling.ratio,
        content = config.capture_content,
        "traces are exported"
    );
}

/// Begins to export spans. Readiness does not depend on it.
fn export(exporter: Option<Exporter>, supervisor: &Supervisor) -> Tasks {
    let exports = Tasks::new();
    if let Some(exporter) = exporter {
        let (exporter, stopping) = (Arc::new(Mutex::new(exporter)), exports.stopping());
        let begin = {
            let stopping = stopping.clone();
            move || {
                let (exporter, stopping) = (exporter.clone(), stopping.clone());
                // Nobody else locks it: what panicked has let go of it.
                async move { exporter.lock().await.run(stopping).await }
            }
        };
        exports.supervise("span-exporter", &supervisor.of_dispensable_tasks(), stopping, begin);
    }
    exports
}

/// Ends what goes on beside the requests. Spans are exported last, because everything else may record some.
/// Once `forced` is cancelled, nothing is waited for but what is written.
async fn close(running: Running, exports: Tasks, forced: &CancellationToken) {
    running.close(forced).await;
    exports.stop();
    exports.finished().await;
}

/// Says that nobody serves a function with this binary.
#[cfg(not(feature = "lambda"))]
#[expect(clippy::unused_async, reason = "as the one that serves")]
async fn run_as_function(
    _: &impl EnvVars,
    _: &Config,
    _: Latch,
    _: impl Stream<Item = Signal>,
    _: Option<Exporter>,
) -> anyhow::Result<Exit> {
    Err(anyhow!(
        "AWS_LAMBDA_RUNTIME_API is set, but this binary was built without AWS Lambda: build it with \
         `--features lambda`"
    ))
}

/// Serves as an AWS Lambda function, which is frozen between events, so it works off no jobs, and what an
/// event leaves behind is written before its answer is given.
#[cfg(feature = "lambda")]
async fn run_as_function(
    vars: &impl EnvVars,
    config: &Config,
    latch: Latch,
    mut signals: impl Stream<Item = Signal> + Unpin,
    exporter: Option<Exporter>,
) -> anyhow::Result<Exit> {
    check_platform(vars)?;
    let shutdown = Shutdown::default();
    let identity = Identity {
        worker: worker_name("lambda"),
        hosts: Hosts::Unchecked,
        runtimes: runtimes(&Cores::default()),
    };
    let built = tokio::select! {
        built = composition::build(config, identity, latch.readiness(), &shutdown) => built?,
        signal = signals.next() => return Ok(end_early(signal)),
    };
    let Service { router, background, recording, writes, .. } = built;
    background.prepare().await;
    let left_behind = LeftBehind {
        recording,
        http_recordings: background.unwritten_http(),
        writes,
        spans: exporter.as_ref().map(Exporter::flusher),
    };
    let exports = export(exporter, background.supervisor());
    let running = background.start(&shutdown, true);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "serving as a Lambda function");
    let served = serve::lambda::run(router, left_behind, signals).await;
    drop(latch);
    // No request is under way.
    shutdown.begin(Instant::now());
    close(running, exports, &CancellationToken::new()).await;
    let outcome = served.map_err(|error| anyhow!(error).context("serving Lambda's events"))?;
    Ok(exit(outcome))
}

/// Warns as well where WebSockets could take the descriptors that stores and the provider need.
fn most_connections(config: &Config, descriptors: Option<u64>) -> usize {
    let most_connections = file_limits::connections(config.http.max_connections, descriptors);
    let max_websockets = config.http.max_websockets;
    let has_websockets = config.variant_b.as_ref().is_some_and(|needs| needs.openai);
    if has_websockets && !file_limits::are_enough(descriptors, most_connections, max_websockets) {
        tracing::warn!(
            max_websockets,
            most_connections,
            "MAX_WEBSOCKETS beside as many connections is more than the limit on open files leaves: raise that (ulimit -n, \
             LimitNOFILE), or set less"
        );
    }
    most_connections
}

fn start_cores(config: &Config) -> anyhow::Result<Cores> {
    let threads = config.http.serving_threads.unwrap_or_else(processors);
    Cores::start(threads).context("starting the threads that serve (SERVING_THREADS)")
}

/// All runtimes that requests and jobs are worked on. Calls of tools that compute for long wait on that of
/// guests.
fn runtimes(cores: &Cores) -> Vec<Handle> {
    cores.runtimes().chain([Handle::current(), guest_runtime()]).collect()
}

/// Names this process among all that work off the queue: where it runs, by which one that is started again
/// knows its predecessor, and something that no other has.
fn worker_name(address: &str) -> String {
    let host = rustix::system::uname();
    format!("{}@{address}#{}", host.nodename().to_string_lossy(), Uuid::now_v7().simple())
}

#[cfg(all(test, feature = "lambda"))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_function_without_the_variables_of_its_platform_is_told_which_one_is_missing() {
        let check = |set: &[(&'static str, &'static str)]| {
            let vars: BTreeMap<_, _> = set.iter().copied().collect();
            check_platform(&vars).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let (name, version) = (("AWS_LAMBDA_FUNCTION_NAME", "agent"), ("AWS_LAMBDA_FUNCTION_VERSION", "1"));
        let memory = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE";
        assert_eq!(check(&[name, version, (memory, "512")]), "");
        for (set, expected) in [
            (&[][..], "AWS_LAMBDA_FUNCTION_NAME is missing"),
            (&[name, version], "AWS_LAMBDA_FUNCTION_MEMORY_SIZE is missing"),
            (&[name, version, (memory, "much")], "AWS_LAMBDA_FUNCTION_MEMORY_SIZE is no number"),
            (&[name, (memory, "512")], "AWS_LAMBDA_FUNCTION_VERSION is missing"),
        ] {
            let problem = check(set);
            assert!(problem.starts_with(expected), "{problem}");
            assert!(problem.contains("unset AWS_LAMBDA_RUNTIME_API"), "{problem}");
        }
    }
}
