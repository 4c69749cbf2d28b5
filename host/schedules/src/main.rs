//! `cargo xtask shuttle`: so many schedules of each place, or of some of them.
#![expect(clippy::print_stdout, reason = "a command speaks to whoever runs it")]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use schedules::{PLACES, run};

#[derive(Parser)]
#[command(name = "schedules", about = "Code around locks under schedules that a seed draws")]
struct Arguments {
    /// How many of each place.
    #[arg(long, default_value_t = 1_000)]
    schedules: usize,
    /// What they are drawn by.
    #[arg(long, default_value_t = 2026)]
    seed: u64,
    /// Some of the places; all of them without.
    #[arg(value_parser = PossibleValuesParser::new(PLACES.map(|place| place.name)))]
    places: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_wanted =
        |name: &str| arguments.places.is_empty() || arguments.places.iter().any(|one| one == name);
    let mut failed = false;
    for place in PLACES.iter().filter(|place| is_wanted(place.name)) {
        let began = Instant::now();
        let ended = run(place.scenario, arguments.schedules, arguments.seed);
        let (took, count) = (began.elapsed().as_secs_f64(), arguments.schedules);
        match &ended {
            Ok(()) => println!("{:<14} {count:>9} schedules in {took:.1} s", place.name),
            Err(problem) => println!("{:<14} {problem}", place.name),
        }
        failed |= ended.is_err();
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
