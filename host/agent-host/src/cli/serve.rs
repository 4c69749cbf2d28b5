//! `agent-host serve`: from the environment to the last answered request.

use std::io;
use std::net::SocketAddr;

use anyhow::Context as _;
use futures::StreamExt as _;
use http_edge::Latch;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use super::Exit;
use crate::config::{Config, Vars};
use crate::serve::{self, Outcome, Server, Times};
use crate::tasks::Tasks;
use crate::telemetry;
use crate::wire::{self, Service};

/// Serves until a signal ends it. `introduce` is told the address once it is served.
pub(crate) async fn run(
    vars: &impl Vars,
    lane: Handle,
    introduce: impl FnOnce(SocketAddr),
) -> anyhow::Result<Exit> {
    let config = Config::from_vars(vars)?;
    telemetry::install(&config.observe.log, io::stdout).context("setting up the log")?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    // There is one TLS backend in this process; only a second call could fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut signals = serve::signals().context("listening for signals")?;

    let (host, port) = (config.http.host.as_str(), config.http.port);
    let listener = TcpListener::bind((host, port))
        .await
        .with_context(|| format!("listening on {host} port {port} (HOST and PORT)"))?;
    let address = listener.local_addr().context("reading the address we listen on")?;
    let latch = Latch::default();
    // Tools that take long to compile must not keep a signal waiting.
    let built = tokio::select! {
        built = wire::build(&config, lane, latch.readiness()) => built?,
        _ = signals.next() => return Ok(Exit::Forced),
    };
    let Service { router, tools, database } = built;

    let tasks = Tasks::new();
    tasks.spawn("tool-watch", async move { tools.watch().await });
    tracing::info!(
        %address,
        environment = %config.service.environment,
        model = %config.models.first.id,
        version = env!("CARGO_PKG_VERSION"),
        "serving"
    );
    introduce(address);
    let close = async {
        tasks.abort();
        tasks.finished().await;
        if let Some(database) = database {
            database.close().await;
        }
    };
    let server = Server { listener, router, times: Times::with_drain(config.http.drain) };
    Ok(match server.run(signals, latch, close).await {
        Outcome::Clean => Exit::Success,
        Outcome::Forced => Exit::Forced,
    })
}
