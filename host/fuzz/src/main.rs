//! `cargo xtask fuzz`: targets in turn, until the time is over. What was executed is added to the numbers
//! that are kept (`host/docs/evidence/fuzzing.json`), of which the table of the page is made.
#![expect(clippy::print_stdout, reason = "a command speaks to whoever runs it")]

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Parser;
use fuzz::mutation::{Input, mutated};
use fuzz::{TARGETS, Target, corpus, executions, guided};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

/// Cases between two looks at the clock, as a share of what a test makes.
const SHARE: u32 = 4;

#[derive(Parser)]
#[command(name = "fuzz", about = "Strangers' bytes for every parser")]
struct Arguments {
    /// For how long, of all targets together.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Where the cases begin to be drawn.
    #[arg(long)]
    seed: Option<u64>,
    /// Only print: add nothing to the numbers that are kept.
    #[arg(long)]
    dry: bool,
    /// A build of `coverage.rs`: the targets are guided by what code an input reaches.
    #[arg(long, requires = "work")]
    guided: Option<PathBuf>,
    /// Where libFuzzer keeps what it finds.
    #[arg(long)]
    work: Option<PathBuf>,
    /// Some of the targets; all of them without.
    targets: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let targets = chosen(&arguments.targets)?;
    let began = Instant::now();
    let within = Duration::try_from_secs_f64(arguments.minutes * 60.0).context("minutes of a run")?;
    if let Some((program, work)) = arguments.guided.as_deref().zip(arguments.work.as_deref()) {
        let seconds = (within / u32::try_from(targets.len())?).as_secs().max(1);
        for target in targets {
            let executed = guided::fuzz(target, program, work, seconds);
            println!("{:<18} {:>12}", target.name, executed.with_context(|| target.name)?);
        }
        return Ok(());
    }
    let mut counts = vec![(0_u64, Duration::ZERO); targets.len()];
    let mut seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    while began.elapsed() < within {
        for (target, (count, slowest)) in targets.iter().zip(&mut counts) {
            *count += u64::from(attack(target, seed, slowest)?);
        }
        seed = seed.wrapping_add(1);
    }
    for (target, (count, slowest)) in targets.iter().zip(&counts) {
        println!("{:<18} {count:>12}   the slowest took {:.1} ms", target.name, slowest.as_secs_f64() * 1e3);
    }
    if !arguments.dry {
        let made = targets.iter().map(|target| target.name).zip(counts.iter().map(|(count, _)| *count));
        executions::add(executions::Kind::Mutated, made)?;
    }
    Ok(())
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Target>> {
    if names.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    let named = |name: &String| TARGETS.iter().find(|target| target.name == *name);
    names.iter().map(|name| named(name).with_context(|| format!("there is no target {name}"))).collect()
}

/// Some cases of a target, and how many there were. `slowest` becomes what the slowest of them took.
fn attack(target: &Target, seed: u64, slowest: &mut Duration) -> anyhow::Result<u32> {
    let cases = target.cases.div_ceil(SHARE);
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(seed),
        ..Config::default()
    });
    let kept = corpus::read(target.name).with_context(|| format!("the corpus of {}", target.name))?;
    let longest = Cell::new(*slowest);
    let run = |Input(bytes): Input| {
        let took = target.take(&bytes).map_err(TestCaseError::fail)?;
        longest.set(longest.get().max(took));
        Ok(())
    };
    let ended = runner.run(&mutated(kept), run);
    *slowest = longest.get();
    match ended {
        Ok(()) => Ok(cases),
        Err(TestError::Fail(why, input)) => {
            bail!("{}, seed {seed}: {why}\nthe input is {input:?}", target.name)
        }
        Err(TestError::Abort(why)) => bail!("{}: {why}", target.name),
    }
}
