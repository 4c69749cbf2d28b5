//! Traces: what of a request is exported, to whom, and what an exporter in trouble costs
//! (host/docs/interface/decisions-runs.md#tracing).

use acceptance::{
    Builder, Collector, Component, Model, Play, ReservedPort, Service, Signal, eventually, says,
};
use reqwest::Method;
use serde_json::{Value, json};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

fn traced(model: &Model, collector: &Collector) -> Builder {
    let builder = Service::variant_a().model(model).env("TRACING_API_KEY", "key-never-to-be-seen");
    builder.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
}

/// `POST /agent/invoke` with that context, which must succeed.
async fn invoke_within(service: &Service, traceparent: &str) {
    let request = service.request(Method::POST, "/agent/invoke").header("traceparent", traceparent);
    let request = request.header("tracestate", "dd=s:2;o:rum").header("tracestate", "other=1");
    assert_eq!(service.send(request.body(r#"{"input":"hi"}"#)).await.status, 200);
}

#[tokio::test]
async fn a_request_with_a_tool_call_is_one_tree() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    model.asks_for("calculate", json!({ "expression": "6 * 7" })).answers(503, &[], "").says("secret words");
    let service = traced(&model, &collector).env("TRACING_PROJECT", "the project").start().await;
    service.log().line_with(&["traces are exported", &collector.url()]).await;
    service.result_of("confidential question").await;
    let server = collector.span("POST /agent/invoke").await;
    assert_eq!((server.kind, server.parent_id.as_str()), ("SPAN_KIND_SERVER", ""));
    for (name, value) in [
        ("http.request.method", json!("POST")),
        ("http.route", json!("/agent/invoke")),
        ("url.scheme", json!("http")),
        ("server.address", json!("127.0.0.1")),
        ("url.path", json!("/agent/invoke")),
        ("client.address", json!("127.0.0.1")),
        ("http.response.status_code", json!(200)),
    ] {
        assert_eq!(server.attribute(name), &value, "{name}");
    }
    for (name, value) in [("service.name", "agent-host"), ("project", "the project")] {
        assert_eq!(server.resource[name], value);
    }

    let agent = collector.span("invoke_agent").await;
    assert!(agent.is_child_of(&server));
    assert_eq!(agent.attribute("gen_ai.operation.name"), "invoke_agent");
    assert_eq!(agent.attribute("agent.run.stop_reason"), "completed");

    let asks = collector
        .span_where("chat test-model", |it| it.attribute("gen_ai.response.finish_reasons")[0] == "tool_calls")
        .await;
    let answers = collector
        .span_where("chat test-model", |it| it.attribute("gen_ai.response.finish_reasons")[0] == "stop")
        .await;
    for chat in [&asks, &answers] {
        assert!(chat.is_child_of(&agent) && chat.kind == "SPAN_KIND_CLIENT" && !chat.failed);
        assert_eq!(chat.attribute("gen_ai.operation.name"), "chat");
        assert_eq!(chat.attribute("gen_ai.provider.name"), "openai");
        assert_eq!(chat.attribute("gen_ai.request.model"), "test-model");
        assert!(chat.attribute("gen_ai.usage.input_tokens").is_u64(), "{chat:?}");
        assert!(chat.attribute("gen_ai.usage.output_tokens").is_u64(), "{chat:?}");
    }

    let tool = collector.span("execute_tool calculate").await;
    assert!(tool.is_child_of(&agent) && !tool.failed);
    assert_eq!(tool.attribute("gen_ai.tool.name"), "calculate");
    assert!(tool.attribute("gen_ai.tool.call.id").is_string());

    // Every attempt at the provider can be seen, and is told which trace it belongs to.
    let spans = collector.spans();
    let attempts: Vec<_> = spans.iter().filter(|span| span.name == "POST").collect();
    let of = |chat| attempts.iter().filter(|attempt| attempt.is_child_of(chat)).count();
    assert_eq!((of(&asks), of(&answers), attempts.len()), (1, 2, 3));
    let failed: Vec<_> = attempts.iter().filter(|attempt| attempt.failed).collect();
    assert_eq!((failed.len(), failed[0].attribute("error.type")), (1, &json!("503")));
    let sent: Vec<_> = model.calls().iter().map(|call| call.header("traceparent").to_owned()).collect();
    let mut expected: Vec<_> =
        attempts.iter().map(|span| format!("00-{}-{}-01", server.trace_id, span.span_id)).collect();
    expected.sort_by_key(|header| sent.iter().position(|it| it == header));
    assert_eq!(sent, expected);

    let told = format!("{spans:?}");
    for private in ["confidential", "secret words", "6 * 7", "key-never-to-be-seen", model.key()] {
        assert!(!told.contains(private), "{private:?} is in {told}");
    }
}

#[tokio::test]
async fn a_tool_learns_its_request_its_trace_and_how_long_it_may_take() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    model.asks_for("look_around", json!({})).says("done");
    let service = traced(&model, &collector)
        .tool(Component::misbehaving("misbehaving"))
        .env("TOOL_TIMEOUT_MS", "1000")
        .start()
        .await;
    let request = service.request(Method::POST, "/agent/invoke").header("x-request-id", "req-7");
    assert_eq!(service.send(request.body(r#"{"input":"look around"}"#)).await.status, 200);
    let span = collector.span("execute_tool look_around").await;
    let around: Value = serde_json::from_str(model.calls()[1].tool_results()[0]).unwrap();
    assert_eq!(around["traceparent"], format!("00-{}-{}-01", span.trace_id, span.span_id));
    assert!(around["run_id"].as_str().unwrap().starts_with("run_"), "{around}");
    assert!(around["call_id"].as_str().unwrap().len() > 8, "{around}");
    assert_eq!((&around["request_id"], &around["cancelled"]), (&json!("req-7"), &json!(false)));
    assert!((1..=1000).contains(&around["remaining_ms"].as_u64().unwrap()), "{around}");
    let line = service.log().entry("the tool's own line", |entry| entry["message"] == "looked around").await;
    assert_eq!(line["request_id"], "req-7", "{line}");
}

/// A tool's progress reaches who watches the run and its span; how long the first words took is in the
/// model's.
#[tokio::test]
async fn what_happens_within_a_streamed_run_is_shown_and_an_event_of_its_span() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    model.asks_for("work_in_steps", json!({ "steps": 3, "step_ms": 150 })).says("worked");
    let service = traced(&model, &collector).tool(Component::misbehaving("misbehaving")).start().await;
    let events = service.invoke_streamed("work").await.rest().await;
    let at = |name: &str| events.iter().position(|event| event.name == name).expect(name);
    let (started, returned) = (at("tool.started"), at("tool.returned"));
    let reports: Vec<_> = events.iter().filter(|event| event.name == "tool.progress").collect();
    assert!(!reports.is_empty() && reports.len() <= 3, "{events:?}");
    assert!((started..returned).contains(&at("tool.progress")), "{events:?}");
    for report in reports {
        let data = &report.data;
        let step = (data["fraction"].as_f64().unwrap() * 3.0).round();
        assert_eq!(data["message"], format!("step {step} of 3\\u{{1b}}[31m"), "nothing steers a terminal");
        assert_eq!((&data["name"], &data["index"]), (&json!("work_in_steps"), &json!(0)));
        assert_eq!((&data["id"], &report.id), (&events[started].data["id"], &None));
    }

    let tool = collector.span("execute_tool work_in_steps").await;
    let (name, last) = tool.events.last().expect("a report");
    assert_eq!((name.as_str(), &last["agent.tool.progress.fraction"]), ("tool.progress", &json!(1.0)));
    assert_eq!(last.len(), 1, "what a tool says is content: {last:?}");
    let spoken = |span: &acceptance::Span| span.attribute("gen_ai.response.finish_reasons")[0] == "stop";
    let chat = collector.span_where("chat test-model", spoken).await;
    let (name, first) = &chat.events[0];
    assert_eq!((name.as_str(), chat.events.len()), ("gen_ai.first_token", 1));
    assert!(first["gen_ai.server.time_to_first_token"].as_f64().unwrap() > 0.0, "{first:?}");
    assert!(!service.log().stdout().contains("otel.event"), "the log has none of them");
}

#[tokio::test]
async fn what_is_said_is_in_the_spans_only_when_that_is_asked_for() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    model.asks_for("calculate", json!({ "expression": "6 * 7" })).says("it is 42");
    let content = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
    let service = traced(&model, &collector).env(content, "true").start().await;
    service.result_of("what is it?").await;
    let tool = collector.span("execute_tool calculate").await;
    let read = |value: &Value| serde_json::from_str::<Value>(value.as_str().unwrap()).unwrap();
    assert_eq!(read(tool.attribute("gen_ai.tool.call.arguments")), json!({ "expression": "6 * 7" }));
    assert!(tool.attribute("gen_ai.tool.call.result").as_str().unwrap().contains("42"));
    let chat = collector
        .span_where("chat test-model", |it| it.attribute("gen_ai.response.finish_reasons")[0] == "stop")
        .await;
    let input = read(chat.attribute("gen_ai.input.messages"));
    assert_eq!(input[0], json!({ "role": "user", "parts": [{ "type": "text", "content": "what is it?" }] }));
    assert_eq!((&input[1]["parts"][0]["type"], &input[2]["role"]), (&json!("tool_call"), &json!("tool")));
    assert_eq!(
        read(chat.attribute("gen_ai.output.messages")),
        json!([{ "role": "assistant", "parts": [{ "type": "text", "content": "it is 42" }], "finish_reason": "stop" }])
    );
}

#[tokio::test]
async fn key_project_and_headers_go_with_every_export() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    let service = traced(&model, &collector).env("TRACING_PROJECT", "mine").start().await;
    service.get("/nowhere").await;
    let asked = collector.was_asked(1).await;
    let (path, headers) = &asked[0];
    assert_eq!(
        (path.as_str(), headers["content-type"].to_str().unwrap()),
        ("/v1/traces", "application/x-protobuf")
    );
    assert_eq!(headers["authorization"], "Bearer key-never-to-be-seen");
    assert_eq!(headers["x-api-key"], "key-never-to-be-seen");
    assert_eq!(headers["langsmith-project"], "mine");
    assert!(!headers.contains_key("traceparent"), "exports are not traced");
    assert!(!service.log().to_string().contains("never-to-be-seen"));

    let service = traced(&model, &collector)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc,x-team=ours")
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{}/elsewhere", collector.url()))
        .start()
        .await;
    service.get("/nowhere").await;
    let asked = collector.was_asked(asked.len() + 1).await;
    let (path, headers) = asked.last().unwrap();
    assert_eq!(path, "/elsewhere");
    assert_eq!(headers["authorization"], "Basic abc");
    assert_eq!(headers["x-team"], "ours");
}

#[tokio::test]
async fn a_callers_trace_is_continued_and_its_flag_decides_nothing() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    model.always(|_| says("hello"));
    let service = traced(&model, &collector).start().await;
    invoke_within(&service, &traceparent("00")).await;
    let server = collector.span("POST /agent/invoke").await;
    assert_eq!((server.trace_id.as_str(), server.parent_id.as_str()), (TRACE, PARENT));
    assert!(model.calls()[0].header("traceparent").starts_with(&format!("00-{TRACE}-")));
    assert_eq!(model.calls()[0].header("tracestate"), "dd=s:2;o:rum,other=1");
    // The log names the trace, and the span within it.
    let line = service.log().entry("the request", |entry| entry["path"] == "/agent/invoke").await;
    assert_eq!((&line["trace_id"], &line["span_id"]), (&json!(TRACE), &json!(server.span_id)));

    let service = traced(&model, &collector).env("OTEL_TRACES_SAMPLER", "always_off").start().await;
    invoke_within(&service, &traceparent("01")).await;
    // What is sent on says truthfully that nothing is recorded here.
    assert!(model.calls()[1].header("traceparent").ends_with("-00"));
    service.stop().await;
    let trees = collector.spans().iter().filter(|span| span.name == "POST /agent/invoke").count();
    assert_eq!(trees, 1, "the flag of a caller forces nothing");
}

