//! What BullMQ's worker does around a job, done by Node's worker and by ours: the same scenario on a queue of
//! each, and the same is seen afterwards. The table of all features stands in
//! `redis-stores/src/bullmq/mod.rs`.

use acceptance::{Model, Peer, PeerWorker, Play, Redis, Service, Token, eventually, says};
use serde_json::{Value, json};

const USER: &str = "u1";

/// Whoever works the queue off, as long as it is held.
enum Worker {
    Node { _worker: Box<PeerWorker> },
    Ours { _service: Box<Service> },
}

/// What nobody tries again.
fn refusal() -> Play {
    Play::Whole { status: 401, headers: Vec::new(), body: String::new() }
}

/// A model that says what it is asked, and refuses what it is told to.
async fn model() -> Model {
    let model = Model::openai().await;
    model.always(|request| {
        let text = request.user_text();
        if text.starts_with("fail") {
            return refusal();
        }
        says(&text.to_uppercase())
    });
    model
}

/// What is seen after a scenario that Node's worker and ours were given. It has to be the same.
async fn both(scenario: impl AsyncFn(&Peer, &Model) -> Value) -> Value {
    let mut seen = Vec::new();
    for is_ours in [false, true] {
        let (redis, model) = (Redis::start().await, model().await);
        let peer = Peer::on(&redis);
        let worker = if is_ours {
            let service = Service::variant_b().redis(&redis).model(&model).start().await;
            Worker::Ours { _service: Box::new(service) }
        } else {
            Worker::Node { _worker: Box::new(peer.clone().model(&model).work().await) }
        };
        seen.push(scenario(&peer, &model).await);
        drop(worker);
    }
    let (node, ours) = (seen.remove(0), seen.remove(0));
    assert_eq!(node, ours, "what Node's worker does, and what ours does");
    ours
}

/// Waits until so many jobs stand there.
async fn count(peer: &Peer, state: &str, number: u64) {
    eventually(&format!("{number} jobs to be {state}"), async || {
        (peer.counts().await[state] == number).then_some(())
    })
    .await;
}

async fn state(peer: &Peer, id: &str) -> Value {
    peer.show(id).await["state"].take()
}

#[tokio::test]
async fn a_scheduler_with_an_interval_goes_on_until_its_limit() {
    let seen = both(async |peer, model| {
        peer.schedule("tick", &json!({ "every": 300, "limit": 3 }), "tick", USER).await;
        count(peer, "completed", 3).await;
        let counts = peer.counts().await;
        json!({ "waiting": counts["waiting"], "delayed": counts["delayed"], "calls": model.calls().len() })
    })
    .await;
    assert_eq!(seen, json!({ "waiting": 0, "delayed": 0, "calls": 3 }));
}

#[tokio::test]
async fn a_scheduler_with_a_pattern_has_its_next_iteration_while_one_is_worked_on() {
    both(async |peer, _model| {
        peer.schedule("cron", &json!({ "pattern": "*/1 * * * * *" }), "tick", USER).await;
        eventually("three iterations", async || {
            (peer.counts().await["completed"].as_u64() >= Some(3)).then_some(())
        })
        .await;
        count(peer, "delayed", 1).await;
        json!("it goes on")
    })
    .await;
}

/// What one of two children does, what its producer says of that, and what becomes of the parent.
fn families() -> [(&'static str, Value, &'static str); 6] {
    [
        ("two", json!({}), "completed"),
        ("fail", json!({ "failParentOnFailure": true }), "failed"),
        ("fail", json!({ "ignoreDependencyOnFailure": true }), "completed"),
        ("fail", json!({ "removeDependencyOnFailure": true }), "completed"),
        ("fail", json!({ "continueParentOnFailure": true }), "completed"),
        // Without a word the parent waits for ever.
        ("fail", json!({}), "waiting-children"),
    ]
}

