//! The price of durability: what an agent's run of three model calls and two tool calls costs, submitted and
//! its answer read, where every step survives the death of the process; beside the engines that people would
//! pick.
//!
//! All have the same provider, which answers at once. In each round every engine is started, warmed, measured
//! with one run and with 32 at a time, and stopped, so that none idles beside another. How often they flush
//! is counted by strace in a pass of its own. Then the engine's processes are killed in the middle of a run.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "a benchmark")]

#[path = "../variant_b/callers.rs"]
#[allow(dead_code, reason = "each run has a caller by its number here")]
mod callers;
#[path = "../variant_b/deployments.rs"]
#[allow(dead_code, reason = "the Node deployment has an agent with tools here")]
mod deployments;
mod engines;
mod flushes;
mod kill;
mod load;
#[path = "../measuring/mod.rs"]
mod measuring;
mod processes;
mod provider;
mod site;
#[path = "../lone/syscalls.rs"]
#[allow(dead_code, reason = "only flushes are counted here, and not by name")]
mod syscalls;
mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};

use engines::Engine;
use flushes::Flushes;
use load::Loads;
use measuring::machine;
use provider::Provider;
use site::Site;
use table::Row;
use tokio::runtime::Runtime;

/// How often each engine has its turn.
const ROUNDS: usize = 3;

/// How many runs are under way at a time.
const UNDER_WAY: [usize; 2] = [1, 32];

fn main() {
    let (runtime, provider) = (Runtime::new().unwrap(), Provider::start());
    let engines = engines::wanted();
    let mut rows: Vec<_> = engines.iter().map(|engine| Row::new(engine.as_ref())).collect();
    println!("machine: {}", machine::describe());
    let mut disk = flushes::Disk::default();
    for round in 1..=ROUNDS {
        for (engine, row) in engines.iter().zip(&mut rows) {
            eprint(&format!("round {round} of {ROUNDS}: {}", row.title()));
            row.attempt(|row| {
                let site = Site::prepare(&runtime, provider.address, engine.stores());
                disk.measure(site.home());
                measure(engine.as_ref(), &site, row);
            });
        }
    }
    for (engine, row) in engines.iter().zip(&mut rows) {
        eprint(&format!("flushes and kills: {}", row.title()));
        row.attempt(|row| {
            let site = Site::prepare(&runtime, provider.address, engine.stores());
            row.flushes = count_flushes(engine.as_ref(), &site);
            row.kills = kill::measure(engine.as_ref(), &site, &provider);
        });
    }
    println!("fdatasync of a page on the stores' file system, before every turn: {}", disk.describe());
    table::print(&mut rows);
}

/// Gives an engine its turn of one round.
fn measure(engine: &dyn Engine, site: &Site, row: &mut Row) {
    let deployment = engine.start(site);
    for (under_way, loads) in UNDER_WAY.into_iter().zip(&mut row.loads) {
        loads.measure(engine, &deployment, site, under_way);
    }
    row.memory = row.memory.max(deployment.memory(site));
}

fn count_flushes(engine: &dyn Engine, site: &Site) -> [Flushes; 2] {
    let deployment = engine.start(site);
    UNDER_WAY.map(|under_way| {
        Loads::warm_up(engine, &deployment, under_way);
        let processes = [deployment.processes(), site.processes()].concat();
        flushes::count(&processes, site.home(), || Loads::counted(engine, &deployment, under_way))
    })
}

/// Runs what may fail for one engine: the others are measured all the same.
fn guarded(attempt: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(attempt)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it failed").to_owned()
    })
}

/// Minutes pass before there is a table.
#[allow(clippy::print_stderr, reason = "a benchmark")]
fn eprint(text: &str) {
    eprintln!("{text}");
}
