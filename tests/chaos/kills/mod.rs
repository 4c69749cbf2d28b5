//! Kills of the real binary with a job under way, at moments that a seed decides, and what was lost or paid twice.
//!
//! - `plan.rs`: the kills of an order, from its seed alone.
//! - `scene.rs`: the model and the server of the tools, which count what is asked of them.
//! - `lane.rs`: makes kills one after the other on stores of its own (`stores.rs`).
//! - `place.rs`: where a kill has hit, from what queue and journal held when the worker was dead.
//! - `judge.rs`: what came of it; `report.rs`: the table.
//!
//! Nothing is counted from the service's log or metrics.

mod judge;
mod lane;
mod place;
mod plan;
mod report;
mod scene;
mod stores;

use futures::future::join_all;

pub(crate) use plan::{Heir, Order, StoreKind, plan};
pub(crate) use report::Report;

use plan::PlannedKill;
use scene::Scene;

/// How many kills of one store are under way at a time: most of the time is spent waiting for leases to end.
const LANES_PER_STORE: usize = 2;

/// Makes these kills.
pub(crate) async fn make(kills: Vec<PlannedKill>) -> Report {
    let scene = Scene::of(&kills).await;
    let mut lanes: Vec<Vec<PlannedKill>> = Vec::new();
    for store in StoreKind::ALL {
        let of_store: Vec<_> = kills.iter().filter(|kill| kill.store == store).cloned().collect();
        for lane in 0..LANES_PER_STORE {
            lanes.push(of_store.iter().skip(lane).step_by(LANES_PER_STORE).cloned().collect());
        }
    }
    let hits = join_all(lanes.into_iter().map(|kills| lane::run(kills, &scene))).await;
    Report::new(hits.into_iter().flatten().collect())
}
