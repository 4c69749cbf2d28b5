//! What a tool call costs: through the whole tool host, on bare wasmtime, and as native code.
//!
//! All do the same work, `calculate` of the calculator component, and take turns within one run, so
//! that whatever else the machine does meets all of them. The native one is a process of its own, the example
//! `native` of the calculator, because guests are a workspace of their own. Prints medians and ratios; the
//! ratio to bare wasmtime is the price of validation, limits, metrics and receipts. Guests that can be
//! interrupted are a part of that price, so that bare wasmtime is there with such guests as well.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark"
)]

mod bare;
mod callers;
mod components;
mod instructions;
mod languages;
mod memory;
mod native;
mod ready;
mod rows;
mod swaps;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use agent_core::ports::{ToolRequest, ToolSet, Toolbox};
use agent_core::words::ToolCall;
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tool_host::{Compiler, Config, HttpMode, Launcher, NoObserver, PolicyFile, ToolHost, ToolLimits};

use bare::{Bare, Guests};
use components::component;
use native::Native;

/// The allocator of the service, for both sides.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Turns of each contender; one turn is a burst of calls, so that a timer's resolution does not matter.
const TURNS: usize = 400;

/// Calls of one burst.
const BURST: u32 = 25;

/// Another one each time: answers of the calculator are kept.
fn expression() -> Value {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    json!({ "expression": format!("2*(3+{number})-1/4") })
}

fn main() {
    // What is resident is measured in a process that has done nothing else.
    if std::env::args().any(|argument| argument == memory::ARGUMENT) {
        return memory::measure();
    }
    if std::env::args().any(|argument| argument == instructions::ARGUMENT) {
        return instructions::make_calls();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(compare());
    instructions::print();
    // All cores, and guests on a runtime of their own, as the service has it.
    let cores = std::thread::available_parallelism().unwrap().get();
    let guests =
        tokio::runtime::Builder::new_multi_thread().worker_threads(cores).enable_all().build().unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(cores).enable_all().build().unwrap();
    runtime.block_on(async {
        rows::print(guests.handle()).await;
        languages::print(guests.handle()).await;
        swaps::print(guests.handle()).await;
        ready::print(guests.handle()).await;
        memory::print(guests.handle()).await;
    });
    guests.shutdown_background();
}

async fn compare() {
    let folder = tempfile::tempdir().unwrap();
    let wasm = component("tools", "calculator");
    std::fs::write(folder.path().join("calculator.wasm"), &wasm).unwrap();
    let host = start(folder.path(), PolicyFile::None, &Handle::current()).await;
    let [bare, interruptible] =
        [Guests::Trusted, Guests::Interruptible].map(|guests| Bare::pooled(&wasm, guests));
    let mut native = Native::start();
    let set = host.everything();

    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..TURNS {
        times[0].push(burst(async || call(&*set, "calculate", expression()).await).await);
        times[1].push(burst(async || bare.call().await).await);
        times[2].push(burst(async || interruptible.call().await).await);
        times[3].push(native.burst());
    }
    report(&mut times);
}

async fn start(folder: &Path, policy: PolicyFile, guest_runtime: &Handle) -> ToolHost {
    begin(config(folder, policy, guest_runtime)).await
}

/// A host that serves all of its folder.
async fn begin(config: Config) -> ToolHost {
    let host = ToolHost::start(config).await.unwrap();
    // The start does not wait for what has to be compiled.
    host.reload().await;
    assert_eq!(host.faults(), vec![], "all components serve");
    host
}

fn config(folder: &Path, policy: PolicyFile, guest_runtime: &Handle) -> Config {
    Config {
        folder: folder.to_owned(),
        folder_may_be_absent: false,
        cache: None,
        compiler: Compiler::new(env!("CARGO_BIN_EXE_tool-compiler"), &[]),
        launcher: Launcher::new(env!("CARGO_BIN_EXE_tool-compiler"), &["launch"]),
        mcp_look_limit: Duration::from_secs(15),
        limits: ToolLimits::default(),
        // Enough for fifty tools, which a model would not be shown at once.
        catalog_tokens: 1_000_000,
        metering: false,
        guest_runtime: guest_runtime.clone(),
        policy,
        environment: Arc::new(|_| None),
        io_runtime: Handle::current(),
        http: HttpMode::default(),
        versions: None,
        needs_approval: false,
        key_value: None,
        user_names_key: None,
        learn: false,
        remembers: true,
        observer: Arc::new(NoObserver),
    }
}

async fn call(set: &dyn ToolSet, tool: &str, arguments: Value) {
    let call = ToolCall { id: "call_1".into(), name: tool.into(), arguments };
    let deadline = Instant::now() + Duration::from_secs(30);
    let request = ToolRequest::outside_of_runs("0196f0f0-0000-7000-8000-000000000000", &call, deadline);
    let returned = set.call(request).await;
    assert_eq!(returned.receipt.outcome.as_str(), "ok", "{}", returned.content);
    black_box(returned);
}

async fn burst(call: impl AsyncFn()) -> Duration {
    let start = Instant::now();
    for _ in 0..BURST {
        call().await;
    }
    start.elapsed() / BURST
}

fn report(times: &mut [Vec<Duration>; 4]) {
    let [medians, p99s] = [0.5, 0.99]
        .map(|share| times.each_mut().map(|times| callers::quantile(times, share).as_secs_f64() * 1e6));
    println!("tool call, calculator, fresh instance per call, one thread, {TURNS} bursts of {BURST} calls");
    let names = ["tool host", "bare wasmtime", "bare, interruptible", "native"];
    for (name, (median, p99)) in names.iter().zip(medians.iter().zip(&p99s)) {
        println!("  {name:<19} p50 {median:>8.2} µs   p99 {p99:>8.2} µs");
    }
    println!("  tool host / bare wasmtime         {:.2}   (aim: at most 1.15)", medians[0] / medians[1]);
    println!("  tool host / bare, interruptible   {:.2}", medians[0] / medians[2]);
    println!("  tool host / native                {:.1}", medians[0] / medians[3]);
}
