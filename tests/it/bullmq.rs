//! One queue for two kinds of workers: BullMQ's own protocol, spoken with BullMQ itself
//! (host/docs/interface/decisions-runs.md#queue, host/docs/interface/node-clients.md#queue). What a job is to
//! its owner is in `variant_b/jobs.rs`.

use acceptance::{Model, Peer, Redis, Service, Token, eventually, says};
use serde_json::{Value, json};

/// A user who may ask often.
const USER: &str = "u1";

fn token() -> Token {
    Token::of(USER).premium()
}

#[tokio::test]
async fn jobs_of_a_node_producer_are_worked_on_here() {
    let (redis, model) = (Redis::start().await, Model::openai().await);
    model.always(|request| says(&request.user_text().to_uppercase()));
    let peer = Peer::on(&redis);
    // Some are there before the service is, and some come while it runs.
    let early = peer.add("early", USER, 2).await;
    let service = Service::variant_b().redis(&redis).model(&model).start().await;
    let late = peer.add("late", USER, 2).await;
    for (ids, output) in [(early, "EARLY"), (late, "LATE")] {
        for id in ids {
            let ended = peer.wait(&id).await;
            assert_eq!(ended["returnvalue"]["output"], output, "{ended:#}");
            // To its owner it is a job like any other.
            let job = service.user(token()).ended_job(&id).await;
            assert_eq!((&job["status"], &job["result"]), (&json!("completed"), &ended["returnvalue"]));
        }
    }
    let counts = peer.counts().await;
    assert_eq!(
        (&counts["completed"], &counts["waiting"], &counts["active"]),
        (&json!(4), &json!(0), &json!(0))
    );
    assert_eq!(model.calls().len(), 4);
}

#[tokio::test]
async fn a_job_of_ours_is_to_bullmq_what_a_job_of_its_own_is() {
    let (redis, model) = (Redis::start().await, Model::openai().await);
    let gate = model.holds(says("done"));
    let peer = Peer::on(&redis);
    let service = Service::variant_b().redis(&redis).model(&model).start().await;
    let user = service.user(token());
    let id = user.job_for("work").await;
    assert_eq!(id, "1", "ids are counted, as wire 1.8 says");
    model.was_asked(1).await;

    let seen = peer.show(&id).await;
    assert_eq!((&seen["state"], &seen["job"]["name"]), (&json!("active"), &json!("invoke")), "{seen:#}");
    assert_eq!(seen["job"]["data"], json!({ "query": "work", "userId": USER }));
    assert_eq!(seen["job"]["queueQualifiedName"], "bull:agent-tasks");
    assert_eq!(seen["job"]["attemptsStarted"], 1, "{seen:#}");
    let time = |seen: &Value, name: &str| seen["job"][name].as_u64().unwrap_or_default();
    assert!(
        time(&seen, "processedOn") >= time(&seen, "timestamp") && time(&seen, "timestamp") > 0,
        "{seen:#}"
    );

    gate.open();
    let job = user.ended_job(&id).await;
    let seen = peer.show(&id).await;
    assert_eq!(
        (&seen["state"], &seen["job"]["returnvalue"]),
        (&json!("completed"), &job["result"]),
        "{seen:#}"
    );
    assert!(time(&seen, "finishedOn") >= time(&seen, "processedOn"), "{seen:#}");
    assert_eq!(
        (&seen["job"]["attemptsMade"], &seen["job"]["stalledCounter"]),
        (&json!(1), &json!(0)),
        "{seen:#}"
    );
    assert_eq!(peer.counts().await["completed"], 1);
}

#[tokio::test]
async fn a_job_that_fails_here_has_failed_for_bullmq() {
    let (redis, model) = (Redis::start().await, Model::openai().await);
    model.always(|_| acceptance::Play::Whole { status: 401, headers: Vec::new(), body: String::new() });
    let peer = Peer::on(&redis);
    let service = Service::variant_b().redis(&redis).model(&model).start().await;
    let user = service.user(token());
    let id = user.job_for("work").await;
    let job = user.ended_job(&id).await;
    assert_eq!(job["status"], "failed", "{job:#}");
    let seen = peer.show(&id).await;
    assert_eq!((&seen["state"], &seen["job"]["failedReason"]), (&json!("failed"), &job["error"]), "{seen:#}");
    assert_eq!(peer.counts().await["failed"], 1);
}

