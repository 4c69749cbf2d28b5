//! As an AWS Lambda function: requests come from the platform's runtime interface, here one of our own.

use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;

use acceptance::{Builder, Collector, Model, Service, Signal, Task, Token, eventually, says, serve};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;

/// The runtime interface: hands its events out one after the other and keeps what is answered.
#[derive(Clone)]
struct Platform {
    events: Arc<Mutex<Vec<Value>>>,
    /// Notified of another event.
    another: Arc<Notify>,
    answers: Arc<Mutex<Vec<Value>>>,
    /// Where the function keeps its records.
    folder: Arc<TempDir>,
    /// Where it exports its spans to, if anywhere.
    collector: Option<Arc<Collector>>,
}

impl Platform {
    /// Serves these events, the last one first; then it has none, as a function that is frozen.
    async fn serving(events: Vec<Value>) -> (Self, SocketAddr, Task<()>) {
        Self::beside(None, events).await
    }

    async fn beside(collector: Option<Arc<Collector>>, events: Vec<Value>) -> (Self, SocketAddr, Task<()>) {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let events = Arc::new(Mutex::new(events));
        let platform = Self { events, another: Arc::default(), answers: Arc::default(), folder, collector };
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next_event))
            .route("/2018-06-01/runtime/invocation/{id}/{outcome}", post(take_answer))
            .with_state(platform.clone());
        let (address, serving) = serve(router).await;
        (platform, address, serving)
    }

    /// Serves another event.
    fn add(&self, event: Value) {
        self.events.lock().push(event);
        self.another.notify_one();
    }

    /// Whether the function's database has that text by now: it is frozen as soon as it has answered.
    fn has_kept(&self, text: &str) -> bool {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        files
            .filter_map(|file| std::fs::read(file.unwrap().path()).ok())
            .any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }

    async fn answers(&self, count: usize) -> Vec<Value> {
        eventually("the function to answer", async || {
            let answers = self.answers.lock().clone();
            (answers.len() >= count).then_some(answers)
        })
        .await
    }
}

async fn next_event(State(platform): State<Platform>) -> Response {
    let event = loop {
        let event = platform.events.lock().pop();
        match event {
            Some(event) => break event,
            None => platform.another.notified().await,
        }
    };
    let headers = [
        ("lambda-runtime-aws-request-id", "8476a536-e9f4-11e8-9739-2dfe598c3fcd"),
        ("lambda-runtime-deadline-ms", "4102444800000"),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:eu-central-1:123456789012:function:agent"),
    ];
    (headers, event.to_string()).into_response()
}

async fn take_answer(
    State(platform): State<Platform>,
    Path((_id, outcome)): Path<(String, String)>,
    body: Bytes,
) -> StatusCode {
    let answer: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let result: Value = serde_json::from_str(answer["body"].as_str().unwrap_or_default()).unwrap_or_default();
    let recorded = result["id"].as_str().map(|run_id| platform.has_kept(run_id));
    let spans = platform.collector.as_ref().map(|collector| collector.spans());
    let spans = spans.map(|spans| spans.into_iter().map(|span| span.name).collect::<Vec<_>>());
    platform
        .answers
        .lock()
        .push(json!({ "outcome": outcome, "answer": answer, "recorded": recorded, "spans": spans }));
    StatusCode::ACCEPTED
}

/// An event of an HTTP API, which is also what a function URL sends.
fn event(path: &str, token: Option<&Token>, body: &Value) -> Value {
    let mut headers = json!({ "content-type": "application/json", "host": "example.test" });
    if let Some(token) = token {
        headers["authorization"] = json!(format!("Bearer {}", token));
    }
    json!({
        "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": "",
        "headers": headers,
        "requestContext": {
            "accountId": "123456789012", "apiId": "api", "domainName": "example.test", "domainPrefix": "example",
            "http": { "method": "POST", "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.7",
                      "userAgent": "test" },
            "requestId": "request", "routeKey": "$default", "stage": "$default",
            "time": "21/Nov/2026:12:00:00 +0000", "timeEpoch": 1_795_262_400_000_u64
        },
        "body": body.to_string(), "isBase64Encoded": false
    })
}

/// A `GET` event.
fn get_event(path: &str, token: &Token, headers: &[(&str, &str)]) -> Value {
    let mut event = event(path, Some(token), &Value::Null);
    event["requestContext"]["http"]["method"] = json!("GET");
    event["body"] = Value::Null;
    for (name, value) in headers {
        event["headers"][name] = json!(value);
    }
    event
}

