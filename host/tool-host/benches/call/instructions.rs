//! Instructions of a call by part, counted by callgrind: through the tool host, and on bare wasmtime. Time
//! varies on a shared machine, a count does not. Valgrind has no room for the addresses of an instance pool:
//! both sides allocate instances on demand here.
//!
//! Callgrind runs this bench again for each contender and collects only while [`counted`] is on the stack. A
//! function counts for the part that its name tells, so inlined ones count for their callers.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use agent_core::ports::{ToolSet, Toolbox as _};
use tokio::runtime::Handle;
use tool_host::{Config, PolicyFile, Precompiler};

use crate::bare::{Bare, Guests};
use crate::components::component;
use crate::{begin, call, config, expression};

/// Has this bench make calls for callgrind instead of starting others.
pub(crate) const ARGUMENT: &str = "count-instructions";

/// Calls before counting begins, and counted ones.
const WARM_UP: usize = 20;
const CALLS: usize = 200;

/// Parts by pieces of functions' names. The first that fits decides.
const PARTS: [(&str, &[&str]); 9] = [
    ("the guest", &["???", "0x"]),
    ("allocator", &["mi_", "malloc", "free", "calloc", "realloc", "memalign"]),
    ("memory copied and compared", &["memcpy", "memmove", "memset", "memcmp", "bcmp"]),
    ("digests", &["sha2", "digest"]),
    ("JSON and schemas", &["json"]),
    ("kept answers", &["quick_cache"]),
    ("tool host", &["tool_host", "tool_policy", "tool_egress", "agent_core"]),
    ("wasmtime", &["wasmtime"]),
    ("tokio, locks", &["tokio", "parking_lot", "futures"]),
];

/// Counts both, where there is a valgrind, and prints them side by side.
pub(crate) fn print() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("instructions of a call: left out, there is no valgrind");
        return;
    }
    let [host, bare, interruptible] = ["host", "bare", "interruptible"].map(count);
    println!("instructions of a call, no pool, {CALLS} calls each tool host  bare wasmtime  interruptible");
    let rest = std::iter::once("the rest");
    for (at, part) in PARTS.iter().map(|(part, _)| *part).chain(rest).enumerate() {
        println!("  {part:<38} {:>12.0} {:>14.0} {:>14.0}", host[at], bare[at], interruptible[at]);
    }
    let [host, bare, interruptible] = [host, bare, interruptible].map(|parts| parts.iter().sum::<f64>());
    println!("  {:<38} {host:>12.0} {bare:>14.0} {interruptible:>14.0}", "all");
    println!("  {:<38} {:>27.2} {:>14.2}", "times", host / bare, host / interruptible);
}

/// Instructions of one call of a contender by part, the rest last.
fn count(contender: &str) -> [f64; PARTS.len() + 1] {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("callgrind");
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*instructions*counted*"])
        .args(["--compress-strings=no", "--compress-pos=no", "--dump-line=no", "--quiet"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().unwrap())
        .args([ARGUMENT, contender])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(ran.success(), "counting instructions: {ran}");
    by_part(&fs::read_to_string(&out).unwrap())
}

/// Sums what callgrind wrote down: `fn=` begins a function's own costs, and the line behind `calls=` is what
/// a callee cost, which stands with that function.
fn by_part(written: &str) -> [f64; PARTS.len() + 1] {
    let mut sums = [0.0; PARTS.len() + 1];
    let (mut part, mut is_of_callee) = (PARTS.len(), false);
    for line in written.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            let fits = |(_, pieces): &(&str, &[&str])| pieces.iter().any(|piece| name.contains(piece));
            part = PARTS.iter().position(fits).unwrap_or(PARTS.len());
        } else if line.starts_with("calls=") {
            is_of_callee = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) && !std::mem::take(&mut is_of_callee)
        {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<f64>().ok());
            sums[part] += cost.unwrap_or_default() / CALLS as f64;
        }
    }
    sums
}

/// Makes the calls that callgrind counts. One thread: it collects by thread.
pub(crate) fn make_calls() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wasm = component("tools", "calculator");
    let contender = std::env::args().next_back().unwrap();
    let bare = match contender.as_str() {
        "bare" => Some(Guests::Trusted),
        "interruptible" => Some(Guests::Interruptible),
        _ => None,
    };
    if let Some(guests) = bare {
        let bare = Bare::on_demand(&wasm, guests);
        runtime.block_on(times(WARM_UP, async || bare.call().await));
        counted(|| runtime.block_on(times(CALLS, async || bare.call().await)));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let set = runtime.block_on(serve(folder.path(), &wasm));
    let host_call = async || call(&*set, "calculate", expression()).await;
    runtime.block_on(times(WARM_UP, host_call));
    counted(|| runtime.block_on(times(CALLS, host_call)));
}

/// The component is compiled in this process: one compiled by a child has instructions of the processor, and
/// callgrind's has fewer.
async fn serve(folder: &Path, wasm: &[u8]) -> Arc<dyn ToolSet> {
    let (tools, cache) = (folder.join("tools"), folder.join("cache"));
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("calculator.wasm"), wasm).unwrap();
    Precompiler::new(cache.clone(), false).unwrap().compile(wasm).unwrap();
    let config = config(&tools, PolicyFile::None, &Handle::current());
    begin(Config { cache: Some(cache), ..config }).await.everything()
}

async fn times(calls: usize, call: impl AsyncFn()) {
    for _ in 0..calls {
        call().await;
    }
}

/// Callgrind collects in this function: its options name it.
#[inline(never)]
fn counted(calls: impl FnOnce()) {
    calls();
}
