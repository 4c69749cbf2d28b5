//! Equal questions of one moment run the agent once (host/docs/interface/decisions-http.md#the-cache).

use acceptance::{Answer, Model, Service, Task, Token, says};
use serde_json::{Value, json};

/// Asks the same thing, beside the test.
fn ask(service: &Service, id: &str) -> Task<Answer> {
    let user = service.user(Token::of(id).premium());
    Task::begin(async move { user.agent("the question of the day").await })
}

/// As many round trips as it would take requests that were begun to come through.
async fn let_others_through(service: &Service) {
    for _ in 0..20 {
        assert_eq!(service.get("/metrics").await.status, 200);
    }
}

#[tokio::test]
async fn equal_questions_of_one_moment_run_the_agent_once() {
    let model = Model::openai().await;
    let gate = model.holds(says("the answer"));
    let service = Service::variant_b().model(&model).start().await;
    let first = ask(&service, "first");
    model.was_asked(1).await;
    // More than there may be agents: whoever only waits for an answer takes no place.
    let others: Vec<_> = (0..30).map(|n| ask(&service, &format!("u{n}"))).collect();
    let_others_through(&service).await;
    gate.open();
    let answer = first.ended().await;
    assert_eq!(answer.status, 200, "{answer}");
    let id = answer.json()["id"].take();
    for other in others {
        let answer = other.ended().await;
        assert_eq!((answer.status, &answer.json()["id"]), (200, &id), "{answer}");
    }
    assert_eq!(model.calls().len(), 1);
}

#[tokio::test]
async fn whoever_asked_first_may_go_away_without_harm_to_the_others() {
    let model = Model::openai().await;
    let gate = model.holds(says("the answer"));
    // Whether the run goes on or is begun anew is nobody's business.
    model.always(|_| says("the answer"));
    let service = Service::variant_b().model(&model).start().await;
    let first = ask(&service, "first");
    model.was_asked(1).await;
    let second = ask(&service, "second");
    let_others_through(&service).await;
    drop(first);
    let_others_through(&service).await;
    gate.open();
    let answer = second.ended().await;
    assert_eq!((answer.status, &answer.json()["output"]), (200, &json!("the answer")), "{answer}");
}

#[tokio::test]
async fn a_failure_is_everybodys_and_the_next_question_is_asked_anew() {
    let model = Model::openai().await;
    let refusal = acceptance::Play::Whole { status: 401, headers: Vec::new(), body: String::new() };
    let gate = model.holds(refusal.clone());
    // Callers who come too late to share the failure get one of their own.
    model.always(move |request| match request.user_text().as_str() {
        "the question of the day" => refusal.clone(),
        _ => says("hello"),
    });
    let service = Service::variant_b().model(&model).env("CIRCUIT_MIN_VOLUME", "100").start().await;
    let first = ask(&service, "first");
    model.was_asked(1).await;
    let others: Vec<_> = (0..3).map(|n| ask(&service, &format!("u{n}"))).collect();
    let_others_through(&service).await;
    gate.open();
    for task in std::iter::once(first).chain(others) {
        let answer = task.ended().await;
        assert_eq!((answer.status, answer.body.as_str()), (500, r#"{"error":"Internal server error"}"#));
    }
    let fresh: Value = service.user(Token::of("v")).result_of("another question").await;
    assert_eq!((&fresh["output"], &fresh["cached"]), (&json!("hello"), &json!(false)));
}
