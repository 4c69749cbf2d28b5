//! The trace of a job joins that of whoever submitted it, on both queues and on both sides of BullMQ's
//! protocol.

use acceptance::{Builder, Collector, Model, Peer, Redis, Service, Token, Upstream, says};
use reqwest::Method;
use serde_json::{Value, json};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn traced(builder: Builder, model: &Model, collector: &Collector) -> Builder {
    let builder = builder.model(model).env("TRACING_API_KEY", "k");
    builder.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
}

async fn check_that_a_jobs_trace_joins_its_submitters(builder: Builder) {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    model.always(|_| says("done"));
    let service = traced(builder, &model, &collector).start().await;
    let user = service.user(Token::of("u"));
    let id = user.job_for("work").await;
    assert_eq!(user.ended_job(&id).await["status"], "completed");
    let server = collector.span("POST /api/agent/async").await;
    let send = collector.span("send agent-tasks").await;
    let process = collector.span("process agent-tasks").await;
    let agent = collector.span("invoke_agent").await;
    assert!(send.is_child_of(&server) && process.is_child_of(&send) && agent.is_child_of(&process));
    assert_eq!((send.kind, process.kind), ("SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER"));
    assert_eq!(process.attribute("messaging.message.id"), &json!(id));
    assert_eq!(process.attribute("agent.job.outcome"), "completed");
    let line = service.log().entry("the end of the job", |entry| entry["message"] == "job completed").await;
    assert_eq!((&line["trace_id"], &line["span_id"]), (&json!(server.trace_id), &json!(process.span_id)));
}

#[tokio::test]
async fn a_jobs_trace_joins_its_submitters_on_the_embedded_queue() {
    check_that_a_jobs_trace_joins_its_submitters(Service::variant_b()).await;
}

#[tokio::test]
async fn a_webhook_is_delivered_in_the_trace_of_its_submitter() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    let receiver = Upstream::answering(204, "text/plain", "").await;
    model.says("done");
    let builder = Service::variant_b().env("WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let builder = builder.env("WEBHOOK_PRIVATE_HOSTS", "127.0.0.1");
    let service = traced(builder, &model, &collector).start().await;
    let user = service.user(Token::of("u"));
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let body = json!({ "query": "work", "webhookUrl": receiver.url("/hook/of/mine") }).to_string();
    let request = user.request(Method::POST, "/api/agent/async").header("traceparent", &traceparent);
    assert_eq!(user.send(request.body(body)).await.status, 202);
    let server = collector.span("POST /api/agent/async").await;
    let sent = collector.span_where("POST", |span| span.is_child_of(&server)).await;
    assert_eq!((sent.trace_id.as_str(), sent.kind), (TRACE, "SPAN_KIND_CLIENT"));
    assert_eq!(sent.attribute("http.response.status_code"), 204);
    assert!(!format!("{sent:?}").contains("/hook/of/mine"), "{sent:?}");
    let received = receiver.received();
    assert_eq!(received[0].header("traceparent"), format!("00-{TRACE}-{}-01", sent.span_id));
}

#[tokio::test]
async fn a_jobs_trace_joins_its_submitters_on_postgres() {
    let postgres = acceptance::Postgres::start().await;
    check_that_a_jobs_trace_joins_its_submitters(Service::variant_b().postgres(&postgres)).await;
}

#[tokio::test]
async fn a_jobs_trace_joins_its_submitters_on_redis() {
    let redis = Redis::start().await;
    check_that_a_jobs_trace_joins_its_submitters(Service::variant_b().redis(&redis)).await;
}

#[tokio::test]
async fn a_job_of_a_node_producer_joins_the_trace_that_bullmqs_telemetry_names() {
    let (redis, model, collector) = (Redis::start().await, Model::openai().await, Collector::start().await);
    model.always(|_| says("done"));
    let peer = Peer::on(&redis);
    let _service = traced(Service::variant_b().redis(&redis), &model, &collector).start().await;
    peer.add_in_trace("work", "u", &format!("00-{TRACE}-{PARENT}-01")).await;
    let process = collector.span("process agent-tasks").await;
    assert_eq!((process.trace_id.as_str(), process.parent_id.as_str()), (TRACE, PARENT));
}

#[tokio::test]
async fn a_job_of_ours_names_its_trace_where_bullmqs_telemetry_looks_for_it() {
    let (redis, model) = (Redis::start().await, Model::openai().await);
    model.always(|_| says("done"));
    let peer = Peer::on(&redis);
    // Without an exporter, a caller's trace goes on all the same.
    let service = Service::variant_b().redis(&redis).model(&model).start().await;
    let user = service.user(Token::of("u"));
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let request = user.request(Method::POST, "/api/agent/async").header("traceparent", &traceparent);
    let id =
        user.send(request.body(r#"{"query":"work"}"#)).await.json()["jobId"].as_str().unwrap().to_owned();
    user.ended_job(&id).await;
    let seen = peer.show(&id).await;
    let metadata: Value =
        serde_json::from_str(seen["job"]["opts"]["telemetry"]["metadata"].as_str().unwrap()).unwrap();
    assert_eq!(metadata, json!({ "traceparent": traceparent }), "{seen:#}");
    assert_eq!(seen["job"]["data"], json!({ "query": "work", "userId": "u" }));
    assert_eq!(model.calls()[0].header("traceparent"), traceparent);
    // A job of nobody's trace has options as before.
    let id = user.job_for("work").await;
    user.ended_job(&id).await;
    assert!(peer.show(&id).await["job"]["opts"].get("telemetry").is_none());
}
