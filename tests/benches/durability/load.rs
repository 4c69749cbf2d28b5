//! Runs that are submitted and whose answers are read, one after the other on each connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::engines::{Deployment, Engine};
use crate::measuring::client::{self, Connection, Load, Turn};
use crate::processes::processor_time;
use crate::provider::expected;
use crate::site::Site;

/// How long an engine is measured in one turn, after a while that does not count.
const TURN: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_millis(1500);

/// How long runs are made while flushes are counted.
const COUNTED: Duration = Duration::from_secs(2);

/// Runs of all engines have numbers of their own.
static RUNS: AtomicUsize = AtomicUsize::new(1);

/// What the turns of an engine came to, with so many runs under way.
#[derive(Default)]
pub(crate) struct Loads {
    pub(crate) load: Load,
    engine: Duration,
    stores: Duration,
}

pub(crate) fn next_run() -> usize {
    RUNS.fetch_add(1, Ordering::Relaxed)
}

impl Loads {
    pub(crate) fn measure(
        &mut self,
        engine: &dyn Engine,
        deployment: &Deployment,
        site: &Site,
        under_way: usize,
    ) {
        Self::warm_up(engine, deployment, under_way);
        let (own, stores) = (deployment.processes(), site.processes());
        let before = [processor_time(&own), processor_time(&stores)];
        let turn = run(engine, deployment, under_way, TURN);
        self.engine += processor_time(&own) - before[0];
        self.stores += processor_time(&stores).saturating_sub(before[1]);
        self.load.add(turn);
    }

    pub(crate) fn warm_up(engine: &dyn Engine, deployment: &Deployment, under_way: usize) {
        run(engine, deployment, under_way, WARM_UP);
    }

    /// How many answers there were while somebody counts.
    pub(crate) fn counted(engine: &dyn Engine, deployment: &Deployment, under_way: usize) -> usize {
        run(engine, deployment, under_way, COUNTED).times.len()
    }

    /// Milliseconds of processor time for each run: of the engine, and of the servers of its stores.
    pub(crate) fn processor_millis(&self) -> [f64; 2] {
        [self.engine, self.stores].map(|spent| spent.as_secs_f64() * 1e3 / self.load.times.len() as f64)
    }
}

fn run(engine: &dyn Engine, deployment: &Deployment, under_way: usize, lasting: Duration) -> Turn {
    client::run(deployment.address, under_way, lasting, || {
        move |connection: &mut Connection| {
            let run = next_run();
            let Some(submitted) = submit(engine, connection, run) else { return false };
            let response = connection.ask(&engine.read(run, &submitted));
            response.status == 200 && holds_answer(response.body, run)
        }
    })
}

/// Submits a run: what the engine says to it, if it takes it.
pub(crate) fn submit(engine: &dyn Engine, connection: &mut Connection, run: usize) -> Option<Value> {
    let response = connection.ask(&engine.submit(run));
    let is_taken = matches!(response.status, 200 | 202);
    is_taken.then(|| serde_json::from_slice(response.body).unwrap_or_default())
}

pub(crate) fn holds_answer(body: &[u8], run: usize) -> bool {
    let answer = expected(run);
    body.windows(answer.len()).any(|window| window == answer.as_bytes())
}
