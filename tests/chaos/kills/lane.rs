//! One kill after the other on the same stores: whoever goes on with a job is killed with the next one.

use acceptance::{Builder, Service, eventually};
use tokio::time::Instant;

use super::kill::{Hit, follow, settle, strike};
use super::plan::{Heir, PlannedKill};
use super::scene::Scene;
use super::stores::Stores;

/// Makes these kills, all of one store.
pub(super) async fn run(kills: Vec<PlannedKill>, scene: &Scene) -> Vec<Hit> {
    let Some(first) = kills.first() else { return Vec::new() };
    let stores = Stores::start(first.store).await;
    let mut service = begin(scene.around(stores.service())).await;
    let mut submitted = Vec::new();
    for kill in kills {
        let next = heir(&kill, scene.around(stores.service()), &service);
        let orphan = strike(kill, scene, &stores, service).await;
        // What was on its way at the death has arrived by now.
        let begun = Instant::now();
        // Killed in its turn, so it is another one each time.
        service = begin(next).await;
        submitted.push(follow(orphan, scene, &service, begun).await);
    }
    settle(submitted, service, scene, &stores).await
}

/// Starts it and waits until it is ready: before it has prepared the database, it refuses jobs.
pub(super) async fn begin(builder: Builder) -> Service {
    let service = builder.start().await;
    eventually("a replica to be ready", async || (service.readiness().await.status == 200).then_some(()))
        .await;
    service
}

/// Whoever goes on after that service was killed.
pub(super) fn heir(kill: &PlannedKill, next: Builder, killed: &Service) -> Builder {
    match kill.heir {
        Heir::Other => next,
        Heir::Restarted => next.env("PORT", killed.address().port().to_string()),
    }
}