/// An event of an HTTP API with that stage, which is called by that path and has that route.
fn staged_event(stage: &str, path: &str, route: &str, proxy: Option<&str>, domain: &str) -> Value {
    let mut event = event(path, Some(&Token::of("u")), &json!({ "query": path }));
    event["routeKey"] = json!(route);
    event["requestContext"]["routeKey"] = json!(route);
    event["requestContext"]["stage"] = json!(stage);
    event["requestContext"]["domainName"] = json!(domain);
    event["pathParameters"] = proxy.map_or(Value::Null, |proxy| json!({ "proxy": proxy }));
    event
}

/// An event of the format 1.0: of a REST API, or of an HTTP API that was set up to send it. `path` is what
/// the function is told, `called` what the client called.
fn rest_event(path: &str, called: &str, resource: &str, proxy: Option<&str>, domain: &str) -> Value {
    let authorization = format!("Bearer {}", Token::of("u"));
    json!({
        "resource": resource, "path": path, "httpMethod": "POST",
        "headers": { "Content-Type": "application/json", "Host": domain, "Authorization": authorization,
                     "X-Forwarded-For": "192.0.2.7", "X-Forwarded-Port": "443", "X-Forwarded-Proto": "https" },
        "multiValueHeaders": { "Content-Type": ["application/json"], "Host": [domain],
                               "Authorization": [authorization] },
        "queryStringParameters": null, "multiValueQueryStringParameters": null,
        "pathParameters": proxy.map(|proxy| json!({ "proxy": proxy })), "stageVariables": null,
        "requestContext": {
            "resourceId": "us4z18", "resourcePath": resource, "httpMethod": "POST", "path": called,
            "accountId": "123456789012", "apiId": "api", "protocol": "HTTP/1.1", "stage": "prod",
            "domainName": domain, "domainPrefix": "api", "requestId": "request", "extendedRequestId": "e",
            "requestTime": "21/Nov/2026:12:00:00 +0000", "requestTimeEpoch": 1_795_262_400_000_u64,
            "identity": { "sourceIp": "192.0.2.7", "userAgent": "test" }
        },
        "body": json!({ "query": called }).to_string(), "isBase64Encoded": false
    })
}

/// An event of a load balancer.
fn balancer_event(path: &str) -> Value {
    json!({
        "requestContext": { "elb": { "targetGroupArn":
            "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/agent/6d0ecf831eec9f09" } },
        "httpMethod": "POST", "path": path, "queryStringParameters": {},
        "headers": { "content-type": "application/json", "host": "lb.example.test",
                     "authorization": format!("Bearer {}", Token::of("u")),
                     "x-forwarded-for": "192.0.2.7", "x-forwarded-port": "443", "x-forwarded-proto": "https" },
        "body": json!({ "query": "balanced" }).to_string(), "isBase64Encoded": false
    })
}

fn function(platform: &Platform, model: &Model, address: SocketAddr) -> Builder {
    let builder = Service::variant_b();
    let builder = match &platform.collector {
        Some(collector) => {
            builder.env("TRACING_API_KEY", "key").env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
        }
        None => builder,
    };
    builder
        .model(model)
        .sqlite_in(platform.folder.path())
        .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
        .env("AWS_LAMBDA_FUNCTION_NAME", "agent")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
}

#[tokio::test]
async fn what_an_event_left_is_recorded_before_its_answer_is_given() {
    let model = Model::always_saying("from the cloud").await;
    let ask = |n| event("/api/serverless", Some(&Token::of("u")), &json!({ "query": format!("hi {n}") }));
    let (platform, address, _serving) = Platform::serving((0..5).map(ask).collect()).await;
    let _service = function(&platform, &model, address).start_at(address).await;
    for answer in platform.answers(5).await {
        assert_eq!(answer["recorded"], json!(true), "{answer}");
    }
}

#[tokio::test]
async fn an_event_that_is_under_way_at_the_signal_is_answered_and_recorded() {
    let model = Model::openai().await;
    let gate = model.holds(says("from the cloud"));
    let ask = |n| event("/api/serverless", Some(&Token::of("u")), &json!({ "query": format!("hi {n}") }));
    let (platform, address, _serving) = Platform::serving(vec![ask(1)]).await;
    let mut service = function(&platform, &model, address).start_at(address).await;
    model.was_asked(1).await;
    service.signal(Signal::TERM);
    service.log().line_with(&["stopping", "SIGTERM"]).await;
    gate.open();
    let answers = platform.answers(1).await;
    assert_eq!((&answers[0]["answer"]["statusCode"], &answers[0]["recorded"]), (&json!(200), &json!(true)));
    assert_eq!(service.ended().await.code, Some(0));
}