#[tokio::test]
async fn a_share_of_the_traces_is_decided_by_their_ids() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    let service = traced(&model, &collector)
        .env("OTEL_TRACES_SAMPLER", "traceidratio")
        .env("OTEL_TRACES_SAMPLER_ARG", "0.5")
        .start()
        .await;
    for _ in 0..200 {
        service.get("/nowhere").await;
    }
    service.stop().await;
    let recorded = collector.spans().len();
    assert!((50..=150).contains(&recorded), "{recorded} of 200");
}

#[tokio::test]
async fn without_a_key_nothing_is_exported_and_a_callers_trace_is_passed_on() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    model.always(|_| says("hello"));
    let service =
        Service::variant_a().model(&model).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()).start().await;
    service.log().line_with(&["OTEL_EXPORTER_OTLP_ENDPOINT is set and TRACING_API_KEY is not"]).await;
    invoke_within(&service, &traceparent("01")).await;
    assert_eq!(model.calls()[0].header("traceparent"), traceparent("01"));
    assert_eq!(model.calls()[0].header("tracestate"), "dd=s:2;o:rum,other=1");
    let line = service.log().entry("the request", |entry| entry["path"] == "/agent/invoke").await;
    assert_eq!((&line["trace_id"], &line["span_id"]), (&json!(TRACE), &json!(PARENT)));
    service.result_of("hi").await;
    assert_eq!(model.calls()[1].header("traceparent"), "");
    service.stop().await;
    assert_eq!(collector.spans().len(), 0);
}

