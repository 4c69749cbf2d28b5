//! How the service stops: nothing that was begun is lost, and nothing new is begun. The phases of a stop are
//! tested in `host/agent-host/src/serve`, its exit code after a second signal in `log_reader.rs`.

use acceptance::{Component, Model, ReservedPort, Service, Signal, Task, asks_for, order, says};
use serde_json::json;

/// A request that waits for its model.
fn begin(service: &Service, input: &'static str) -> Task<(u16, String)> {
    let caller = service.caller();
    Task::begin(async move {
        let answer = caller.invoke(input).await;
        (answer.status, answer.json()["result"]["output"].as_str().unwrap_or_default().to_owned())
    })
}

async fn check_graceful_stop(signal: Signal) {
    let model = Model::openai().await;
    let gate = model.holds(asks_for("calculate", json!({ "expression": "6 * 7" })));
    let second = model.holds(says("the second"));
    // The first one's run goes on after the signal: it calls a tool and asks the model again.
    model.always(|_| says("the first"));
    let mut service = Service::variant_a().model(&model).start().await;
    let one = begin(&service, "one");
    model.was_asked(1).await;
    let two = begin(&service, "two");
    model.was_asked(2).await;

    service.signal(signal);
    service.refuses_connections().await;
    gate.open();
    assert_eq!(one.ended().await, (200, "the first".to_owned()));
    second.open();
    assert_eq!(two.ended().await, (200, "the second".to_owned()));
    assert_eq!(service.ended().await.code, Some(0));
}

#[tokio::test]
async fn requests_in_flight_at_a_sigterm_are_finished_and_the_exit_code_is_0() {
    check_graceful_stop(Signal::TERM).await;
}

#[tokio::test]
async fn requests_in_flight_at_a_sigint_are_finished_and_the_exit_code_is_0() {
    check_graceful_stop(Signal::INT).await;
}

#[tokio::test]
async fn a_tool_that_loops_holds_the_stop_up_no_longer_than_its_time_limit() {
    let model = Model::obeying().await;
    let mut service = Service::variant_a()
        .model(&model)
        .tools([Component::misbehaving("misbehaving")])
        .env("TOOL_TIMEOUT_MS", "1000")
        .start()
        .await;
    let caller = service.caller();
    let call = order("loop_forever", &json!({}));
    let run = Task::begin(async move { caller.result_of(&call).await });
    model.was_asked(1).await;
    service.signal(Signal::TERM);
    assert_eq!(run.ended().await["toolCalls"][0]["outcome"], "timed_out");
    assert_eq!(service.ended().await.code, Some(0));
}

#[tokio::test]
async fn a_signal_while_the_tools_are_loaded_ends_it() {
    let model = Model::openai().await;
    // Each of them takes seconds to be given up.
    let slow = (0..5).map(|n| Component::misbehaving("describe-loops").named(&format!("slow-{n}")));
    let port = ReservedPort::take().address();
    let builder = Service::variant_a().model(&model).tools(slow).env("PORT", port.port().to_string());
    let mut service = builder.start_at(port).await;
    service.signal(Signal::TERM);
    assert!(service.ended().await.code.is_some(), "it ends by itself, not by the signal");
}

#[tokio::test]
async fn the_stores_are_closed_when_the_service_stops() {
    let model = Model::openai().await;
    let builder = Service::variant_a().model(&model);
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("agent.db");
    let mut service = builder.env("DATABASE_URL", format!("sqlite://{}", file.display())).start().await;
    assert_eq!(service.ready().await.status, 200);
    let log = home.path().join("agent.db-wal");
    assert!(log.exists(), "nothing is written yet that could be folded");
    service.signal(Signal::TERM);
    assert_eq!(service.ended().await.code, Some(0));
    // SQLite folds its write-ahead log into the file and removes it when the last connection is closed.
    assert!(file.is_file() && !log.exists());
}
