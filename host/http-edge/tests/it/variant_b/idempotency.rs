//! `Idempotency-Key` on every `POST` of Variant B: one request is carried out once, for its user, whichever
//! replica has it.

use std::sync::Arc;

use agent_core::ports::idempotency::LEASE;
use agent_core::ports::{ClaimTerms, ConversationStore as _, Epoch, Journal};
use agent_core::testing::task;
use agent_core::words::{ConversationKey, Event, JobStatus};
use axum::body::Body;
use boxed_async::boxed_async;
use http::{Request, StatusCode};
use run_service::layers::{self, Ask, Invoke, InvokeError};
use run_service::testing::{ScriptedInvoke, run_stores, streams_of};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::harness::{
    Answer, Answers, Fakes, Keys, Panics, as_admin, b, bearer, idempotency_over, request, with,
};

const BODY: &str = r#"{"query":"hi"}"#;
const REPLAYED: &str = "idempotent-replayed";

/// A request of `u1` under that key.
fn keyed(key: &str, path: &str, body: &str) -> Request<Body> {
    with_key(key, bearer("u1", request("POST", path, body.to_owned())))
}

fn with_key(key: &str, mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert("idempotency-key", key.parse().unwrap());
    request
}

/// Two replicas that share their keys, and those.
fn replicas() -> (Arc<Keys>, [Fakes; 2]) {
    let keys = Arc::<Keys>::default();
    let replicas = [(), ()].map(|()| keeping(&keys, Answers));
    (keys, replicas)
}

/// A service of that agent with these keys.
fn keeping(keys: &Arc<Keys>, agent: impl Invoke + 'static) -> Fakes {
    Fakes::configured(agent, |edge| edge.idempotency = idempotency_over(keys))
}

/// Answers once a lease could have ended.
fn answering_late() -> ScriptedInvoke {
    let agent = ScriptedInvoke::default();
    agent.add_after(LEASE, Ok(ScriptedInvoke::answer("late")));
    agent
}

fn is_replay(answer: &Answer) -> bool {
    answer.header(REPLAYED) == Some("true")
}

#[tokio::test]
async fn the_same_request_gets_the_same_answer_on_either_replica() {
    let (_keys, [one, other]) = replicas();
    for path in ["/api/agent", "/api/serverless", "/api/gateway"] {
        let first = one.service.send(keyed(path, path, BODY)).await;
        assert_eq!((first.status, is_replay(&first)), (StatusCode::OK, false), "{path}");
        for replica in [&one, &other] {
            let again = replica.service.send(keyed(path, path, BODY)).await;
            assert!(is_replay(&again), "{path}");
            // The output is the id of the request that ran, and the new one has an id of its own.
            assert_eq!((again.status, &again.body), (StatusCode::OK, &first.body), "{path}");
            assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
            assert_eq!(again.header("content-type"), first.header("content-type"));
        }
    }
    let fresh = one.service.send(keyed("another", "/api/agent", BODY)).await;
    assert!(!is_replay(&fresh) && fresh.status == StatusCode::OK);
}

#[tokio::test]
async fn a_job_that_is_submitted_twice_is_one_job() {
    let (_keys, [one, other]) = replicas();
    let first = one.service.send(keyed("k", "/api/agent/async", BODY)).await;
    assert_eq!(first.status, StatusCode::ACCEPTED);
    let again = other.service.send(keyed("k", "/api/agent/async", BODY)).await;
    assert_eq!((again.status, &again.body), (StatusCode::ACCEPTED, &first.body));
    assert_eq!(again.header("location"), first.header("location"));
    assert!(is_replay(&again) && again.header("location").is_some());
    assert_eq!((one.submitted().len(), other.submitted().len()), (1, 0));
}

/// The process dies between the two: the job is in the queue, and no answer is kept.
#[tokio::test]
async fn a_job_whose_submitter_died_before_it_was_told_is_not_submitted_again() {
    for body in [BODY, r#"{"query":"hi","options":{"conversationId":"trip"}}"#] {
        let (keys, [one, _]) = replicas();
        let submit = || one.service.send(keyed("k", "/api/agent/async", body));
        keys.lose_answer();
        let first = submit().await;
        assert_eq!(submit().await.status, StatusCode::CONFLICT, "as long as its owner may live");
        keys.end_leases();
        // The first one's run has begun meanwhile.
        let trip = ConversationKey::conversation("u1", "trip");
        one.conversations.claim(trip, "its run", ClaimTerms::default()).await.unwrap();
        let again = submit().await;
        assert_eq!((again.status, &again.body), (StatusCode::ACCEPTED, &first.body));
        assert_eq!(one.submitted().len(), 1);
    }
}

