//! `cargo xtask chaos`: kills workers and prints what was lost or paid twice, as a table for
//! host/docs/evidence/kills.md.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it fails like a test"
)]
// cargo sets `test` for programs without its harness as well: their unit tests are compiled, and called in
// `it` only.
#![allow(dead_code, unused_imports, reason = "unit tests without a harness")]

mod kills;
#[path = "../benches/measuring/machine.rs"]
mod machine;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acceptance::agent_host;
use kills::{Heir, OldBinary, Order, Report, StoreKind, Versions};
use sha2::{Digest as _, Sha256};

/// The command line: what is killed, and which of the plan's kills if not all.
struct Wanted {
    order: Order,
    only: Option<usize>,
    beside: Option<Beside>,
}

/// The binary of another version, and what the command line calls it.
struct Beside {
    file: PathBuf,
    option: String,
}

fn main() -> ExitCode {
    let wanted = match read(std::env::args().skip(1)) {
        Ok(wanted) => wanted,
        Err(problem) => {
            println!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let mut plan = kills::plan(&wanted.order);
    plan.retain(|kill| wanted.only.is_none_or(|number| kill.number == number));
    if plan.is_empty() {
        println!("the plan has no such kill");
        return ExitCode::FAILURE;
    }
    let [ours, theirs] = [Some(&*agent_host()), wanted.beside.as_ref().map(|beside| &*beside.file)]
        .map(|file| file.map(digest));
    if ours == theirs {
        println!("the old binary and the new one are the same");
        return ExitCode::FAILURE;
    }
    let old = wanted.beside.as_ref().map(|beside| OldBinary::at(&beside.file));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let begun = std::time::Instant::now();
    let ordered = plan.len();
    let tell = |made| println!("{made} of {ordered} kills made");
    // Interrupted, it drops its servers, which ends them.
    let made = runtime.block_on(async {
        tokio::select! {
            report = kills::make(plan, old.as_ref(), tell) => Some(report),
            _ = tokio::signal::ctrl_c() => None,
        }
    });
    let Some(report) = made else {
        println!("interrupted: nothing was judged");
        return ExitCode::FAILURE;
    };
    print(&wanted, &report);
    if let (Some(ours), Some(theirs)) = (ours, theirs) {
        println!("SHA-256 of the old binary {theirs}, of the new one {ours}.");
    }
    println!("Took {} s.", begun.elapsed().as_secs());
    let is_in_vain = report.that_hit() == 0 || (wanted.order.swaps && report.swaps == 0);
    if is_in_vain {
        println!("nothing is shown by this: no job was under way, or no tools were swapped");
    }
    if report.total().broken() == 0 && !is_in_vain { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(Wanted { order, beside, .. }: &Wanted, report: &Report) {
    let Order { kills, seed, stores, .. } = order;
    let beside = beside.as_ref().map(|beside| format!(" {}", beside.option)).unwrap_or_default();
    let waits = if order.waits { " --waits" } else { "" };
    let swaps = if order.swaps { " --swaps" } else { "" };
    let stores = if stores.len() == 1 { stores[0].name() } else { "all" };
    println!("`cargo xtask chaos --kills {kills} --seed {seed} --store {stores}{waits}{swaps}{beside}`");
    println!("{}", machine::describe());
    println!("{} kills, {} of them of a job that had not ended", report.kills(), report.that_hit());
    if order.swaps {
        println!("{} swaps of the tools", report.swaps);
    }
    println!("{}", report.table());
    print!("{}", report.broken());
}

fn digest(file: &Path) -> String {
    let bytes = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    format!("{:.16x}", Sha256::digest(bytes))
}

/// Arguments `--name=value`, as xtask has checked them.
fn read(arguments: impl Iterator<Item = String>) -> Result<Wanted, String> {
    let mut values = BTreeMap::new();
    for argument in arguments {
        let (name, value) = argument.split_once('=').ok_or_else(|| format!("{argument} has no value"))?;
        values.insert(name.to_owned(), value.to_owned());
    }
    let mut number = |name: &str| {
        let value = values.remove(name);
        value
            .map(|value| value.parse::<u64>().map_err(|_none| format!("{name} {value} is no number")))
            .transpose()
    };
    let (kills, seed, only) = (number("--kills")?, number("--seed")?, number("--only")?);
    let stores = match values.remove("--store").as_deref() {
        None | Some("all") => StoreKind::ALL.to_vec(),
        Some(name) => {
            let known = StoreKind::ALL.into_iter().find(|store| store.name() == name);
            vec![known.ok_or_else(|| format!("there is no store {name}"))?]
        }
    };
    let waits = values.remove("--waits").is_some();
    let swaps = values.remove("--swaps").is_some();
    let option = values.remove("--beside-option");
    let beside = values.remove("--beside-binary").map(|file| Beside {
        option: option.unwrap_or_else(|| format!("--beside-binary {file}")),
        file: file.into(),
    });
    if let Some(unknown) = values.keys().next() {
        return Err(format!("there is no {unknown}"));
    }
    let count = |number: u64| usize::try_from(number).map_err(|_too_many| "that is too many".to_owned());
    let order = Order {
        waits,
        swaps,
        kills: count(kills.unwrap_or(100))?,
        seed: seed.unwrap_or(1),
        stores,
        heirs: vec![Heir::Other, Heir::Restarted],
        versions: if beside.is_some() { Versions::BOTH_WAYS.to_vec() } else { vec![Versions::Same] },
    };
    Ok(Wanted { order, only: only.map(count).transpose()?, beside })
}