/// Adds more jobs than the service works on at once, and kills it: ids of those that it held, and of those
/// that it had not begun.
async fn leave_jobs_behind(redis: &Redis) -> (Vec<String>, Vec<String>) {
    let model = Model::openai().await;
    let gates: Vec<_> = (0..5).map(|_| model.holds(says("never heard"))).collect();
    let mut service = Service::variant_b().redis(redis).model(&model).start().await;
    let user = service.user(token());
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for n in 0..5 {
        held.push(user.job_for(&format!("held {n}")).await);
    }
    model.was_asked(5).await;
    for n in 0..2 {
        waiting.push(user.job_for(&format!("waiting {n}")).await);
    }
    service.killed().await;
    drop(gates);
    (held, waiting)
}

#[tokio::test]
async fn a_node_worker_takes_over_what_a_killed_service_leaves_behind() {
    let redis = Redis::start().await;
    let (held, waiting) = leave_jobs_behind(&redis).await;
    let model = Model::openai().await;
    model.always(|request| says(&format!("Node: {}", request.user_text())));
    // BullMQ takes a job for stalled when its lock is gone for two rounds of this check.
    let peer = Peer::on(&redis).model(&model).env("STALLED_INTERVAL_MS", "1000");
    let worker = peer.work().await;
    for id in waiting.iter().chain(&held) {
        worker.completes(id).await;
    }
    let taken_over = peer.show(&held[0]).await;
    assert_eq!(
        (&taken_over["state"], &taken_over["job"]["stalledCounter"]),
        (&json!("completed"), &json!(1))
    );
    worker.kill();

    // The jobs' owner reads the results here.
    let ours = Model::openai().await;
    let service = Service::variant_b().redis(&redis).model(&ours).start().await;
    let user = service.user(token());
    for (n, id) in waiting.iter().enumerate() {
        let job = user.job(id).await.json();
        assert_eq!(job["status"], "completed", "{job:#}");
        assert_eq!(job["result"]["output"], format!("Node: waiting {n}"), "{job:#}");
        assert_eq!(user.cancel(id).await.status, 409);
    }
    let listed = user.jobs("?status=completed").await.json();
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(7), "{listed:#}");
}

#[tokio::test]
async fn a_node_worker_and_the_service_share_the_work() {
    let (redis, ours, theirs) = (Redis::start().await, Model::openai().await, Model::openai().await);
    ours.always(|_| says("from here"));
    theirs.always(|_| says("from Node"));
    let service = Service::variant_b().redis(&redis).model(&ours).start().await;
    let peer = Peer::on(&redis).model(&theirs);
    let _worker = peer.work().await;
    let ids = peer.add("work", USER, 60).await;
    eventually("all jobs to be completed", async || (peer.counts().await["completed"] == 60).then_some(()))
        .await;
    let user = service.user(token());
    for id in ids.iter().step_by(10) {
        let output = user.job(id).await.json()["result"]["output"].take();
        assert!(output == "from here" || output == "from Node", "{output}");
    }
    // Nothing was done twice.
    assert_eq!(ours.calls().len() + theirs.calls().len(), 60);
}

#[tokio::test]
async fn what_others_put_into_the_queue_does_no_harm() {
    let (redis, model) = (Redis::start().await, Model::openai().await);
    model.says("done");
    let peer = Peer::on(&redis);
    let service = Service::variant_b().redis(&redis).model(&model).start().await;
    // A query that is empty is a payload that our own endpoint would not take.
    let empty = peer.add("", USER, 1).await.remove(0);
    let ended = peer.wait(&empty).await;
    assert!(ended["failedReason"].as_str().is_some_and(|reason| !reason.is_empty()), "{ended:#}");
    let good = peer.add("work", USER, 1).await.remove(0);
    assert_eq!(peer.wait(&good).await["returnvalue"]["output"], "done");
    assert_eq!(service.user(token()).ended_job(&empty).await["status"], "failed");
}
