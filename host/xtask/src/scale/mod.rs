//! `cargo xtask scale`: what breaks first when there are more replicas, from what jobs and requests were
//! measured to cost the stores.
//!
//! - `tests/scale/` measures, on the real binary and the real stores, and writes `host/scale.json`
//!   (`--measure`).
//! - `costs.rs` reads that; `deployment.rs` makes a network of queues of it; `simulation/` simulates any such
//!   network.
//! - `report.rs` is the tables, which are written into `host/docs/evidence/scale.md`.

mod costs;
mod deployment;
mod report;
mod simulation;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use self::costs::{Costs, FILE, Queue};
use self::deployment::Load;
use crate::robustness::chaos::run_program;
use crate::test;

/// Where the tables are written.
const DOCUMENT: &str = "host/docs/evidence/scale.md";

/// Each pair stands around what is written between it.
const COSTS: [&str; 2] =
    ["<!-- costs: written by cargo xtask scale --measure -->\n", "<!-- end of costs -->\n"];
const MODEL: [&str; 2] = ["<!-- model: written by cargo xtask scale -->\n", "<!-- end of model -->\n"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Measure first what jobs and requests cost the stores: about ten minutes, best on a machine that does
    /// nothing else.
    #[arg(long)]
    measure: bool,
    /// Requests that each replica answers in a second.
    #[arg(long, default_value_t = 5.0)]
    requests: f64,
    /// Share of these that the cache answers.
    #[arg(long, default_value_t = 0.5)]
    hits: f64,
    /// Share of a replica's five workers that are busy.
    #[arg(long, default_value_t = 0.8)]
    busy_workers: f64,
    /// How long a run waits for its model.
    #[arg(long, default_value_t = 2.0)]
    model_seconds: f64,
    /// Processors of a PostgreSQL server.
    #[arg(long, default_value_t = 4)]
    postgres_cores: usize,
    /// Memory of a Redis server, in GiB.
    #[arg(long, default_value_t = 16.0)]
    redis_gib: f64,
    /// Decides when who comes in the simulation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Measures if that is wanted, simulates, and writes the tables.
pub(crate) fn write(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let load = arguments.load()?;
    if arguments.measure {
        test::install_stores(repository)?;
        run_program(repository, "scale", &[repository.join(FILE).display().to_string()])?;
    }
    let costs = Costs::read(repository)?;
    let (measured, model) = (report::of_costs(&costs), report::of_model(&costs, &load, arguments.seed));
    println!("{measured}\n{model}");
    let document = repository.join(DOCUMENT);
    let text = fs::read_to_string(&document).with_context(|| format!("reading {DOCUMENT}"))?;
    let text = replaced(&replaced(&text, COSTS, &measured)?, MODEL, &model)?;
    fs::write(&document, text).with_context(|| format!("writing {DOCUMENT}"))
}

impl Arguments {
    /// The load, if there can be such a one.
    fn load(&self) -> anyhow::Result<Load> {
        let share = 0.0..=1.0;
        ensure!(share.contains(&self.hits), "--hits is a share: from 0 to 1");
        ensure!(share.contains(&self.busy_workers), "--busy-workers is a share: from 0 to 1");
        ensure!((0.0..=1e6).contains(&self.requests), "--requests is a rate: from 0 to 1000000");
        ensure!((0.001..=3600.0).contains(&self.model_seconds), "--model-seconds is from 0.001 to 3600");
        ensure!((1..=1024).contains(&self.postgres_cores), "--postgres-cores is from 1 to 1024");
        ensure!((0.001..=1e6).contains(&self.redis_gib), "--redis-gib is from 0.001 to 1000000");
        Ok(Load {
            queue: Queue::Redis,
            requests: self.requests,
            hits: self.hits,
            busy_workers: self.busy_workers,
            model_seconds: self.model_seconds,
            postgres_cores: self.postgres_cores,
            redis_gib: self.redis_gib,
        })
    }
}

/// The text with something else between two lines of it.
fn replaced(text: &str, [begin, end]: [&str; 2], content: &str) -> anyhow::Result<String> {
    let (before, rest) = text.split_once(begin).with_context(|| format!("{DOCUMENT} has no {begin}"))?;
    let (_, after) = rest.split_once(end).with_context(|| format!("{DOCUMENT} has no {end}"))?;
    Ok(format!("{before}{begin}{content}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_two_marks_is_replaced_and_nothing_else() {
        let text = format!("a\n{}old\n{}b\n", COSTS[0], COSTS[1]);
        let expected = format!("a\n{}new\n{}b\n", COSTS[0], COSTS[1]);
        assert_eq!(replaced(&text, COSTS, "new\n").unwrap(), expected);
        assert!(replaced(&text, MODEL, "new\n").is_err());
    }

    #[test]
    fn the_document_has_room_for_both_tables() {
        let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let text = fs::read_to_string(repository.join(DOCUMENT)).unwrap();
        let text = replaced(&text, COSTS, "the costs\n").unwrap();
        assert!(replaced(&text, MODEL, "the model\n").unwrap().contains("the costs\n"));
    }
}