#[tokio::test]
async fn two_at_once_are_one_and_a_conflict() {
    let (keys, [other, _]) = replicas();
    let hangs = ScriptedInvoke::hanging();
    let one = keeping(&keys, hangs.clone());
    one.service.leave(keyed("k", "/api/agent", BODY), hangs.until_under_way(1)).await;
    let conflict = other.service.send(keyed("k", "/api/agent", BODY)).await;
    assert_eq!(
        (conflict.status, conflict.body.as_str(), conflict.header("retry-after")),
        (
            StatusCode::CONFLICT,
            r#"{"error":"A request with this Idempotency-Key is being processed"}"#,
            Some("1")
        )
    );
    assert!(!is_replay(&conflict));
}

/// The first replica could not renew its key in time, and another one has taken it over.
#[tokio::test(start_paused = true)]
async fn a_request_is_dropped_when_another_replica_has_its_key() {
    let (keys, [other, _]) = replicas();
    let hangs = ScriptedInvoke::hanging();
    let one = keeping(&keys, hangs.clone());
    let heir = async {
        hangs.until_under_way(1).await;
        keys.end_leases();
        other.service.send(keyed("k", "/api/agent", BODY)).await
    };
    let (dropped, carried_out) = tokio::join!(one.service.send(keyed("k", "/api/agent", BODY)), heir);
    assert_eq!((dropped.status, dropped.header("retry-after")), (StatusCode::CONFLICT, Some("1")));
    assert_eq!(carried_out.status, StatusCode::OK);
    hangs.until_under_way(0).await;
    let again = one.service.send(keyed("k", "/api/agent", BODY)).await;
    assert_eq!((is_replay(&again), &again.body), (true, &carried_out.body));
}

/// Nobody else has the key then, and whoever carries the request out goes on.
#[tokio::test(start_paused = true)]
async fn a_key_that_its_store_forgot_is_claimed_again_for_the_request_that_has_it() {
    let (keys, held) = (Arc::<Keys>::default(), answering_late());
    let fakes = keeping(&keys, held.clone());
    let failover = async {
        held.until_under_way(1).await;
        keys.forget();
    };
    let (first, ()) = tokio::join!(fakes.service.send(keyed("k", "/api/agent", BODY)), failover);
    assert_eq!(first.status, StatusCode::OK, "{first}");
    let again = fakes.service.send(keyed("k", "/api/agent", BODY)).await;
    assert_eq!((is_replay(&again), &again.body), (true, &first.body));
}

/// The client that left (above, dropped) does not stop what it began: that is what it will ask for again.
#[tokio::test(start_paused = true)]
async fn a_request_whose_client_leaves_is_carried_out_and_its_answer_waits() {
    let (keys, held) = (Arc::<Keys>::default(), answering_late());
    let fakes = keeping(&keys, held.clone());
    fakes.service.leave(keyed("k", "/api/agent", BODY), held.until_under_way(1)).await;
    keys.answered().await;
    let again = fakes.service.send(keyed("k", "/api/agent", BODY)).await;
    assert!(is_replay(&again), "{again}");
    assert_eq!(again.status, StatusCode::OK);
}

/// Answers when it is let go.
struct Held(Arc<Notify>);

#[boxed_async]
impl Invoke for Held {
    async fn invoke(&self, ask: Ask) -> Result<layers::RunAnswer, InvokeError> {
        self.0.notified().await;
        Answers.invoke(ask).await
    }
}

/// Begins the journal of its run, and then does the same.
struct Begins<I>(I, Arc<dyn Journal>);

#[boxed_async]
impl<I: Invoke> Invoke for Begins<I> {
    async fn invoke(&self, ask: Ask) -> Result<layers::RunAnswer, InvokeError> {
        let started = Event::Started { task: task("hi"), tools: "sha256:test".into() };
        self.1.append(&ask.run_id, Epoch(0), 0, &[started]).await.unwrap();
        self.0.invoke(ask).await
    }
}

fn streamed() -> Request<Body> {
    with(keyed("k", "/api/agent", BODY), "accept", "text/event-stream")
}

/// A replica whose streams are of that agent.
fn streaming(agent: impl Invoke + 'static, keys: &Arc<Keys>) -> Fakes {
    let kept = run_stores(&Arc::default());
    let streams = streams_of(Begins(agent, kept.journal.clone()), kept);
    Fakes::configured(Answers, |edge| {
        edge.idempotency = idempotency_over(keys);
        b(edge).streams = Some(streams);
    })
}

/// Others carry the request out from then on.
#[tokio::test(start_paused = true)]
async fn the_run_of_a_stream_is_cancelled_when_another_replica_has_its_key() {
    let (keys, agent) = (Arc::<Keys>::default(), ScriptedInvoke::hanging());
    let fakes = streaming(agent.clone(), &keys);
    let other = async {
        keys.claimed(1).await;
        keys.take_over();
    };
    let both = async { tokio::join!(fakes.service.send(streamed()), other) };
    let (answer, ()) = timeout(LEASE, both).await.unwrap();
    assert_eq!((answer.status, agent.under_way()), (StatusCode::OK, 0), "{answer}");
}

