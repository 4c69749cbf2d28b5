//! Which endpoints a process has (host/docs/interface/decisions-http.md#which-endpoints).

use acceptance::{Model, Service, Token};

const OF_A: [&str; 2] = ["/health/live", "/health/ready"];
const OF_B: [&str; 2] = ["/health", "/ready"];

#[tokio::test]
async fn both_variants_are_served_from_one_process() {
    let model = Model::always_saying("hello").await;
    let service = Service::both_variants().model(&model).start().await;
    for path in OF_A.into_iter().chain(OF_B) {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
    assert_eq!(service.result_of("hi").await["output"], "hello");
    let user = service.user(Token::of("u"));
    assert_eq!(user.result_of("hi").await["output"], "hello");
    let job = user.job_for("hi").await;
    assert_eq!(user.ended_job(&job).await["status"], "completed");
    // One registry for all of them: two requests and one job.
    assert_eq!(service.metrics().await.value("agent_invocations_total", &[]), Some(3.0));
    // Variant A has no token, no window and no cache.
    let answer = service.invoke("hi").await;
    assert_eq!((answer.status, answer.header("ratelimit-limit")), (200, ""));
    assert!(!answer.body.contains("cached"), "{answer}");
}

#[tokio::test]
async fn variant_b_alone_has_nothing_of_variant_a() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).start().await;
    for path in OF_B {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
    for path in OF_A {
        assert_eq!(service.get(path).await.status, 404, "{path}");
    }
    assert_eq!(service.invoke("hi").await.status, 404);
}