#[tokio::test]
async fn the_spans_of_an_event_are_exported_before_its_answer_is_given() {
    let model = Model::saying("from the cloud").await;
    let events = vec![event("/api/serverless", Some(&Token::of("u")), &json!({ "query": "hi" }))];
    let collector = Some(Arc::new(Collector::start().await));
    let (platform, address, _serving) = Platform::beside(collector, events).await;
    let _service = function(&platform, &model, address).start_at(address).await;
    let answers = platform.answers(1).await;
    let spans = answers[0]["spans"].as_array().unwrap();
    for name in ["chat test-model", "invoke_agent", "POST /api/serverless"] {
        assert!(spans.contains(&json!(name)), "{name}: {spans:?}");
    }
}

#[tokio::test]
async fn a_collector_that_does_not_answer_costs_no_event_its_answer() {
    let model = Model::always_saying("from the cloud").await;
    let ask = |n| event("/api/serverless", Some(&Token::of("u")), &json!({ "query": format!("hi {n}") }));
    let collector = Collector::start().await;
    collector.is_silent();
    let (platform, address, _serving) =
        Platform::beside(Some(Arc::new(collector)), (0..2).map(ask).collect()).await;
    let _service = function(&platform, &model, address).start_at(address).await;
    for answer in platform.answers(2).await {
        assert_eq!((&answer["answer"]["statusCode"], &answer["spans"]), (&json!(200), &json!([])));
    }
}

#[tokio::test]
async fn the_same_service_answers_events_of_lambda() {
    let model = Model::saying("from the cloud").await;
    let query = json!({ "query": "hi" });
    let events =
        vec![event("/api/serverless", None, &query), event("/api/serverless", Some(&Token::of("u")), &query)];
    let (platform, address, _serving) = Platform::serving(events).await;
    let service = function(&platform, &model, address).start_at(address).await;

    let answers = platform.answers(2).await;
    let (first, second) = (&answers[0]["answer"], &answers[1]["answer"]);
    assert_eq!((&answers[0]["outcome"], &first["statusCode"]), (&json!("response"), &json!(200)), "{first}");
    let result: Value = serde_json::from_str(first["body"].as_str().unwrap()).unwrap();
    assert_eq!(result["output"], "from the cloud");
    assert_eq!(first["headers"]["content-type"], "application/json; charset=utf-8");
    assert_eq!(first["headers"]["ratelimit-remaining"], "99");
    // The caller's address is the platform's word: both events came from the same one.
    assert_eq!(
        (&second["statusCode"], &second["headers"]["ratelimit-remaining"]),
        (&json!(401), &json!("98"))
    );
    service
        .log()
        .entry("where the service runs", |entry| {
            entry["message"].as_str().is_some_and(|message| message.contains("Lambda function"))
        })
        .await;
    service.stop().await;
}

/// Execute-api addresses have the stage in their path, custom domains the base path of a mapping.
#[tokio::test]
async fn requests_of_any_stage_and_base_path_find_their_route() {
    const OWN: &str = "api.execute-api.eu-central-1.amazonaws.com";
    const CUSTOM: &str = "api.example.test";
    const PATH: &str = "/api/serverless";
    let proxy = Some("api/serverless");
    let events = vec![
        // REST APIs: their own address, a domain's root, a mapping with a base path, one without a stage, one
        // resource.
        rest_event(PATH, "/prod/api/serverless", "/{proxy+}", proxy, OWN),
        rest_event(PATH, PATH, "/{proxy+}", proxy, CUSTOM),
        rest_event("/v1/api/serverless", "/v1/api/serverless", "/{proxy+}", proxy, CUSTOM),
        rest_event("/a/b/prod/api/serverless", "/a/b/prod/api/serverless", "/{proxy+}", proxy, CUSTOM),
        rest_event("/v1/api/serverless", "/v1/api/serverless", PATH, None, CUSTOM),
        // HTTP APIs that send the format 1.0.
        rest_event("/prod/api/serverless", "/prod/api/serverless", "$default", None, OWN),
        // HTTP APIs.
        staged_event("prod", "/prod/api/serverless", "$default", None, OWN),
        staged_event("prod", "/prod/api/serverless", "ANY /{proxy+}", proxy, OWN),
        staged_event("prod", "/v1/api/serverless", "ANY /{proxy+}", proxy, CUSTOM),
        staged_event("api", "/api/api/serverless", "POST /api/serverless", None, OWN),
        staged_event("$default", "/v1/api/serverless", "POST /api/{proxy+}", Some("serverless"), CUSTOM),
        staged_event("$default", PATH, "$default", None, OWN),
        balancer_event(PATH),
    ];
    let model = Model::always_saying("from the cloud").await;
    let (platform, address, _serving) = Platform::serving(events.clone()).await;
    let builder = function(&platform, &model, address).env("RATE_LIMIT_USER", "1000");
    let _service = builder.start_at(address).await;
    let answers = platform.answers(events.len()).await;
    for (answer, event) in answers.iter().zip(events.iter().rev()) {
        assert_eq!(answer["answer"]["statusCode"], 200, "{event:#}\n{answer:#}");
    }
}

