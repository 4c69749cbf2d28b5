//! A tool host over a folder of its own, and the components to put into it.

use parking_lot::Mutex;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{Preparing, ToolFault, ToolRequest, ToolSet, Toolbox};
use agent_core::secret::Secret;
use agent_core::testing::TestKeyValues;
use agent_core::words::{Principal, ToolCall, ToolOutcome, ToolReturn};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tool_host::{
    CallReport, Compiler, Config, Cost, HttpMode, Launcher, Observer, PolicyFile, SetReport, ToolHost,
    ToolLimits,
};

/// A host, its folder, and what it told its observer.
pub(crate) struct Host {
    pub(crate) host: Arc<ToolHost>,
    pub(crate) tools: TempDir,
    pub(crate) seen: Arc<Seen>,
}

/// Keeps what a host reports.
#[derive(Default)]
pub(crate) struct Seen {
    calls: Mutex<Vec<(String, ToolOutcome, Cost)>>,
    pub(crate) swaps: Mutex<Vec<Vec<String>>>,
    /// The files with faults, after each change.
    pub(crate) faults: Mutex<Vec<Vec<String>>>,
    /// The components of which this host withdrew the version that served.
    pub(crate) withdrawn: Mutex<Vec<String>>,
    /// The secrets that calls of components met where they are not used.
    pub(crate) secrets_met: Mutex<Vec<(String, u64)>>,
}

impl Observer for Seen {
    fn call_ended(&self, call: &CallReport<'_>) {
        self.calls.lock().push((call.tool.into(), call.outcome, call.cost));
    }

    fn set_changed(&self, change: &SetReport<'_>) {
        self.faults.lock().push(change.faults.iter().map(|fault| fault.file.clone()).collect());
        if change.swapped {
            self.swaps.lock().push(change.tools.iter().map(|tool| tool.tool.clone()).collect());
        }
    }

    fn version_withdrawn(&self, component: &str) {
        self.withdrawn.lock().push(component.into());
    }

    fn secrets_met(&self, component: &str, times: u64) {
        self.secrets_met.lock().push((component.into(), times));
    }
}

/// Limits that keep tests short.
pub(crate) fn limits() -> ToolLimits {
    ToolLimits { timeout: Duration::from_millis(400), concurrency: 16, ..ToolLimits::default() }
}

/// Time enough for what is to succeed.
pub(crate) fn generous() -> ToolLimits {
    ToolLimits { timeout: Duration::from_secs(20), ..limits() }
}

pub(crate) fn config(folder: &Path, limits: ToolLimits, observer: Arc<Seen>) -> Config {
    Config {
        folder: folder.to_owned(),
        folder_may_be_absent: false,
        cache: Some(cache()),
        compiler: Compiler::new(env!("CARGO_BIN_EXE_tool-compiler"), &[]),
        launcher: Launcher::new(env!("CARGO_BIN_EXE_tool-compiler"), &["launch"]),
        mcp_look_limit: Duration::from_secs(15),
        limits,
        metering: false,
        guest_runtime: Handle::current(),
        policy: PolicyFile::None,
        environment: Arc::new(|_| None),
        io_runtime: Handle::current(),
        http: HttpMode::default(),
        catalog_tokens: 5_000,
        versions: None,
        needs_approval: false,
        key_value: None,
        user_names_key: None,
        learn: false,
        remembers: true,
        observer,
    }
}

/// Puts a file into a folder the way operators should: written aside and renamed.
pub(crate) fn put(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    let aside = folder.join(format!(".{name}.part"));
    fs::write(&aside, bytes).unwrap();
    fs::rename(aside, folder.join(name)).unwrap();
}

/// The lines of a policy for a component of these bytes.
pub(crate) fn entry(name: &str, bytes: &[u8], more: &str) -> String {
    format!("[[component]]\nname = \"{name}\"\ndigest = \"sha256:{:x}\"\n{more}\n", Sha256::digest(bytes))
}

/// A policy of this text, and the folder that it lies in.
pub(crate) fn policy(text: &str) -> (PolicyFile, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "policy.toml", text);
    (PolicyFile::At(folder.path().join("policy.toml")), folder)
}

/// What a call has returned that went well.
pub(crate) fn ok(returned: &ToolReturn) -> Value {
    assert_eq!(returned.receipt.outcome, ToolOutcome::Ok, "{}", returned.content);
    serde_json::from_str(&returned.content).unwrap()
}

/// Compiles what the shell of [`compile_by_shell`] was given.
pub(crate) const COMPILE: &str = "compile \"$@\"";

/// Writes a line into this file and dies, as a compiler that is short of memory does.
pub(crate) fn killed(attempts: &Path) -> String {
    format!("rm $f; echo . >> {}; kill -KILL $$", attempts.display())
}

/// Has a shell compile, which does the first of these for a component with the bytes of that file, and the
/// second one for others.
pub(crate) fn compile_by_shell(compiler: &mut Compiler, file: &Path, same: &str, others: &str) {
    let text = format!(
        "compile() {{ {program} \"$@\" < $f; e=$?; rm $f; exit $e; }}; \
         f=$(mktemp); cat > $f; if cmp -s $f {file}; then {same}; else {others}; fi",
        program = env!("CARGO_BIN_EXE_tool-compiler"),
        file = file.display(),
    );
    compiler.program = "/bin/sh".into();
    compiler.arguments = ["-c", &text, "sh"].iter().map(Into::into).collect();
}

/// Compiled components are shared by all tests of a run, as they are by all starts of a host.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled")
}