#[tokio::test]
async fn probes_and_health_checks_are_no_traces() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    let service = traced(&model, &collector).start().await;
    service.live().await;
    service.ready().await;
    service.get("/metrics").await;
    service.stop().await;
    assert_eq!(collector.spans().len(), 0);
}

#[tokio::test]
async fn a_failure_is_marked_as_one() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    model.answers(401, &[], "");
    let service = traced(&model, &collector).start().await;
    assert_eq!(service.invoke("hi").await.status, 500);
    for (name, error) in [
        ("POST /agent/invoke", "500"),
        ("invoke_agent", "refused"),
        ("chat test-model", "refused"),
        ("POST", "401"),
    ] {
        let span = collector.span(name).await;
        assert!(span.failed, "{span:?}");
        assert_eq!(span.attribute("error.type"), error, "{span:?}");
    }
}

#[tokio::test]
async fn a_collector_that_is_down_or_refuses_costs_spans_that_are_counted_and_told_of_once() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    collector.answers(403);
    let service = traced(&model, &collector).start().await;
    let count = async |name: &str| service.metrics().await.value(name, &[]).unwrap();
    for lost in 1..=2 {
        assert_eq!(service.get("/nowhere").await.status, 404);
        eventually("the lost spans to be counted", async || {
            (count("agent_trace_spans_failed_total").await >= f64::from(lost)).then_some(())
        })
        .await;
    }
    service.log().line_with(&["traces cannot be exported"]).await;
    let told = |text: &str| service.log().to_string().lines().filter(|line| line.contains(text)).count();
    assert_eq!(told("traces cannot be exported"), 1, "{}", service.log());
    assert!(service.log().to_string().contains("the collector answered 403"), "{}", service.log());
    collector.answers(200);
    service.get("/nowhere").await;
    collector.span("GET").await;
    service.log().line_with(&["traces are exported again"]).await;
    assert!(count("agent_trace_spans_exported_total").await > 0.0);
    service.stop().await;

    let nobody = ReservedPort::take();
    let service = Service::variant_a()
        .model(&model)
        .env("TRACING_API_KEY", "k")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", nobody.address()));
    let service = service.env("OTEL_EXPORTER_OTLP_TIMEOUT", "100").start().await;
    service.get("/nowhere").await;
    service.log().line_with(&["traces cannot be exported", "could not be reached"]).await;
    service.stop().await;
}

#[tokio::test]
async fn a_collector_that_never_answers_costs_neither_a_request_nor_the_shutdown() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    collector.is_silent();
    let mut service = traced(&model, &collector).env("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000").start().await;
    // More than fit into the queue.
    for _ in 0..6000 {
        assert_eq!(service.get("/nowhere").await.status, 404);
    }
    let metrics = service.metrics().await;
    assert!(metrics.value("agent_trace_spans_dropped_total", &[]).unwrap() > 0.0);
    service.signal(Signal::TERM);
    assert_eq!(service.ended().await.code, Some(0));
}

#[tokio::test]
async fn lines_of_a_text_log_name_their_trace_too() {
    let (model, collector) = (Model::openai().await, Collector::start().await);
    model.plays(Play::Whole { status: 401, headers: vec![], body: String::new() });
    let service = traced(&model, &collector).env("NODE_ENV", "development").start().await;
    assert_eq!(service.invoke("hi").await.status, 500);
    let server = collector.span("POST /agent/invoke").await;
    service.log().line_with(&["/agent/invoke 500", &server.trace_id, &server.span_id]).await;
}
