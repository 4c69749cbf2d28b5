//! `kill -9` between any two steps of a run (host/docs/interface/decisions-runs.md#durability): it goes on
//! where its journal ends, whichever store has that. The counts are the provider's and the tools' own.

use std::time::Duration;

use acceptance::{Component, Gate, Model, Service, Stores, Token, eventually, says};
use serde_json::{Value, json};
use test_servers::Proxy;
use tokio::time::sleep;

/// How long the last reply of a run may take to be in the journal, which is written while the queue is told
/// of the end.
const LAST_REPLY_WITHIN: Duration = Duration::from_millis(500);

/// A tool that says in the log that it has begun, and then goes on until it is stopped.
const LASTING: &str = "flood_log";

/// Time limits of a tool call: one that is never reached, and one that ends a lasting call at once. That is
/// an answer to the model like any other.
const FOR_EVER: &str = "60000";
const AT_ONCE: &str = "100";

/// Arguments of `LASTING`. Each call has its own: the third equal one in a row would not be made.
fn lasting(bytes: u32) -> Value {
    json!({ "lines": u32::MAX, "bytes": bytes })
}

/// One process after the other, each killed, all at one address.
struct Lives<'a> {
    stores: &'a Stores,
    model: &'a Model,
    port: Option<String>,
    /// Tool calls that came to an end in those that were killed.
    tool_calls: f64,
}

impl<'a> Lives<'a> {
    fn new(stores: &'a Stores, model: &'a Model) -> Self {
        Self { stores, model, port: None, tool_calls: 0.0 }
    }

    async fn begin(&mut self, tool_time_limit: &str) -> Service {
        let builder = self.stores.service(self.model).env("TOOL_TIMEOUT_MS", tool_time_limit);
        let builder = builder.tool(Component::misbehaving("misbehaving"));
        let builder = match &self.port {
            Some(port) => builder.env("PORT", port),
            None => builder,
        };
        let service = builder.start().await;
        self.port = Some(service.address().port().to_string());
        service
    }

    async fn kill(&mut self, mut service: Service) {
        self.tool_calls += tool_calls(&service).await;
        service.killed().await;
    }
}

/// Tool calls that have come to an end in that process.
async fn tool_calls(service: &Service) -> f64 {
    service.metrics().await.value("agent_tool_calls_total", &[]).unwrap_or_default()
}

/// Waits until a lasting tool has begun.
async fn tool_has_begun(service: &Service) {
    let begun = |entry: &Value| entry["message"].as_str().is_some_and(|text| text.starts_with("flood f"));
    service.log().entry("the tool's own line", begun).await;
}

/// Kills a worker after each event of one run's journal: while the model is asked, which is after the
/// beginning or a tool's answer, and while a tool runs, which is after a reply.
async fn check_every_boundary(stores: Stores) {
    let model = Model::openai().await;
    let mut gates: Vec<Gate> = Vec::new();
    for step in 0..3 {
        // Asked, killed, asked again, answered.
        gates.push(model.holds(says("never heard")));
        model.asks_for(LASTING, lasting(12 + step));
    }
    gates.push(model.holds(says("never heard")));
    model.says("done");

    let mut lives = Lives::new(&stores, &model);
    let mut service = lives.begin(AT_ONCE).await;
    let token = Token::of("u").premium();
    let job = service.user(&token).job_for("work").await;
    for step in 0..3 {
        // The first attempt at this model call.
        model.was_asked(2 * step + 1).await;
        lives.kill(service).await;
        service = lives.begin(FOR_EVER).await;
        tool_has_begun(&service).await;
        lives.kill(service).await;
        service = lives.begin(AT_ONCE).await;
    }
    model.was_asked(7).await;
    lives.kill(service).await;
    gates.into_iter().for_each(Gate::open);
    let service = lives.begin(FOR_EVER).await;

    let done = service.user(&token).completed_job(&job, "done").await;
    let result = &done["result"];
    assert_eq!((&done["attemptsMade"], &result["iterations"]), (&json!(1), &json!(4)), "{done:#}");
    assert_eq!(result["toolCalls"].as_array().map(Vec::len), Some(3), "{done:#}");
    let known: Vec<_> = model.calls().iter().map(|call| call.tool_results().len()).collect();
    assert_eq!(known, [0, 0, 1, 1, 2, 2, 3, 3], "each call was answered once, and cut off once before");
    let tool_calls = lives.tool_calls + tool_calls(&service).await;
    assert!(
        (tool_calls - 3.0).abs() < 0.5,
        "{tool_calls} tool calls came to an end, and three were asked for"
    );
}

on_each! { check_every_boundary:
    a_run_in_sqlite_survives_a_kill_at_every_boundary = Stores::embedded();
    a_run_in_postgres_survives_a_kill_at_every_boundary = Stores::postgres().await;
    a_run_of_a_job_on_redis_survives_a_kill_at_every_boundary = Stores::redis_and_postgres().await;
    a_run_in_a_document_store_survives_a_kill_at_every_boundary = Stores::redis_and_mongo().await;
}

/// Kills the worker when the last reply is in the journal and the queue, behind `proxy`, does not know yet.
async fn check_the_last_boundary(stores: Stores, variable: &str, url: String, proxy: &mut Proxy) {
    let model = Model::openai().await;
    model.asks_for("calculate", json!({ "expression": "6 * 7" }));
    let gate = model.holds(says("42"));
    let mut service = stores.service(&model).env(variable, url).start().await;
    let token = Token::of("u");
    let job = service.user(&token).job_for("What is 6 * 7?").await;
    model.was_asked(2).await;
    proxy.stall();
    gate.open();
    eventually("the run to end", async || {
        let ended = service.metrics().await.value("agent_duration_seconds_count", &[]);
        ended.filter(|count| *count > 0.5)
    })
    .await;
    sleep(LAST_REPLY_WITHIN).await;
    service.killed().await;
    proxy.reset().await;

    let service = stores.service(&model).env("PORT", service.address().port().to_string()).start().await;
    service.user(&token).completed_job(&job, "42").await;
    assert_eq!(model.calls().len(), 2);
    assert!(tool_calls(&service).await < 0.5);
}

#[tokio::test]
async fn a_run_that_had_ended_when_its_worker_was_killed_asks_nothing_again() {
    let mut stores = Stores::redis_and_postgres().await;
    let mut proxy = Proxy::before(stores.redis_server().address()).await;
    let url = format!("redis://{}", proxy.address());
    check_the_last_boundary(stores, "REDIS_URL", url, &mut proxy).await;
}

#[tokio::test]
async fn a_run_in_a_document_store_that_had_ended_asks_nothing_again() {
    let mut stores = Stores::postgres_and_mongo().await;
    let mut proxy = Proxy::before(stores.postgres_server().address()).await;
    let url = format!("postgres://postgres:hunter2@{}/postgres", proxy.address());
    check_the_last_boundary(stores, "DATABASE_URL", url, &mut proxy).await;
}