/// A parent and its two children, by their number.
fn family(number: usize, child: &str, options: &Value) -> Value {
    let mut opts = options.clone();
    opts["jobId"] = format!("second-{number}").into();
    // The first one has ended by then. A parent that goes on because the second one failed could else end
    // while the first one is still worked on, which BullMQ makes a failure of the parent.
    opts["delay"] = 2_000.into();
    let data = |query: &str| json!({ "query": query, "userId": USER });
    json!({
        "data": data("parent"), "opts": { "jobId": format!("parent-{number}") },
        "children": [
            { "data": data("one"), "opts": { "jobId": format!("first-{number}") } },
            { "data": data(child), "opts": opts },
        ],
    })
}

#[tokio::test]
async fn a_parent_waits_for_its_children_and_fails_or_goes_on_as_they_say() {
    let seen = both(async |peer, _model| {
        for (number, (child, options, _)) in families().iter().enumerate() {
            peer.add_flow(&family(number, child, options)).await;
        }
        let mut seen = Vec::new();
        for (number, (_, options, parent)) in families().iter().enumerate() {
            for id in [format!("first-{number}"), format!("second-{number}")] {
                eventually("the children to end", async || {
                    let state = state(peer, &id).await;
                    (state == "completed" || state == "failed").then_some(())
                })
                .await;
            }
            let id = format!("parent-{number}");
            eventually(&format!("the parent to be {parent} with {options}"), async || {
                (state(peer, &id).await == *parent).then_some(())
            })
            .await;
            let second = state(peer, &format!("second-{number}")).await;
            seen.push(json!([second, peer.show(&id).await["job"]["failedReason"]]));
        }
        json!(seen)
    })
    .await;
    assert_eq!(seen[0][0], "completed");
    assert_eq!(seen[1], json!(["failed", "child bull:agent-tasks:second-1 failed"]));
}

#[tokio::test]
async fn a_deduplication_key_is_released_when_the_job_has_ended() {
    for query in ["work", "fail"] {
        both(async |peer, model| {
            let options = json!({ "deduplication": { "id": "only" } });
            let gate = model.holds(if query == "fail" { refusal() } else { says("done") });
            let first = peer.add_with(query, USER, 1, &options).await.remove(0);
            model.was_asked(1).await;
            let same = peer.add_with(query, USER, 1, &options).await.remove(0);
            gate.open();
            peer.wait(&first).await;
            let next = peer.add_with(query, USER, 1, &options).await.remove(0);
            json!({ "second is the first": same == first, "third is the first": next == first })
        })
        .await;
    }
}

#[tokio::test]
async fn limits_of_the_whole_queue_hold() {
    both(async |peer, model| {
        peer.limit(&json!({ "concurrency": 1 })).await;
        let gate = model.holds(says("first"));
        peer.add("work", USER, 3).await;
        model.was_asked(1).await;
        let counts = peer.counts().await;
        gate.open();
        count(peer, "completed", 3).await;
        json!({ "active": counts["active"], "waiting": counts["waiting"] })
    })
    .await;
    let seen = both(async |peer, _model| {
        peer.limit(&json!({ "rate": [1, 1000] })).await;
        let ids = peer.add("work", USER, 3).await;
        count(peer, "completed", 3).await;
        let mut begun = Vec::new();
        for id in &ids {
            begun.push(peer.show(id).await["job"]["processedOn"].as_u64().unwrap_or_default());
        }
        begun.sort_unstable();
        json!(begun[2] - begun[0] >= 1900)
    })
    .await;
    assert_eq!(seen, true);
}

#[tokio::test]
async fn jobs_are_taken_in_the_order_that_their_options_ask_for() {
    let seen = both(async |peer, model| {
        peer.limit(&json!({ "concurrency": 1 })).await;
        let gate = model.holds(says("first"));
        peer.add("first", USER, 1).await;
        model.was_asked(1).await;
        for (id, options) in [
            ("low", json!({ "priority": 10 })),
            ("high", json!({ "priority": 1 })),
            ("plain", json!({})),
            ("front", json!({ "lifo": true })),
        ] {
            let mut options = options;
            options["jobId"] = id.into();
            peer.add_with("work", USER, 1, &options).await;
        }
        gate.open();
        count(peer, "completed", 5).await;
        let mut begun = Vec::new();
        for id in ["low", "high", "plain", "front"] {
            begun.push((peer.show(id).await["job"]["processedOn"].as_u64(), id));
        }
        begun.sort_unstable();
        json!(begun.into_iter().map(|(_, id)| id).collect::<Vec<_>>())
    })
    .await;
    assert_eq!(seen, json!(["front", "plain", "high", "low"]));
}

