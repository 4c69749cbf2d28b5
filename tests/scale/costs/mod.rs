//! What jobs and requests cost the stores, counted by the stores themselves around some of each: commands,
//! processor time and bytes of Redis, transactions, rows, processor time and bytes of PostgreSQL. What a
//! replica costs that does nothing is taken off.
//!
//! - `units.rs`: what is asked of the service.
//! - `counters.rs`: what the stores say.
//! - `bench.rs`: a service on both stores, and the measuring.

mod bench;
mod counters;
mod units;

use std::time::Duration;

use serde_json::{Value, json};

use bench::Bench;
use units::Unit;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// How many of each unit.
    pub(crate) units: usize,
    /// How many at once, where several are.
    pub(crate) lanes: usize,
    /// How long idle replicas and held jobs are looked at.
    pub(crate) lasting: Duration,
    /// How long after the last work PostgreSQL's statistics are whole.
    pub(crate) reported_after: Duration,
}

/// Where jobs are queued. Runs are in PostgreSQL with both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    Redis,
    Postgres,
}

/// Replicas of the second look at idle ones: what does not grow with them is shared by all.
const MORE_REPLICAS: usize = 3;

/// Measures all, as the JSON that `cargo xtask scale` reads.
pub(crate) async fn measure(order: Order) -> Value {
    let mut measured = json!({
        "each": order.units,
        "lanes": order.lanes,
        "redis": of_queue(Queue::Redis, order).await,
        "postgres": of_queue(Queue::Postgres, order).await,
    });
    measured["stores"] = bench::versions().await;
    measured
}

async fn of_queue(queue: Queue, order: Order) -> Value {
    let mut bench = Bench::start(queue, 1, order).await;
    let idle = bench.idle().await;
    let mut units = serde_json::Map::new();
    for unit in Unit::of(queue) {
        let alone = bench.cost(*unit, 1, &idle).await;
        let together = bench.cost(*unit, order.lanes, &idle).await;
        units.insert(unit.name().to_owned(), json!({ "alone": alone, "together": together }));
    }
    let (connections, held) = (bench.connections().await, bench.held(&idle).await);
    drop(bench);
    let more = Bench::start(queue, MORE_REPLICAS, order).await.idle().await;
    json!({
        "idle": idle,
        "idle_replica": counters::each_further(&idle, &more, MORE_REPLICAS),
        "held": held,
        "connections": connections,
        "units": units,
    })
}

/// Only the cost of one unit, each alone.
pub(crate) async fn of_a_job(order: Order) -> counters::Figures {
    let mut bench = Bench::start(Queue::Redis, 1, order).await;
    bench.cost(Unit::Job, 1, &counters::Figures::new()).await
}
