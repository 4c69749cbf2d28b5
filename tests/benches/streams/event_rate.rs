//! How many events a second so many streams bring together, when the provider sends as quickly as it can.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::provider::Provider;
use crate::script::Script;
use crate::service::Service;
use crate::turn::{self, Outcome, Plan, Target};

/// How many streams are read at once.
const STREAMS: [usize; 3] = [1, 100, 1_000];

/// Deltas of each, every one a write of the provider's.
const DELTAS: usize = 200;

/// How long streams are begun anew in one turn. Those under way are read to their ends.
const TURN: Duration = Duration::from_secs(1);

/// Turns of each contender.
const TURNS: usize = 2;

/// Measures and prints. Answers how many streams were cut.
pub(crate) fn measure(runtime: &Runtime, provider: &Provider) -> usize {
    let services = Service::variant_a_of_all(provider.address);
    let targets = Target::beside_direct(provider, &services);
    println!("\nevents per second, {DELTAS} deltas a stream, {TURNS} turns of {} ms each", TURN.as_millis());
    println!("  {:<40} {:>10} {:>9} {:>6} {:>17}", "", "events/s", "whole", "cut", "events per delta");
    let script = Script { deltas: DELTAS, pause: Some(Duration::ZERO) };
    let mut cut = 0;
    for streams in STREAMS {
        let mut outcomes: Vec<_> = targets.iter().map(|_| Outcome::default()).collect();
        for _ in 0..TURNS {
            for (target, outcome) in targets.iter().zip(&mut outcomes) {
                let plan = Plan { streams, script, turn: TURN };
                outcome.add(runtime.block_on(turn::run(*target, plan)));
            }
        }
        for (target, outcome) in targets.iter().zip(&outcomes) {
            report(streams, target.name, outcome);
        }
        for (target, outcome) in targets.iter().zip(&outcomes).skip(1) {
            let share = outcome.rate() / outcomes[0].rate();
            println!("    {}, of what the provider sends: {share:.2}", target.name);
        }
        cut += outcomes.iter().map(|outcome| outcome.cut).sum::<usize>();
    }
    for service in &services {
        println!(
            "  resident memory, {}: {:.1} MiB at most, all {} streams of a turn at their busiest",
            service.name,
            service.running.peak_mib(),
            STREAMS[2]
        );
    }
    cut
}

/// Fewer events than deltas are deltas that were read together.
fn report(streams: usize, name: &str, outcome: &Outcome) {
    let sent = (outcome.whole + outcome.cut) * DELTAS;
    println!(
        "  {:<40} {:>10.0} {:>9} {:>6} {:>17.3}",
        format!("{streams} stream(s), {name}"),
        outcome.rate(),
        outcome.whole,
        outcome.cut,
        outcome.events as f64 / sent as f64
    );
    outcome.report_cut();
}

impl Outcome {
    /// Events per second.
    fn rate(&self) -> f64 {
        self.events as f64 / self.elapsed.as_secs_f64()
    }
}
