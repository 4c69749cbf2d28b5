//! `cargo xtask sim`: simulates for some minutes, or one seed to look at it.
#![expect(clippy::print_stdout, reason = "a command speaks to whoever runs it")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use mimalloc::MiMalloc;
use sim::faults::mutation::Mutation;
use sim::simulation::Simulation;
use sim::simulation::shrink;
use sim::simulation::tally::Tally;
use sim::world::{Line, Outcome};

/// A third of the time goes into memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[derive(Parser)]
struct Arguments {
    /// How long simulations are made, one after the other.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Makes so many simulations instead, however long that takes.
    #[arg(long, conflicts_with = "minutes")]
    seeds: Option<u64>,
    /// The first seed, or the only one with `--trace`.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many simulations are made at the same time, each in a thread of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    threads: u8,
    /// Shows the simulation of the seed as a time line.
    #[arg(long)]
    trace: bool,
    /// Shows a simulation that fails with all its faults: looking for the fewest takes minutes.
    #[arg(long, requires = "trace")]
    whole: bool,
    /// Fails, too, when something was not reached that has to be: a recovery path, a kind of fault, a call to
    /// die at.
    #[arg(long)]
    strict: bool,
    /// Goes on behind failures, and says in the end which promises were broken by which seeds.
    #[arg(long)]
    all: bool,
    /// Puts this bug in on purpose, to be found
    #[arg(long)]
    mutation: Option<Mutation>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments { seed, mutation, .. } = arguments;
    let simulation = Simulation { seed, mutation, ..Simulation::default() };
    if arguments.trace {
        let outcome = Simulation { keeps_trace: true, ..simulation.clone() }.run();
        if let Some(broken) = outcome.broken.as_ref().filter(|_| arguments.whole) {
            show_trace(&outcome.trace);
            println!("seed {}: {broken}", simulation.seed);
            return ExitCode::FAILURE;
        }
        return show(&simulation, outcome);
    }
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(arguments.minutes * 60.0));
    let mut tally = Tally::default();
    let mut failed = BTreeMap::<&'static str, Vec<u64>>::new();
    let mut first_broken = None;
    let last = arguments.seeds.map_or(u64::MAX, |seeds| arguments.seed.saturating_add(seeds));
    let mut newest = arguments.seed;
    each_of(arguments.threads, arguments.seed..last, &simulation, |made, outcome| {
        tally.add(&outcome.counts);
        tally.took = began.elapsed();
        newest = newest.max(made.seed);
        if let Some(broken) = outcome.broken.as_ref().filter(|_| arguments.all) {
            failed.entry(broken.rule).or_default().push(made.seed);
        } else if outcome.broken.is_some() {
            first_broken = Some((made, outcome));
            return false;
        }
        arguments.seeds.is_some() || tally.took < limit
    });
    if let Some((made, outcome)) = first_broken {
        println!("{}", tally.report());
        return show(&made, outcome);
    }
    println!("seeds              {} to {newest}", arguments.seed);
    println!("{}", tally.report());
    let missing = tally.missing();
    missing.iter().for_each(|missing| println!("never reached: {missing}"));
    for (rule, seeds) in &failed {
        println!("broken {} times: {rule}: {:?}", seeds.len(), seeds.iter().take(8).collect::<Vec<_>>());
    }
    let is_well = failed.is_empty() && (missing.is_empty() || !arguments.strict);
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Makes the simulations of these seeds in so many threads, and gives each with what it came to to `take`,
/// until that says that it is enough.
fn each_of(
    threads: u8,
    seeds: std::ops::Range<u64>,
    simulation: &Simulation,
    mut take: impl FnMut(Simulation, Outcome) -> bool,
) {
    let next = &AtomicU64::new(seeds.start);
    thread::scope(|scope| {
        let (give, given) = mpsc::sync_channel(1);
        for _ in 0..threads {
            let (give, end) = (give.clone(), seeds.end);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    let simulation = Simulation { seed, ..simulation.clone() };
                    if seed >= end || give.send((simulation.clone(), simulation.run())).is_err() {
                        break;
                    }
                }
            });
        }
        drop(give);
        for (simulation, outcome) in given {
            if !take(simulation, outcome) {
                break;
            }
        }
    });
}

/// A simulation with what it came to; of one that failed the shortest that fails alike.
fn show(simulation: &Simulation, outcome: Outcome) -> ExitCode {
    let Some(broken) = outcome.broken else {
        show_trace(&outcome.trace);
        println!("seed {}: nothing is broken", simulation.seed);
        return ExitCode::SUCCESS;
    };
    println!("seed {}: {broken}", simulation.seed);
    let faults = outcome.fired.len();
    let schedule = shrink::shortest(simulation, outcome.fired, broken.rule);
    println!("{} of {faults} faults are enough:", schedule.len());
    for (call, fault) in &schedule {
        println!("  at call {call}: {fault:?}");
    }
    let shortest = Simulation { schedule: Some(schedule), keeps_trace: true, ..simulation.clone() }.run();
    show_trace(&shortest.trace);
    println!("seed {}: {}", simulation.seed, shortest.broken.unwrap_or(broken));
    ExitCode::FAILURE
}

fn show_trace(lines: &[Line]) {
    lines.iter().for_each(|line| println!("{line}"));
}
