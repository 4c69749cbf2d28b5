//! Results that are given again: what makes two questions one, and how results are forgotten
//! (host/docs/interface/endpoints.md#variant-b, host/docs/interface/decisions-http.md#the-cache). The
//! embedded cache; the one on Redis is in `cache_stores.rs`, questions of one moment in `single_flight.rs`.

use acceptance::{Builder, Component, Model, Service, Token, User, asks_for, eventually, says};
use serde_json::{Value, json};

/// A model that never says the same thing twice.
async fn talkative() -> Model {
    let model = Model::openai().await;
    model.expects_any_temperature();
    let said = std::sync::atomic::AtomicU32::new(0);
    model.always(move |_| {
        says(&format!("answer {}", said.fetch_add(1, std::sync::atomic::Ordering::Relaxed)))
    });
    model
}

async fn start(builder: Builder) -> (Service, User) {
    let service = builder.start().await;
    let user = service.user(Token::of("u").premium());
    (service, user)
}

#[tokio::test]
async fn the_same_question_is_answered_once_and_then_from_the_cache() {
    let model = talkative().await;
    let (service, user) = start(Service::variant_b().model(&model)).await;
    let mut fresh = user.result_of("hi").await;
    assert_eq!(fresh["cached"], false);
    let mut kept = user.result_of("hi").await;
    assert_eq!(kept["cached"], true);
    // Everything else is the same, the id of the run included.
    fresh["cached"].take();
    kept["cached"].take();
    assert_eq!(fresh, kept);
    // The cache is everybody's.
    let other = service.user(Token::of("v")).result_of("hi").await;
    assert_eq!((&other["cached"], &other["id"]), (&json!(true), &fresh["id"]));
    assert_eq!(model.calls().len(), 1);
}

#[tokio::test]
async fn another_question_or_other_options_are_another_entry() {
    let model = talkative().await;
    let (_service, user) = start(Service::variant_b().model(&model)).await;
    let bodies = [
        json!({ "query": "hi" }),
        json!({ "query": "hi " }),
        json!({ "query": "Hi" }),
        json!({ "query": "hi", "options": { "maxTokens": 200 } }),
        json!({ "query": "hi", "options": { "maxTokens": 201 } }),
        json!({ "query": "hi", "options": { "maxTokens": 200, "temperature": 1 } }),
    ];
    for cached in [false, true] {
        for body in &bodies {
            let answer = user.agent_with(body.clone()).await;
            assert_eq!(answer.json()["cached"], cached, "{body}: {answer}");
        }
    }
    assert_eq!(model.calls().len(), bodies.len());
}

#[tokio::test]
async fn what_is_not_part_of_the_question_makes_no_other_entry() {
    let model = talkative().await;
    let (_service, user) = start(Service::variant_b().model(&model)).await;
    assert_eq!(user.result_of("hi").await["cached"], false);
    let answer = user.agent_with(json!({ "query": "hi", "options": {}, "unknown": 5 })).await;
    assert_eq!(answer.json()["cached"], true, "{answer}");
}

#[tokio::test]
async fn another_version_of_a_tool_makes_old_answers_worthless() {
    let model = talkative().await;
    let (service, user) = start(Service::variant_b().model(&model)).await;
    assert_eq!(user.result_of("hi").await["cached"], false);
    assert_eq!(user.result_of("hi").await["cached"], true);
    service.put(&Component::shipped("calculator").revision(2));
    let digest = Component::shipped("calculator").revision(2).digest();
    let loaded = [("component", "calculator"), ("digest", digest.as_str())];
    eventually("the new version to be loaded", async || {
        (service.metrics().await.value("agent_tool_loaded_info", &loaded) == Some(1.0)).then_some(())
    })
    .await;
    assert_eq!(user.result_of("hi").await["cached"], false);
}