#[tokio::test]
async fn a_job_that_was_edited_and_retried_is_worked_on_anew() {
    let seen = both(async |peer, model| {
        let id = peer.add("one", USER, 1).await.remove(0);
        let mut outputs = vec![peer.wait(&id).await["returnvalue"]["output"].take()];
        peer.edit(&id, "two", USER).await;
        peer.retry(&id, "completed").await;
        outputs.push(peer.wait(&id).await["returnvalue"]["output"].take());
        peer.retry(&id, "completed").await;
        outputs.push(peer.wait(&id).await["returnvalue"]["output"].take());
        let failing = peer.add("fail", USER, 1).await.remove(0);
        peer.wait(&failing).await;
        peer.edit(&failing, "mended", USER).await;
        peer.retry(&failing, "failed").await;
        outputs.push(peer.wait(&failing).await["returnvalue"]["output"].take());
        json!({ "outputs": outputs, "calls": model.calls().len() })
    })
    .await;
    assert_eq!(seen, json!({ "outputs": ["ONE", "TWO", "TWO", "MENDED"], "calls": 5 }));
}

#[tokio::test]
async fn what_is_kept_of_a_job_is_as_its_producer_asked() {
    both(async |peer, _model| {
        for query in ["work", "fail"] {
            let gone = json!({ "removeOnComplete": true, "removeOnFail": true });
            peer.add_with(query, USER, 1, &gone).await;
            let one = json!({ "removeOnComplete": 1, "removeOnFail": { "count": 1 } });
            peer.add_with(query, USER, 3, &one).await;
        }
        count(peer, "completed", 1).await;
        count(peer, "failed", 1).await;
        count(peer, "waiting", 0).await;
        count(peer, "active", 0).await;
        let counts = peer.counts().await;
        json!({ "completed": counts["completed"], "failed": counts["failed"] })
    })
    .await;
}

#[tokio::test]
async fn failures_are_listed_up_to_the_limit_of_the_job() {
    both(async |peer, _model| {
        let mut listed = Vec::new();
        for limit in [Value::Null, json!(0), json!(1)] {
            let options = if limit.is_null() { json!({}) } else { json!({ "stackTraceLimit": limit }) };
            let id = peer.add_with("fail", USER, 1, &options).await.remove(0);
            for _ in 0..2 {
                peer.wait(&id).await;
                peer.retry(&id, "failed").await;
            }
            peer.wait(&id).await;
            listed.push(peer.show(&id).await["job"]["stacktrace"].as_array().map(Vec::len));
        }
        json!(listed)
    })
    .await;
}

#[tokio::test]
async fn a_job_that_a_node_worker_holds_cannot_be_cancelled_and_no_later_one_is() {
    let (redis, theirs) = (Redis::start().await, model().await);
    let gate = theirs.holds(says("done"));
    let peer = Peer::on(&redis).model(&theirs);
    let worker = peer.work().await;
    let id = peer.add("work", USER, 1).await.remove(0);
    theirs.was_asked(1).await;
    let ours = model().await;
    let service = Service::variant_b().redis(&redis).model(&ours).start().await;
    let user = service.user(Token::of(USER).premium());
    let answer = user.cancel(&id).await;
    assert_eq!((answer.status, &answer.json()["error"]), (409, &json!("The job cannot be cancelled here")));
    gate.open();
    worker.completes(&id).await;
    worker.kill();
    // The job runs once more, this time here: nobody wants this attempt to be cancelled.
    peer.retry(&id, "completed").await;
    user.completed_job(&id, "WORK").await;
}