impl Host {
    /// A host over these files.
    pub(crate) async fn start(files: &[(&str, &[u8])], limits: ToolLimits) -> Self {
        Self::start_with(files, limits, |_| {}).await
    }

    pub(crate) async fn start_with(
        files: &[(&str, &[u8])],
        limits: ToolLimits,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let tools = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(tools.path().join(name), bytes).unwrap();
        }
        let seen = Arc::new(Seen::default());
        let mut config = config(tools.path(), limits, seen.clone());
        change(&mut config);
        Self::over(config, tools, seen).await
    }

    /// A host of that configuration, when all tools are prepared.
    pub(crate) async fn over(config: Config, tools: TempDir, seen: Arc<Seen>) -> Self {
        let host = Arc::new(ToolHost::start(config).await.unwrap());
        let this = Self { host, tools, seen };
        this.until(|host| host.host.preparing() == Preparing::default()).await;
        this
    }

    /// A host that may still be compiling.
    pub(crate) async fn begin(config: Config, tools: TempDir, seen: Arc<Seen>) -> Self {
        Self { host: Arc::new(ToolHost::start(config).await.unwrap()), tools, seen }
    }

    /// Follows the folder until something is so.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let so = async {
            while !is_so(self) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = self.host.watch() => unreachable!("following never ends"),
            so = tokio::time::timeout(Duration::from_secs(60), so) => so.expect("it becomes so"),
        }
    }

    /// The files that are being loaded.
    pub(crate) fn preparing(&self) -> Vec<String> {
        self.host.preparing().files
    }

    /// Puts a file into the tools folder.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        put(self.tools.path(), name, bytes);
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolReturn {
        call_on(&*self.host.everything(), tool, arguments).await
    }

    /// The tools that serve.
    pub(crate) fn names(&self) -> Vec<String> {
        self.host.list().into_iter().map(|tool| tool.tool).collect()
    }

    /// `component@digest` of the tools that serve.
    pub(crate) fn list_digests(&self) -> Vec<String> {
        self.host.list().into_iter().map(|tool| format!("{}@{}", tool.component, tool.digest)).collect()
    }

    /// `file: error` of every component that cannot be loaded.
    pub(crate) fn faults(&self) -> Vec<String> {
        let line = |fault: ToolFault| format!("{}: {}", fault.file, fault.error);
        self.host.faults().into_iter().map(line).collect()
    }

    /// How the last call ended, as the observer was told.
    pub(crate) fn last_outcome(&self) -> ToolOutcome {
        self.seen.calls.lock().last().expect("a call").1
    }

    /// The cost of the last call.
    pub(crate) fn last_cost(&self) -> Cost {
        self.seen.calls.lock().last().expect("a call").2
    }
}

/// A host under a policy, and the folder of its file.
pub(crate) struct WithPolicy {
    pub(crate) host: Host,
    pub(crate) folder: TempDir,
}

impl WithPolicy {
    /// A host with a store of values as well.
    pub(crate) async fn start(files: &[(&str, &[u8])], policy: &str) -> Self {
        let change = |config: &mut Config| {
            config.key_value = Some(Arc::new(TestKeyValues::default()));
            config.user_names_key = Some(Secret::new("key"));
        };
        Self::start_with(files, policy, change).await
    }

    pub(crate) async fn start_with(
        files: &[(&str, &[u8])],
        text: &str,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let (file, folder) = policy(text);
        let change = |config: &mut Config| {
            config.policy = file;
            change(config);
        };
        Self { host: Host::start_with(files, generous(), change).await, folder }
    }

    /// Puts another policy in its place, as operators should.
    pub(crate) async fn change(&self, policy: &str) {
        put(self.folder.path(), "policy.toml", policy);
        self.host.host.reload().await;
    }
}

pub(crate) async fn call_on(tools: &dyn ToolSet, tool: &str, arguments: Value) -> ToolReturn {
    call_as(tools, Principal::nobody(), tool, arguments).await
}

pub(crate) async fn call_as(
    tools: &dyn ToolSet,
    caller: &Principal,
    tool: &str,
    arguments: Value,
) -> ToolReturn {
    let call = ToolCall { id: "1".into(), name: tool.into(), arguments };
    let deadline = Instant::now() + Duration::from_secs(60);
    let request = ToolRequest::outside_of_runs("req-1", &call, deadline);
    tools.call(ToolRequest { principal: caller, ..request }).await
}

pub(crate) async fn call_until(
    tools: &dyn ToolSet,
    tool: &str,
    arguments: Value,
    deadline: Instant,
) -> ToolReturn {
    let call = ToolCall { id: "1".into(), name: tool.into(), arguments };
    tools.call(ToolRequest::outside_of_runs("req-1", &call, deadline)).await
}

/// A component that `cargo xtask guests` built from `guest-tools/misbehaving`.
pub(crate) fn misbehaving(name: &str) -> Vec<u8> {
    built("tools-misbehaving", name)
}

/// A component that `cargo xtask guests` put into that folder.
pub(crate) fn built(folder: &str, name: &str) -> Vec<u8> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let path = target.join(folder).join(format!("{name}.wasm"));
    fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; run `cargo xtask guests` first (`cargo xtask test` does)", path.display())
    })
}

/// What is logged while a test goes on, on one thread. The test may look at it.
pub(crate) fn logged<T: Future<Output = ()>>(test: impl FnOnce(Lines) -> T) -> String {
    let lines = Lines::default();
    let test = test(lines.clone());
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(subscriber, || runtime.block_on(test));
    lines.text()
}

/// Keeps what is logged.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
