//! Kills of the real binary with a job under way, at moments that a seed decides, and what was lost or paid
//! twice.
//!
//! - `plan.rs`: the kills of an order, from its seed alone.
//! - `scene.rs`: the model and the server of the tools, which count what is asked of them.
//! - `lane.rs`: makes kills one after the other on stores of its own (`stores.rs`); `kill.rs`: one of them.
//! - `reader.rs`: follows the stream of a job over the death; `decider.rs`: decides about what jobs wait for
//!   (`--waits`); `swaps.rs`: swaps the tools (`--swaps`).
//! - `beside.rs`: the same where the process that is killed and the one that goes on are of different
//!   versions.
//! - `place.rs`: where a kill has hit, from what queue and journal held when the worker was dead.
//! - `judge.rs`: what came of it; `report.rs`: the table.
//!
//! Nothing is counted from the service's log or metrics.

mod beside;
mod decider;
mod judge;
mod kill;
mod lane;
mod place;
mod plan;
mod reader;
mod report;
mod scene;
mod stores;
mod swaps;

use std::sync::atomic::Ordering;

use futures::future::join_all;

pub(crate) use beside::OldBinary;
pub(crate) use plan::{Heir, Order, StoreKind, Versions, plan};
pub(crate) use report::Report;

use plan::{LANES_PER_STORE, PlannedKill};
use scene::Scene;

/// Makes these kills, with the old binary if the plan has kills of more than one version, and tells how many
/// were made once a minute: the report comes at the end.
pub(crate) async fn make(kills: Vec<PlannedKill>, old: Option<&OldBinary>, tell: impl Fn(usize)) -> Report {
    let scene = Scene::of(&kills).await;
    let mut lanes: Vec<Vec<PlannedKill>> = Vec::new();
    for store in StoreKind::ALL {
        let of_store: Vec<_> = kills.iter().filter(|kill| kill.store == store).cloned().collect();
        for lane in 0..LANES_PER_STORE {
            lanes.push(of_store.iter().skip(lane).step_by(LANES_PER_STORE).cloned().collect());
        }
    }
    let scene = &scene;
    let hits = lanes.into_iter().map(|kills| async move {
        match old {
            Some(old) => beside::run(kills, scene, old).await,
            None => lane::run(kills, scene).await,
        }
    });
    let hits = tokio::select! {
        hits = join_all(hits) => hits,
        never = scene.tell_progress(tell) => match never {},
    };
    Report::new(hits.into_iter().flatten().collect(), scene.swaps.load(Ordering::Relaxed))
}