/// What a turn leaves behind holds its conversation no longer than its answer takes: a function may be frozen
/// behind it until the next turn comes.
#[tokio::test]
async fn a_conversation_is_free_again_when_its_turn_is_answered() {
    let model = Model::saying("Hello, Ada!").await;
    model.says("Ada.");
    let turn = |query: &str| {
        let body = json!({ "query": query, "options": { "conversationId": "trip" } });
        event("/api/agent", Some(&Token::of("u")), &body)
    };
    let events = vec![turn("Who am I?"), turn("I am Ada.")];
    let (platform, address, _serving) = Platform::serving(events).await;
    let _service = function(&platform, &model, address).start_at(address).await;
    let answers = platform.answers(2).await;
    for (answer, output) in answers.iter().zip(["Hello, Ada!", "Ada."]) {
        assert_eq!(answer["answer"]["statusCode"], 200, "{answer:#}");
        let result: Value = serde_json::from_str(answer["answer"]["body"].as_str().unwrap()).unwrap();
        assert_eq!(result["output"], output, "{answer:#}");
    }
    assert_eq!(model.calls()[1].body["messages"].as_array().unwrap().len(), 3, "it knows the first turn");
}

/// An answer is given when it is whole, so a stream that does not end by itself would never be.
#[tokio::test]
async fn streams_without_an_end_are_refused_or_short() {
    let (user, json_and_events) = (Token::of("u"), ("accept", "application/json, text/event-stream"));
    let version = ("mcp-protocol-version", "2025-11-25");
    let changes = get_event("/mcp", &user, &[("accept", "text/event-stream"), version]);
    let message = |method: &str, params: Value, version: &str| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut event = event("/mcp", Some(&user), &body);
        event["headers"]["accept"] = json!(json_and_events.1);
        event["headers"]["mcp-protocol-version"] = json!(version);
        event["headers"]["mcp-method"] = json!(method);
        event
    };
    let client = json!({ "name": "test", "version": "1" });
    let handshake = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": client, "io.modelcontextprotocol/clientCapabilities": {} });
    let listen = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    let submit = event("/api/agent/async", Some(&user), &json!({ "query": "hi" }));
    let mut events = vec![
        changes,
        message("initialize", handshake, "2025-11-25"),
        message("subscriptions/listen", listen, "2026-07-28"),
        submit,
    ];
    events.reverse();
    let model = Model::openai().await;
    let (platform, address, _serving) = Platform::serving(events).await;
    let _service = function(&platform, &model, address).start_at(address).await;
    let body = |answer: &Value| answer["answer"]["body"].as_str().unwrap().to_owned();
    let submitted: Value = serde_json::from_str(&body(&platform.answers(4).await[3])).unwrap();
    // Nobody works on it here, so its stream goes on until it is cut.
    let events = format!("/api/agent/jobs/{}/events", submitted["jobId"].as_str().unwrap());
    platform.add(get_event(&events, &user, &[("accept", "text/event-stream")]));
    let answers = platform.answers(5).await;
    let refused = &answers[0]["answer"];
    assert_eq!((&refused["statusCode"], &refused["headers"]["allow"]), (&json!(405), &json!("POST")));
    let initialized = body(&answers[1]);
    assert!(initialized.contains("capabilities") && !initialized.contains("listChanged"), "{initialized}");
    let refused = body(&answers[2]);
    assert!(refused.contains("-32601"), "{refused}");
    let followed = body(&answers[4]);
    assert!(followed.ends_with("retry: 1000\n\n"), "{followed}");
    assert_eq!(followed.matches("retry: ").count(), 2, "at its beginning and its end: {followed}");
}
