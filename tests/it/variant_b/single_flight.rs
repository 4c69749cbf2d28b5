//! Equal questions of one moment run the agent once (host/docs/interface/decisions-http.md#the-cache).

use acceptance::{Answer, Model, Service, Task, Token, says};

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
