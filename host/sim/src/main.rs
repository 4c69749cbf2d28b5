//! `cargo xtask sim`: simulates for some minutes, or one seed to look at it.
#![expect(clippy::print_stdout, reason = "a command speaks to whoever runs it")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use mimalloc::MiMalloc;
use sim::mutation::Mutation;
use sim::simulation::{Outcome, Simulation};
use sim::tally::Tally;
use sim::{shrink, timeline};

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
    mutation: Option<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mutation = match &arguments.mutation {
        Some(name) => Some(Mutation::of_name(name).with_context(|| format!("there is no mutation {name}"))?),
        None => None,
    };
    let simulation = Simulation { seed: arguments.seed, mutation, ..Simulation::default() };
    if arguments.trace {
        let outcome = Simulation { keeps_trace: true, ..simulation.clone() }.run();
        if let Some(broken) = outcome.broken.as_ref().filter(|_| arguments.whole) {
            print!("{}", timeline::timeline(&outcome.trace));
            println!("seed {}: {broken}", simulation.seed);
            return Ok(ExitCode::FAILURE);
        }
        return Ok(show(&simulation, outcome));
    }
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(arguments.minutes * 60.0));
    let mut tally = Tally::default();
    let mut failed = BTreeMap::<&'static str, Vec<u64>>::new();
    for seed in arguments.seed.. {
        let simulation = Simulation { seed, ..simulation.clone() };
        let outcome = simulation.run();
        tally.add(&outcome.counts);
        tally.took = began.elapsed();
        if let Some(broken) = outcome.broken.as_ref().filter(|_| arguments.all) {
            failed.entry(broken.rule).or_default().push(seed);
        } else if outcome.broken.is_some() {
            println!("{}", tally.report());
            return Ok(show(&simulation, outcome));
        }
        let is_over = match arguments.seeds {
            Some(seeds) => seed + 1 - arguments.seed >= seeds,
            None => tally.took >= limit,
        };
        if is_over {
            println!("seeds              {} to {seed}", arguments.seed);
            break;
        }
    }
    println!("{}", tally.report());
    let missing = tally.missing();
    for missing in &missing {
        println!("never reached: {missing}");
    }
    for (rule, seeds) in &failed {
        println!("broken {} times: {rule}: {:?}", seeds.len(), seeds.iter().take(8).collect::<Vec<_>>());
    }
    let is_well = failed.is_empty() && (missing.is_empty() || !arguments.strict);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A simulation with what it came to; of one that failed the shortest that fails alike.
fn show(simulation: &Simulation, outcome: Outcome) -> ExitCode {
    let Some(broken) = outcome.broken else {
        print!("{}", timeline::timeline(&outcome.trace));
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
    print!("{}", timeline::timeline(&shortest.trace));
    println!("seed {}: {}", simulation.seed, shortest.broken.unwrap_or(broken));
    ExitCode::FAILURE
}
