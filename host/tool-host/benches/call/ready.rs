//! From the start of a tool host to all tools prepared, with the compile cache warm.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{ToolVersions, Toolbox as _};
use agent_core::testing::TestToolVersions;
use tokio::runtime::Handle;
use tool_host::{PolicyFile, ToolHost};

use crate::callers::quantile;
use crate::components::{kept_cache, put_named};
use crate::{begin, config};

/// Tools of a service.
const TOOLS: usize = 20;

/// Starts of each kind; they take turns.
const STARTS: usize = 15;

struct Kind {
    what: &'static str,
    folder: tempfile::TempDir,
    tools: usize,
    versions: Option<Arc<dyn ToolVersions>>,
    times: Vec<Duration>,
}

pub(crate) async fn print(guest_runtime: &Handle) {
    println!("start of the tool host to all tools prepared, each compiled before, {STARTS} starts");
    let store: Arc<dyn ToolVersions> = Arc::<TestToolVersions>::default();
    let mut kinds = [
        Kind::new("an empty folder", 0, None),
        Kind::new("20 tools in the folder", TOOLS, None),
        Kind::new("20 tools with versions", TOOLS, Some(store)),
    ];
    for kind in &kinds {
        // Compiles what is not compiled yet, and has the store take in what is in the folder.
        begin(kind.config(guest_runtime)).await;
    }
    for _ in 0..STARTS {
        for kind in &mut kinds {
            let time = kind.start(guest_runtime).await;
            kind.times.push(time);
        }
    }
    for Kind { what, times, .. } in &mut kinds {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "  {what:<24} p50 {:>6.1} ms   worst {:>6.1} ms",
            millis(quantile(times, 0.5)),
            millis(quantile(times, 1.0))
        );
    }
    println!("    (aim for 20 tools: 100 ms; versions are kept in memory)");
}

impl Kind {
    fn new(what: &'static str, tools: usize, versions: Option<Arc<dyn ToolVersions>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(Self::tools_of(folder.path())).unwrap();
        put_named(&Self::tools_of(folder.path()), 0..tools);
        Self { what, folder, tools, versions, times: Vec::new() }
    }

    fn tools_of(folder: &Path) -> std::path::PathBuf {
        folder.join("tools")
    }

    fn config(&self, guest_runtime: &Handle) -> tool_host::Config {
        let mut config = config(&Self::tools_of(self.folder.path()), PolicyFile::None, guest_runtime);
        (config.cache, config.versions) = (Some(kept_cache()), self.versions.clone());
        config
    }

    async fn start(&self, guest_runtime: &Handle) -> Duration {
        let config = self.config(guest_runtime);
        let begun = Instant::now();
        let host = ToolHost::start(config).await.unwrap();
        tokio::select! {
            biased;
            () = host.prepared() => {}
            () = host.watch() => {}
        }
        let time = begun.elapsed();
        assert_eq!((host.list().len(), host.compile_counts().0), (self.tools, 0), "all found compiled");
        time
    }
}
