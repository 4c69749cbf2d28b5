//! From the provider's first byte to the first event with words of it at the client, while so many streams
//! are open. (`run.started` comes earlier: the provider is asked after it.)
//!
//! As many streams begin in a second whether one is open at a time or a thousand: they are paused for longer.
//! So the rows tell what open streams cost those that begin, and not how many can begin.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::provider::Provider;
use crate::script::Script;
use crate::service::Service;
use crate::turn::{self, Outcome, Plan, Target};

/// How many streams are open at once.
const STREAMS: [usize; 3] = [1, 100, 1_000];

/// How many of them begin in a second, about.
const BEGINNINGS: usize = 500;

const DELTAS: usize = 5;

/// How long streams are begun anew in one turn, after all are open.
const TURN: Duration = Duration::from_secs(1);

/// Turns of each contender.
const TURNS: usize = 2;

/// Of the median and of p99, in milliseconds.
const AIM: f64 = 2.0;

/// Measures and prints. Answers how many streams were cut.
pub(crate) fn measure(runtime: &Runtime, provider: &Provider) -> usize {
    let services = Service::variant_a_of_all(provider.address);
    let targets = Target::beside_direct(provider, &services);
    let mut cut = 0;
    for streams in STREAMS {
        let pause = Duration::from_secs(1) * u32::try_from(streams).unwrap() / BEGINNINGS as u32;
        let plan = Plan { streams, script: Script { deltas: DELTAS, pause: Some(pause) }, turn: TURN };
        let mut outcomes: Vec<_> = targets.iter().map(|_| Outcome::default()).collect();
        for _ in 0..TURNS {
            for (target, outcome) in targets.iter().zip(&mut outcomes) {
                outcome.add(runtime.block_on(turn::run(*target, plan)));
            }
        }
        report(plan, &targets, &outcomes);
        cut += outcomes.iter().map(|outcome| outcome.cut).sum::<usize>();
    }
    cut
}

fn report(plan: Plan, targets: &[Target], outcomes: &[Outcome]) {
    let pause = plan.script.pause.unwrap_or_default();
    println!(
        "\nprovider's first byte to first event, {} stream(s) open, each paused for {} ms after its first of {DELTAS} deltas",
        plan.streams,
        pause.as_millis()
    );
    println!("  {:<30} {:>9} {:>10} {:>10} {:>6}", "", "streams", "p50 µs", "p99 µs", "cut");
    let mut loads: Vec<_> = outcomes.iter().map(Outcome::load_of_first_events).collect();
    for ((target, outcome), load) in targets.iter().zip(outcomes).zip(&mut loads) {
        let (count, cut) = (load.times.len(), load.failures);
        let (p50, p99) = (load.percentile(50), load.percentile(99));
        println!("  {:<30} {count:>9} {p50:>10.0} {p99:>10.0} {cut:>6}", target.name);
        outcome.report_cut();
    }
    let direct = [50, 99].map(|percent| loads[0].percentile(percent) / 1e3);
    let [p50, p99] = [50, 99].map(|percent| loads[1].percentile(percent) / 1e3);
    let missed = |milliseconds: f64| if milliseconds > AIM { ", missed" } else { "" };
    println!(
        "  {}: p50 {p50:.2} ms (aim: at most {AIM}{}), p99 {p99:.2} ms (aim: at most {AIM}{}); added to the direct one: p50 {:.2} ms, p99 {:.2} ms",
        targets[1].name,
        missed(p50),
        missed(p99),
        p50 - direct[0],
        p99 - direct[1]
    );
}
