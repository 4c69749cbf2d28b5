//! How long a swap takes, and what callers notice of it.
//!
//! A version is renamed into the tools folder, or uploaded to a host with a store of versions, which is kept
//! in memory. Callers go on calling, and the first answer whose receipt names the new version ends the swap.
//! The next one follows at once, so that all calls of [`Row::during`] are made while something is being
//! swapped.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{Operator, ToolAdmin as _, Upload};
use agent_core::testing::TestToolVersions;
use bytes::Bytes;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tool_host::{PolicyFile, ToolHost};

use crate::callers::{Called, CallerStats, Callers, quantile};
use crate::components::{component, digest, version_of};
use crate::{begin, config, expression};

/// Swaps of a row to versions that have to be compiled.
const NEW: u32 = 5;

/// Swaps of a row to versions that were compiled before.
const COMPILED: u32 = 20;

/// How long callers call without swaps, before them and again after them.
const QUIET: Duration = Duration::from_secs(1);

const CALCULATE: Called = Called { tool: "calculate", arguments: |_| expression() };

/// How a version gets in.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Into the tools folder.
    Rename,
    /// Through the admin API's port, with a store of versions.
    Upload,
}

/// A host that follows its folder and its store.
struct Service {
    host: Arc<ToolHost>,
    home: TempDir,
    watching: JoinHandle<()>,
}

#[derive(Default)]
struct Row {
    swaps: Vec<Duration>,
    during: CallerStats,
    quiet: CallerStats,
}

pub(crate) async fn print(guest_runtime: &Handle) {
    println!(
        "a tool is swapped while others call it: from the rename or the upload to the first answer of the new version"
    );
    let wasm = component("tools", "calculator");
    let cache = tempfile::tempdir().unwrap();
    let rows = || [1, 8].into_iter().flat_map(|callers| [(Way::Rename, callers), (Way::Upload, callers)]);
    // Each row has versions that nobody has compiled.
    for (row, (way, callers)) in (0_u32..).zip(rows()) {
        let service = Service::start(way, &wasm, cache.path(), guest_runtime).await;
        let versions = (1 + row * NEW..=(row + 1) * NEW).map(|number| version_of(&wasm, number));
        measure(&service, way, callers, versions).await.print(way, callers, "compiled for it");
    }
    // Versions 1 to `COMPILED` are in the compile cache now, and new to hosts and stores that have just
    // begun.
    for (way, callers) in rows() {
        let service = Service::start(way, &wasm, cache.path(), guest_runtime).await;
        let versions = (1..=COMPILED).map(|number| version_of(&wasm, number));
        measure(&service, way, callers, versions).await.print(way, callers, "compiled before");
    }
}

async fn measure(
    service: &Service,
    way: Way,
    callers: usize,
    versions: impl Iterator<Item = Vec<u8>>,
) -> Row {
    let host = &service.host;
    let mut row = Row { quiet: Callers::run(host, callers, CALCULATE, QUIET).await, ..Row::default() };
    let mut calling = Callers::start(host, callers, CALCULATE);
    for version in versions {
        let digest = digest(&version);
        let begun = service.swap(way, version).await;
        row.swaps.push(calling.first_answer(&digest).await.saturating_duration_since(begun));
    }
    row.during = calling.stop().await;
    row.quiet.add(Callers::run(host, callers, CALCULATE, QUIET).await);
    row
}

impl Service {
    async fn start(way: Way, wasm: &[u8], cache: &Path, guest_runtime: &Handle) -> Self {
        let home = tempfile::tempdir().unwrap();
        let tools = home.path().join("tools");
        fs::create_dir(&tools).unwrap();
        fs::write(tools.join("calculator.wasm"), wasm).unwrap();
        let mut config = config(&tools, PolicyFile::None, guest_runtime);
        config.cache = Some(cache.to_owned());
        if let Way::Upload = way {
            config.versions = Some(Arc::<TestToolVersions>::default());
        }
        let host = Arc::new(begin(config).await);
        let watched = host.clone();
        #[expect(clippy::disallowed_methods, reason = "it ends with the service")]
        let watching = tokio::spawn(async move { watched.watch().await });
        while host.list().is_empty() {
            tokio::task::yield_now().await;
        }
        Self { host, home, watching }
    }

    /// Has a version serve. Returns when the rename was done or the upload begun.
    async fn swap(&self, way: Way, version: Vec<u8>) -> Instant {
        match way {
            Way::Rename => {
                // Beside the folder, so that only the rename is noticed.
                let aside = self.home.path().join("aside.wasm");
                fs::write(&aside, version).unwrap();
                let begun = Instant::now();
                fs::rename(aside, self.home.path().join("tools/calculator.wasm")).unwrap();
                begun
            }
            Way::Upload => {
                let upload = Upload { bytes: Bytes::from(version), signature: None };
                let begun = Instant::now();
                self.host
                    .upload("calculator", upload, Operator { by: "bench", expected: None })
                    .await
                    .unwrap();
                begun
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Row {
    fn print(mut self, way: Way, callers: usize, what: &str) {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        println!(
            "  {way:?}, {what}, {callers} callers: {} swaps, p50 {:.0} ms, worst {:.0} ms",
            self.swaps.len(),
            millis(quantile(&mut self.swaps, 0.5)),
            millis(quantile(&mut self.swaps, 1.0)),
        );
        let during = quantile(&mut self.during.times, 0.99);
        let quiet = quantile(&mut self.quiet.times, 0.99);
        println!(
            "    p99 of a call during swaps {:.0} µs ({} calls, {} failed), without {:.0} µs ({} calls): {:.2} times",
            micros(during),
            self.during.times.len(),
            self.during.failed,
            micros(quiet),
            self.quiet.times.len(),
            micros(during) / micros(quiet)
        );
        let failed = self.during.failed + self.quiet.failed;
        assert_eq!(failed, 0, "a swap fails no call: {:?}", self.during.failure.or(self.quiet.failure));
    }
}
