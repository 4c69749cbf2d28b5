//! Runs as event streams on a good day: host/docs/api/streams.md. What happens on bad days is in
//! `bad_days/streams.rs`.

use acceptance::{Events, Model, Sent, Service, Token, asks_for, says};
use reqwest::Method;
use serde_json::{Value, json};

fn names(events: &[Sent]) -> Vec<String> {
    let name = |event: &Sent| match &event.id {
        Some(id) => format!("{id} {}", event.name),
        None => event.name.clone(),
    };
    events.iter().map(name).collect()
}

const WHOLE: [&str; 7] = [
    "0 run.started",
    "1 model.replied",
    "1.1 tool.started",
    "2 tool.returned",
    "model.delta",
    "3 model.replied",
    "4 run.ended",
];

/// Calls the calculator, then says one word.
fn calculates(model: &Model) {
    model.asks_for("calculate", json!({ "expression": "6 * 7" })).says("42");
}

#[tokio::test]
async fn a_stream_of_variant_a_is_the_run_and_ends_with_the_plain_answer() {
    for model in [Model::openai().await, Model::anthropic().await] {
        calculates(&model);
        let service = Service::variant_a().model(&model).start().await;
        let mut stream = service.invoke_streamed("6 * 7?").await;
        let events = stream.rest().await;
        assert_eq!(names(&events), WHOLE);
        assert_eq!(events[2].data["name"], "calculate");
        assert_eq!(events[3].data["outcome"], "ok");
        assert_eq!(events[4].data, json!({ "text": "42" }));
        let result = &events[6].data["result"];
        assert_eq!((&result["output"], &result["id"]), (&json!("42"), &events[0].data["runId"]));
        assert_eq!(result["usage"]["totalTokens"], 220);

        // Whoever knows the id reads it again.
        let path = format!("/agent/runs/{}/events", result["id"].as_str().unwrap());
        let again = Events::open(service.request(Method::GET, &path)).await.rest().await;
        assert_eq!(
            names(&again),
            WHOLE.iter().filter(|name| **name != "model.delta").copied().collect::<Vec<_>>()
        );
        assert_eq!(again.last(), events.last());
        assert_eq!(service.get("/agent/runs/run_0/events").await.status, 404);
        service.stop().await;
    }
}

#[tokio::test]
async fn a_stream_of_variant_b_is_its_users_and_the_result_is_kept() {
    let model = Model::openai().await;
    calculates(&model);
    let service = Service::both_variants().model(&model).start().await;
    let user = service.user(Token::of("u").premium());
    let events = user.stream("6 * 7?").await.rest().await;
    assert_eq!(names(&events), WHOLE);
    let ended = &events[6].data;
    assert_eq!((&ended["output"], &ended["cached"]), (&json!("42"), &json!(false)));
    let run = format!("runs/{}", ended["id"].as_str().unwrap());

    let kept = user.result_of("6 * 7?").await;
    assert_eq!((&kept["cached"], &kept["id"]), (&json!(true), &ended["id"]));
    let hit = user.stream("6 * 7?").await.rest().await;
    assert_eq!(names(&hit), ["0 run.started", "1 run.ended"]);
    assert_eq!(hit[1].data, kept);
    assert_eq!(hit[0].data["runId"], ended["id"]);

    let again = user.follow(&run, Some("3")).await.rest().await;
    assert_eq!(again, events[6..]);
    assert_eq!(user.send(user.following(&run, Some("4"))).await.status, 204);
    let other = service.user(Token::of("other"));
    for path in [format!("/api/agent/{run}/events"), "/api/agent/jobs/1/events".into()] {
        assert_eq!(other.get(&path).await.status, 404, "{path}");
    }
    // Variant A knows no runs of users.
    assert_eq!(service.get(&format!("/agent/{run}/events")).await.status, 404);
    assert_eq!(service.get(&format!("/api/agent/{run}/events")).await.status, 401, "no token, no stream");
    let in_the_url = format!("/api/agent/{run}/events?token={}&access_token={}", user.token(), user.token());
    assert_eq!(service.get(&in_the_url).await.status, 401, "tokens are not taken from a URL");
}

#[tokio::test]
async fn a_job_is_followed_from_before_it_begins() {
    let model = Model::openai().await;
    let gate = model.holds(asks_for("calculate", json!({ "expression": "6 * 7" })));
    model.says("42");
    let service = Service::variant_b().model(&model).start().await;
    let user = service.user(Token::of("u").premium());
    let job = user.job_for("6 * 7?").await;
    let mut stream = user.follow(&format!("jobs/{job}"), None).await;
    assert_eq!(stream.next_named("run.started").await.id.as_deref(), Some("0"));
    gate.open();
    let rest = stream.rest().await;
    assert_eq!(names(&rest), WHOLE[1..]);
    let ended = user.ended_job(&job).await;
    assert_eq!(rest[5].data, ended["result"]);
    let again = user.follow(&format!("jobs/{job}"), Some("1.1")).await.rest().await;
    let stored: Vec<_> = rest[2..].iter().filter(|event| event.id.is_some()).cloned().collect();
    assert_eq!(again, stored);
    let by_run = user.follow(&format!("runs/{}", ended["result"]["id"].as_str().unwrap()), None).await;
    let mut by_run = by_run;
    assert_eq!(by_run.rest().await.last(), rest.last());
}

#[tokio::test]
async fn streams_of_a_user_are_bounded() {
    let model = Model::openai().await;
    let gate = model.holds(says("done"));
    let service = Service::variant_b().model(&model).start().await;
    let user = service.user(Token::of("u").premium());
    let job = user.job_for("hi").await;
    let what = format!("jobs/{job}");
    let mut streams = Vec::new();
    for _ in 0..32 {
        streams.push(user.follow(&what, None).await);
    }
    let refused = user.send(user.following(&what, None)).await;
    assert_eq!((refused.status, refused.json()), (429, json!({ "error": "Too many streams" })));
    assert_eq!(refused.header("retry-after"), "1");
    gate.open();
    for stream in &mut streams {
        stream.next_named("run.ended").await;
    }
}

#[tokio::test]
async fn a_run_is_cancelled_by_its_user_or_with_its_reader_if_that_is_asked_for() {
    let model = Model::openai().await;
    let _gates = [model.holds(says("never")), model.holds(says("never"))];
    let service = Service::variant_b().model(&model).start().await;
    let user = service.user(Token::of("u").premium());
    let mut stream = user.stream("hi").await;
    let run = stream.next_named("run.started").await.data["runId"].as_str().unwrap().to_owned();
    let cancel = format!("/api/agent/runs/{run}/cancel");
    assert_eq!(service.user(Token::of("other")).post(&cancel, "").await.status, 404);
    assert_eq!(user.post(&cancel, "").await.status, 202);
    assert_eq!(stream.next_named("run.ended").await.data["stopReason"], "cancelled");
    drop(stream);
    assert_eq!(user.post(&cancel, "").await.status, 409);

    let request = user.request(Method::POST, "/api/agent").header("accept", "text/event-stream");
    let request = request.header("agent-on-disconnect", "cancel").body(json!({ "query": "ho" }).to_string());
    let mut stream = Events::open(request).await;
    let run = stream.next_named("run.started").await.data["runId"].clone();
    model.was_asked(2).await;
    drop(stream);
    let mut again = user.follow(&format!("runs/{}", run.as_str().unwrap()), None).await;
    let ended: Value = again.next_named("run.ended").await.data;
    assert_eq!(ended["stopReason"], "cancelled");
}
