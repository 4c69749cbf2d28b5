//! `kill -9` of the whole process with a backlog: every job that was acknowledged is done, and none twice.

use std::collections::BTreeSet;

use acceptance::{Gate, Model, Stores, says};
use serde_json::json;

use super::crowd::Crowd;

/// As many as a process works on at once (host/docs/interface/errors-and-limits.md#limits).
const ACTIVE: usize = 5;
const QUEUED: usize = 50;

async fn check_backlog(stores: Stores) {
    let model = Model::openai().await;
    let gates: Vec<_> = (0..ACTIVE).map(|_| model.holds(says("never heard"))).collect();
    model.always(|request| says(&format!("did {}", request.user_text())));
    let mut service = stores.service(&model).start().await;
    let crowd = Crowd::of(service.caller());
    let tickets = crowd.submit_all((0..ACTIVE + QUEUED).map(|n| format!("job {n}"))).await;
    model.was_asked(ACTIVE).await;
    service.killed().await;
    gates.into_iter().for_each(Gate::open);

    let service = stores.service(&model).env("PORT", service.address().port().to_string()).start().await;
    let jobs = Crowd::of(service.caller()).all_ended(&tickets).await;
    for (n, job) in jobs.iter().enumerate() {
        let did = json!(format!("did job {n}"));
        assert_eq!((&job["status"], &job["result"]["output"]), (&json!("completed"), &did), "{job:#}");
        assert_eq!(job["attemptsMade"], 1, "{job:#}");
    }
    let runs: BTreeSet<_> = jobs.iter().map(|job| job["result"]["id"].to_string()).collect();
    assert_eq!(runs.len(), ACTIVE + QUEUED);
    // Jobs that were cut off are asked again, and nothing else is.
    let calls = model.calls();
    assert_eq!(calls.len(), 2 * ACTIVE + QUEUED);
    let answered: BTreeSet<_> = calls[ACTIVE..].iter().map(acceptance::Request::user_text).collect();
    assert_eq!(answered.len(), ACTIVE + QUEUED, "every job was asked for once after the kill");
}

on_each! { check_backlog:
    a_backlog_in_the_database_outlives_the_process = Stores::embedded();
    a_backlog_on_redis_outlives_the_process = Stores::redis().await;
}