#[tokio::test]
async fn a_stream_holds_its_key_until_its_run_has_ended() {
    let (keys, gate) = (Arc::<Keys>::default(), Arc::new(Notify::new()));
    let fakes = streaming(Held(gate.clone()), &keys);
    let first = tower::ServiceExt::oneshot(fakes.service.router(), streamed()).await.unwrap();
    assert_eq!(first.status(), StatusCode::OK);
    let meanwhile = fakes.service.send(streamed()).await;
    assert_eq!((meanwhile.status, meanwhile.header("retry-after")), (StatusCode::CONFLICT, Some("1")));
    drop(first);
    let unread = fakes.service.send(streamed()).await;
    assert_eq!(unread.status, StatusCode::CONFLICT, "the run goes on without its reader");
    gate.notify_one();
    keys.released(1).await;
    gate.notify_one();
    let again = fakes.service.send(streamed()).await;
    assert_eq!((again.status, is_replay(&again)), (StatusCode::OK, false), "{again}");
}

#[tokio::test]
async fn another_request_under_a_key_is_unprocessable() {
    let (_keys, [one, other]) = replicas();
    one.service.send(keyed("k", "/api/agent", BODY)).await;
    for (path, body) in
        [("/api/agent", r#"{"query":"ho"}"#), ("/api/serverless", BODY), ("/api/agent?x=1", BODY)]
    {
        let answer = other.service.send(keyed("k", path, body)).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (
                StatusCode::UNPROCESSABLE_ENTITY,
                r#"{"error":"This Idempotency-Key was used for another request: send a new key"}"#
            ),
            "{path}"
        );
    }
}

#[tokio::test]
async fn keys_belong_to_their_user() {
    let (keys, [one, _]) = replicas();
    let mine = one.service.send(keyed("k", "/api/agent", BODY)).await;
    let theirs = one
        .service
        .send(with_key("k", bearer("u2", request("POST", "/api/agent", r#"{"query":"ho"}"#))))
        .await;
    assert_eq!(theirs.status, StatusCode::OK);
    assert_ne!(mine.body, theirs.body);
    let calls = keys.calls();
    let nobody = one.service.send(with_key("k", request("POST", "/api/agent", BODY))).await;
    assert_eq!((nobody.status, keys.calls()), (StatusCode::UNAUTHORIZED, calls), "no key without a user");
}

#[tokio::test]
async fn a_replay_counts_in_the_windows() {
    let (_keys, [one, _]) = replicas();
    for count in 1..=10 {
        let answer = one.service.send(keyed("k", "/api/agent", BODY)).await;
        assert_eq!((answer.status, is_replay(&answer)), (StatusCode::OK, count > 1));
        assert_eq!((one.windows.count("ip:unknown"), one.windows.count("user:u1")), (count, count));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some((10 - count).to_string().as_str()));
    }
    let turned_away = one.service.send(keyed("k", "/api/agent", BODY)).await;
    assert_eq!((turned_away.status, is_replay(&turned_away)), (StatusCode::TOO_MANY_REQUESTS, false));
    for window in ["ip:unknown", "user:u1"] {
        one.windows.fill(window, 0);
    }
    assert!(is_replay(&one.service.send(keyed("k", "/api/agent", BODY)).await), "the answer is kept");
}

/// The store is told to carry the claim out, and the request is dropped before it has answered.
#[tokio::test]
async fn a_key_is_free_again_whose_request_was_turned_away_or_left_while_it_was_claimed() {
    let (keys, [one, other]) = replicas();
    let answers_late = keys.answer_claims_late();
    one.windows.fill("user:u1", 10);
    let limited = one.service.send(keyed("limited", "/api/agent", BODY)).await;
    assert_eq!(limited.status, StatusCode::TOO_MANY_REQUESTS);
    one.windows.fill("user:u1", 0);
    one.service.leave(keyed("left", "/api/serverless", BODY), keys.claimed(2)).await;
    drop(answers_late);
    keys.released(2).await;
    for (key, path) in [("limited", "/api/agent"), ("left", "/api/serverless")] {
        let again = other.service.send(keyed(key, path, BODY)).await;
        assert_eq!((again.status, is_replay(&again)), (StatusCode::OK, false), "{key}: {again}");
    }
}

/// A reader of events would break on a kept answer in JSON.
#[tokio::test]
async fn who_wants_another_kind_of_answer_sends_another_request() {
    let (_keys, [one, _]) = replicas();
    one.service.send(keyed("k", "/api/agent", BODY)).await;
    assert_eq!(one.service.send(streamed()).await.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_failure_of_ours_is_not_kept_and_a_mistake_of_theirs_is() {
    let (_keys, [one, _]) = replicas();
    one.queue.switch.fail(true);
    for _ in 0..2 {
        let failed = one.service.send(keyed("failed", "/api/agent/async", BODY)).await;
        assert_eq!((failed.status, is_replay(&failed)), (StatusCode::SERVICE_UNAVAILABLE, false));
    }
    for replayed in [false, true] {
        let wrong = one.service.send(keyed("wrong", "/api/agent", "{}")).await;
        assert_eq!((wrong.status, is_replay(&wrong)), (StatusCode::BAD_REQUEST, replayed));
        assert!(wrong.body.contains("query"), "{wrong}");
    }
}

#[tokio::test]
async fn a_panic_gives_the_key_free() {
    let fakes = keeping(&Arc::default(), Panics);
    for _ in 0..2 {
        let answer = fakes.service.send(keyed("k", "/api/agent", BODY)).await;
        answer.check(StatusCode::INTERNAL_SERVER_ERROR, r#"{"error":"Internal server error"}"#);
    }
}

#[tokio::test]
async fn what_is_no_key_is_refused_before_anything_is_done() {
    let (keys, [one, _]) = replicas();
    for key in ["", "\"\"", "a b", &"k".repeat(256)] {
        let answer = one.service.send(keyed(key, "/api/agent/async", BODY)).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{key:?}");
        assert!(answer.body.contains("Idempotency-Key must be one key of 1 to 255"), "{answer}");
    }
    assert_eq!((one.submitted().len(), keys.calls()), (0, 0));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_as_without_a_key() {
    let keys = Arc::<Keys>::default();
    let fakes = Fakes::configured(Answers, |edge| {
        edge.idempotency = idempotency_over(&keys);
        edge.settings.max_body_bytes = 10;
    });
    let answer = fakes.service.send(keyed("k", "/api/agent", BODY)).await;
    assert_eq!((answer.status, keys.calls()), (StatusCode::PAYLOAD_TOO_LARGE, 0));
}

#[tokio::test]
async fn a_store_that_is_away_is_an_answer_and_not_a_second_run() {
    let (keys, [one, _]) = replicas();
    keys.break_down();
    let answer = one.service.send(keyed("k", "/api/agent/async", BODY)).await;
    assert_eq!((answer.status, answer.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    assert_eq!(one.submitted().len(), 0);
    let without = one.post("/api/agent/async", BODY).await;
    assert_eq!(without.status, StatusCode::ACCEPTED, "without a key nobody asks the store");
}

#[tokio::test]
async fn requests_without_the_header_and_other_methods_ask_nobody() {
    let (keys, [one, _]) = replicas();
    for _ in 0..2 {
        let answer = one.post("/api/agent", BODY).await;
        assert_eq!((answer.status, answer.header(REPLAYED)), (StatusCode::OK, None));
    }
    let listed = with_key("k", bearer("u1", request("GET", "/api/agent/jobs", "")));
    assert_eq!(one.service.send(listed).await.status, StatusCode::OK);
    assert_eq!(keys.calls(), 0);
}

#[tokio::test]
async fn who_is_no_administrator_is_told_so_again_and_nothing_is_kept_of_it() {
    let (_keys, [fakes, _]) = replicas();
    let path = "/admin/tools/nobody/end-trial";
    for _ in 0..2 {
        let answer = fakes.service.send(keyed("k", path, "{}")).await;
        assert_eq!((answer.status, is_replay(&answer)), (StatusCode::FORBIDDEN, false));
    }
    let first = fakes.service.send(with_key("k", as_admin(request("POST", path, "{}")))).await;
    let again = fakes.service.send(with_key("k", as_admin(request("POST", path, "{}")))).await;
    assert!(is_replay(&again) && !is_replay(&first));
    assert_eq!((first.status, first.body), (again.status, again.body));
}

/// What stood in the way may be gone.
#[tokio::test]
async fn a_conflict_is_not_kept() {
    let (_keys, [fakes, _]) = replicas();
    fakes.post("/api/agent/async", BODY).await;
    let path = "/api/agent/jobs/1/cancel";
    assert_eq!(fakes.post(path, "").await.status, StatusCode::ACCEPTED);
    let had_ended = fakes.service.send(keyed("k", path, "")).await;
    assert_eq!(had_ended.status, StatusCode::CONFLICT, "{had_ended}");
    fakes.queue.change("1", |job| job.status = JobStatus::Active);
    let again = fakes.service.send(keyed("k", path, "")).await;
    assert_eq!((again.status, is_replay(&again)), (StatusCode::ACCEPTED, false), "{again}");
}
