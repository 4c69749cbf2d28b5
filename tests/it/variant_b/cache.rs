//! Results that are given again, and how they are forgotten
//! (host/docs/interface/decisions-http.md#the-cache), with the embedded cache. What makes two questions one,
//! and which results are kept, is tested beside the cache in `host/run-service`. The cache on Redis is in
//! `cache_stores.rs`, questions of one moment in `single_flight.rs`.

use acceptance::{Builder, Model, Service, Token, User, says};
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
