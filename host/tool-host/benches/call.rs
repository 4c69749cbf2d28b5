//! What a tool call costs: through the whole tool host, on bare wasmtime, and as native code.
//!
//! All three do the same work, `calculate` of the calculator component, and take turns within one run, so that
//! whatever else the machine does meets all of them. The native one is a process of its own, the example
//! `native` of the calculator, because guests are a workspace of their own. Prints medians and ratios; the ratio to bare wasmtime is
//! the price of validation, limits, metrics and receipts.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark"
)]

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{ToolRequest, ToolSet, Toolbox};
use agent_core::words::ToolCall;
use serde_json::json;
use tool_host::{Compiler, Config, Limits, NoObserver, ToolHost};
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};

mod bindings {
    wasmtime::component::bindgen!({ path: "../../wit", world: "sandboxed-tool", exports: { default: async } });
}

/// Turns of each contender; one turn is a burst of calls, so that a timer's resolution does not matter.
const TURNS: usize = 400;

/// Calls of one burst.
const BURST: u32 = 25;

const EXPRESSION: &str = r#"{"expression":"2*(3+4)-1/4"}"#;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
        let wasm = std::fs::read(tools.join("calculator.wasm")).expect("run `cargo xtask guests` first");
        std::fs::write(folder.path().join("calculator.wasm"), &wasm).unwrap();
        let host = start(folder.path()).await;
        let bare = Bare::new(&wasm);
        let mut native = Native::start();
        let set = host.everything();

        let mut times: [Vec<Duration>; 3] = Default::default();
        for _ in 0..TURNS {
            times[0].push(burst(async || call_host(&*set).await).await);
            times[1].push(burst(async || bare.call().await).await);
            times[2].push(native.burst());
        }
        report(&mut times);
    });
}

async fn start(folder: &Path) -> ToolHost {
    let config = Config {
        folder: folder.to_owned(),
        cache: None,
        compiler: Compiler::new(env!("CARGO_BIN_EXE_tool-compiler"), &[]),
        limits: Limits::default(),
        catalog_tokens: 5_000,
        metering: false,
        guest_runtime: tokio::runtime::Handle::current(),
        policy: tool_host::PolicyFile::None,
        environment: std::sync::Arc::new(|_| None),
        io_runtime: tokio::runtime::Handle::current(),
        observer: Arc::new(NoObserver),
    };
    let host = ToolHost::start(config).await.unwrap();
    // The start does not wait for what has to be compiled.
    host.reload().await;
    host
}

async fn call_host(set: &dyn ToolSet) {
    let call = ToolCall {
        id: "call_1".into(),
        name: "calculate".into(),
        arguments: json!({"expression": "2*(3+4)-1/4"}),
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    let request = ToolRequest::outside_of_runs("0196f0f0-0000-7000-8000-000000000000", &call, deadline);
    let returned = set.call(request).await;
    assert_eq!(returned.receipt.outcome.as_str(), "ok", "{}", returned.content);
    black_box(returned);
}

/// The calculator's example `native`: does as many calls as it is told and says how long they took.
struct Native {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Native {
    fn start() -> Self {
        let program =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-tools/target/release/examples/native");
        let mut child =
            Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap_or_else(
                |error| panic!("{}: {error}; `cargo xtask bench` builds it", program.display()),
            );
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, orders, answers }
    }

    fn burst(&mut self) -> Duration {
        writeln!(self.orders, "{BURST} {EXPRESSION}").unwrap();
        let mut nanoseconds = String::new();
        self.answers.read_line(&mut nanoseconds).unwrap();
        Duration::from_nanos(nanoseconds.trim().parse().unwrap()) / BURST
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// wasmtime as the design measured it: a pool with page-map scan, a fresh store for every call, and nothing
/// else: no limits, no deadline, no validation.
struct Bare {
    engine: Engine,
    pre: bindings::SandboxedToolPre<Imports>,
}

struct Imports;

impl bindings::agent::tool::context::Host for Imports {
    fn request_id(&mut self) -> String {
        String::new()
    }
    fn remaining_ms(&mut self) -> u64 {
        0
    }
    fn cancelled(&mut self) -> bool {
        false
    }
    fn run_id(&mut self) -> String {
        String::new()
    }
    fn call_id(&mut self) -> String {
        String::new()
    }
    fn attempt(&mut self) -> u32 {
        1
    }
    fn get(&mut self, _key: String) -> Option<String> {
        None
    }
}

impl bindings::agent::tool::config::Host for Imports {
    fn get(&mut self, _key: String) -> Option<String> {
        None
    }
}

impl bindings::agent::tool::secrets::Host for Imports {
    fn exists(&mut self, _name: String) -> bool {
        false
    }
}

impl bindings::agent::tool::progress::Host for Imports {
    fn report(&mut self, _message: String, _fraction: Option<f64>) -> bool {
        true
    }
}

impl bindings::agent::tool::clock::Host for Imports {
    fn now_ms(&mut self) -> u64 {
        0
    }
}

impl bindings::agent::tool::log::Host for Imports {
    fn write(&mut self, _level: String, _message: String, _fields: Vec<(String, String)>) {}
}

impl Bare {
    fn new(wasm: &[u8]) -> Self {
        let mut pool = PoolingAllocationConfig::default();
        pool.total_memories(256).total_core_instances(4096).total_component_instances(128);
        if PoolingAllocationConfig::is_pagemap_scan_available() {
            pool.pagemap_scan(Enabled::Yes).linear_memory_keep_resident(1 << 20).table_keep_resident(1 << 16);
        }
        let mut config = wasmtime::Config::new();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config).unwrap();
        let mut linker = Linker::new(&engine);
        bindings::SandboxedTool::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut Imports| state)
            .unwrap();
        let component = Component::new(&engine, wasm).unwrap();
        let pre = bindings::SandboxedToolPre::new(linker.instantiate_pre(&component).unwrap()).unwrap();
        Self { engine, pre }
    }

    async fn call(&self) {
        let mut store = Store::new(&self.engine, Imports);
        let instance = self.pre.instantiate_async(&mut store).await.unwrap();
        let tool = instance.agent_tool_tool();
        let output = tool.call_call(&mut store, "calculate", EXPRESSION).await.unwrap().unwrap();
        black_box(output.value);
    }
}

async fn burst(call: impl AsyncFn()) -> Duration {
    let start = Instant::now();
    for _ in 0..BURST {
        call().await;
    }
    start.elapsed() / BURST
}

fn report(times: &mut [Vec<Duration>; 3]) {
    let mut medians = [0.0; 3];
    for (times, median) in times.iter_mut().zip(&mut medians) {
        times.sort_unstable();
        *median = times[times.len() / 2].as_secs_f64() * 1e6;
    }
    let p99 = |times: &[Duration]| times[times.len() * 99 / 100].as_secs_f64() * 1e6;
    println!("tool call, calculator, fresh instance per call, one thread, {TURNS} bursts of {BURST} calls");
    for (name, (times, median)) in
        ["tool host", "bare wasmtime", "native"].iter().zip(times.iter().zip(&medians))
    {
        println!("  {name:<14} p50 {median:>8.2} µs   p99 {:>8.2} µs", p99(times));
    }
    println!("  tool host / bare wasmtime  {:.2}   (aim: at most 1.25)", medians[0] / medians[1]);
    println!("  tool host / native         {:.1}", medians[0] / medians[2]);
}
