//! Tools that never come back by themselves, or use up what the host must not let them have.

use std::hint::black_box;

use agent_tool_sdk::{Failure, NoArguments, log};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one step of [`allocate_forever`] takes, in bytes.
const BITE: usize = 1 << 20;
/// The size of a page of memory, in bytes: one write in each makes the whole resident.
const PAGE: usize = 4096;

/// The answer of a tool that never has one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) enum Never {}

pub(crate) fn loop_forever(_: NoArguments) -> Result<Never, Failure> {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

pub(crate) fn loop_past_its_timeout(nothing: NoArguments) -> Result<Never, Failure> {
    loop_forever(nothing)
}

pub(crate) fn allocate_forever(_: NoArguments) -> Result<Never, Failure> {
    let mut eaten = Vec::new();
    loop {
        let mut bite = vec![0_u8; BITE];
        bite.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
        eaten.push(black_box(bite));
    }
}

pub(crate) fn recurse_forever(_: NoArguments) -> Result<Never, Failure> {
    let depth = descend(0);
    Err(Failure::new("surfaced", format!("came back from depth {depth}")))
}

/// Calls itself for ever. The condition is there for the compiler only, and the sum so that it is no tail
/// call.
fn descend(depth: u64) -> u64 {
    if black_box(depth) == u64::MAX { depth } else { descend(depth + 1).wrapping_add(black_box(1)) }
}

/// How to trap.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manner {
    #[serde(default)]
    by: Trap,
}

/// The ways to trap.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Trap {
    /// An `unreachable` instruction.
    #[default]
    Unreachable,
    /// A Rust panic, whose message goes to the log.
    Panic,
    /// A write beyond the end of memory.
    OutOfBounds,
}

#[expect(clippy::panic, reason = "to panic is what it is for")]
pub(crate) fn trap(manner: Manner) -> Result<Never, Failure> {
    match manner.by {
        Trap::Unreachable => abort(),
        Trap::Panic => panic!("this tool panics on purpose"),
        Trap::OutOfBounds => write_out_of_bounds(),
    }
}

fn abort() -> ! {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    std::process::abort()
}

fn write_out_of_bounds() -> ! {
    let beyond = black_box(usize::MAX - PAGE) as *mut u8;
    // SAFETY: not safe at all, and the point of it: in a sandbox, the last page of the address space is not
    // there.
    unsafe { beyond.write_volatile(1) };
    abort()
}

/// How much to write to the log.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Flood {
    /// How many lines.
    lines: u32,
    /// How many bytes in each.
    bytes: u32,
}

impl Default for Flood {
    fn default() -> Self {
        Self { lines: 100_000, bytes: 64 * 1024 }
    }
}

pub(crate) fn flood_log(flood: Flood) -> Result<Flood, Failure> {
    let line = "flood ".chars().cycle().take(flood.bytes as usize).collect::<String>();
    for _ in 0..flood.lines {
        log::info(&line);
    }
    Ok(flood)
}