#[tokio::test]
async fn only_a_run_that_was_completed_is_kept() {
    let model = Model::openai().await;
    model.always(|request| {
        asks_for("calculate", json!({ "expression": format!("1 + {}", request.tool_results().len()) }))
    });
    let (_service, user) = start(Service::variant_b().model(&model)).await;
    for _ in 0..2 {
        let result = user.result_of("never ends").await;
        assert_eq!((&result["stopReason"], &result["cached"]), (&json!("max_iterations"), &json!(false)));
    }
    assert_eq!(model.calls().len(), 20);
}

#[tokio::test]
async fn a_run_without_an_answer_in_words_is_not_kept() {
    let model = Model::openai().await;
    model.says("").says("").says("hello");
    let (_service, user) = start(Service::variant_b().model(&model)).await;
    let result = user.result_of("hi").await;
    assert_eq!((&result["stopReason"], &result["cached"]), (&json!("empty_reply"), &json!(false)));
    let result = user.result_of("hi").await;
    assert_eq!((&result["stopReason"], &result["cached"]), (&json!("completed"), &json!(false)));
}

#[tokio::test]
async fn a_failure_is_not_kept() {
    let model = Model::openai().await;
    model.answers(401, &[], "").says("hello");
    let (_service, user) = start(Service::variant_b().model(&model)).await;
    assert_eq!(user.agent("hi").await.status, 500);
    assert_eq!(user.result_of("hi").await["cached"], false);
    assert_eq!(user.result_of("hi").await["cached"], true);
}

#[tokio::test]
async fn without_the_cache_every_question_is_asked_and_no_answer_speaks_of_it() {
    let model = talkative().await;
    let (_service, user) = start(Service::variant_b().model(&model).env("RESULT_CACHE", "off")).await;
    for n in 0..2 {
        let result = user.result_of("hi").await;
        assert_eq!((&result["output"], result.get("cached")), (&json!(format!("answer {n}")), None));
    }
}

#[tokio::test]
async fn an_admin_empties_the_cache_by_pattern_and_hears_how_much_it_was() {
    let model = talkative().await;
    let (service, user) = start(Service::variant_b().model(&model)).await;
    let admin = service.user(Token::of("root").admin().premium());
    let cached = async |query: &str| user.result_of(query).await["cached"] == Value::Bool(true);
    let queries = ["one", "two", "three"];
    for query in queries {
        assert!(!cached(query).await);
    }
    for (pattern, deleted) in
        [("nothing:*", 0), ("agent:x*", 0), ("agent:", 0), ("agent:*", 3), ("agent:*", 0)]
    {
        let answer = admin.invalidate(pattern).await;
        assert_eq!((answer.status, answer.json()), (200, json!({ "deleted": deleted })), "{pattern}");
    }
    for query in queries {
        assert!(!cached(query).await, "{query}");
        assert!(cached(query).await, "{query}");
    }
}

#[tokio::test]
async fn nobody_but_an_admin_empties_the_cache() {
    let model = talkative().await;
    let (service, user) = start(Service::variant_b().model(&model)).await;
    user.result_of("hi").await;
    for token in [
        Token::of("a"),
        Token::of("b").claim("role", "user"),
        Token::of("c").claim("role", "Admin"),
        Token::of("d").claim("role", json!(["admin"])),
        Token::of("e").claim("admin", true),
        Token::of("f").claim("tier", "admin"),
    ] {
        let answer = service.user(token).invalidate("agent:*").await;
        assert_eq!(answer.status, 403, "{answer}");
    }
    assert_eq!(user.result_of("hi").await["cached"], true);
}

#[tokio::test]
async fn emptying_the_cache_needs_a_pattern() {
    let model = talkative().await;
    let (service, user) = start(Service::variant_b().model(&model)).await;
    user.result_of("hi").await;
    let admin = service.user(Token::of("root").admin());
    let answer = admin.send(admin.request(reqwest::Method::DELETE, "/api/agent/cache")).await;
    assert_eq!(answer.status, 400, "{answer}");
    assert_eq!(user.result_of("hi").await["cached"], true);
}
