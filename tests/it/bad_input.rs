//! Requests that are wrong: each has its status and its body, and none harms the service.

use acceptance::{Answer, Model, PATIENCE, Service, Socket, Task, eventually, says};
use bytes::Bytes;
use insta::{allow_duplicates, assert_snapshot};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

/// The limit of host/docs/interface/decisions-http.md#bodies.
const LIMIT: usize = 102_400;

async fn start(model: &Model) -> Service {
    model.always(|_| says("hello"));
    Service::variant_a().model(model).start().await
}

/// The service answers as ever.
async fn check_health(service: &Service) {
    assert_eq!(service.live().await.status, 200);
    assert_eq!(service.result_of("hi").await["output"], "hello");
}

#[tokio::test]
async fn a_body_that_is_not_what_it_should_be_is_a_400_and_no_model_is_asked() {
    let model = Model::openai().await;
    let service = start(&model).await;
    let bodies: [&[u8]; 26] = [
        b"",
        b" ",
        b"not json",
        br#"{"input":"#,
        br#"{"input":"hi""#,
        br#"{"input":"hi"}}"#,
        br#"{"input":"hi",}"#,
        br#"{'input':'hi'}"#,
        br#"{input:"hi"}"#,
        b"{\"input\":\"\xff\xfe\"}",
        br#"{"input":"\ud800"}"#,
        b"{\"input\":\"a\nb\"}",
        b"[]",
        br#"["input"]"#,
        br#""input""#,
        b"5",
        b"true",
        b"null",
        b"{}",
        br#"{"Input":"hi"}"#,
        br#"{"query":"hi"}"#,
        br#"{"input":""}"#,
        br#"{"input":5}"#,
        br#"{"input":null}"#,
        br#"{"input":["hi"]}"#,
        br#"{"input":{"text":"hi"}}"#,
    ];
    for body in bodies {
        let answer = service.post("/agent/invoke", body).await;
        allow_duplicates! {
            assert_snapshot!(answer, @r#"
            400 application/json; charset=utf-8
            {"error":"Invalid input"}
            "#);
        }
    }
    let deep = format!(r#"{{"input":{}{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
    assert_eq!(service.post("/agent/invoke", deep).await.status, 400);
    assert_eq!(model.calls().len(), 0);
    check_health(&service).await;
}

/// A body of exactly that many bytes.
fn body_of(bytes: usize) -> String {
    let frame = json!({ "input": "" }).to_string().len();
    json!({ "input": "x".repeat(bytes - frame) }).to_string()
}

fn in_chunks(body: String) -> Vec<Bytes> {
    let body = Bytes::from(body);
    (0..body.len()).step_by(10_000).map(|at| body.slice(at..body.len().min(at + 10_000))).collect()
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413_however_its_length_is_told() {
    let model = Model::openai().await;
    model.always(|_| says("hello"));
    let service = Service::variant_a().model(&model).env("TOKEN_BUDGET_PER_REQUEST", "1000000").start().await;
    let too_large = |answer: Answer| {
        allow_duplicates! {
            assert_snapshot!(answer, @r#"
            413 application/json; charset=utf-8
            {"error":"Payload too large"}
            "#);
        }
    };
    for bytes in [LIMIT + 1, 10 * LIMIT] {
        too_large(service.post("/agent/invoke", body_of(bytes)).await);
        too_large(service.post_chunked("/agent/invoke", in_chunks(body_of(bytes))).await);
    }
    assert_eq!(model.calls().len(), 0);
    // The last byte that fits.
    assert_eq!(service.post("/agent/invoke", body_of(LIMIT)).await.status, 200);
    assert_eq!(service.post_chunked("/agent/invoke", in_chunks(body_of(LIMIT))).await.status, 200);
}

#[tokio::test]
async fn the_body_limit_can_be_set() {
    let model = Model::openai().await;
    model.says("hello");
    let service = Service::variant_a().model(&model).env("MAX_BODY_BYTES", "20").start().await;
    assert_eq!(service.post("/agent/invoke", body_of(21)).await.status, 413);
    assert_eq!(service.post("/agent/invoke", body_of(20)).await.status, 200);
}

#[tokio::test]
async fn a_wrong_content_type_changes_nothing() {
    let model = Model::openai().await;
    let service = start(&model).await;
    let types =
        ["text/plain", "application/x-www-form-urlencoded", "application/vnd.api+json", "nonsense", ""];
    for content_type in types {
        let request = service.request(Method::POST, "/agent/invoke").header(CONTENT_TYPE, content_type);
        let answer = service.send(request.body(r#"{"input":"hi"}"#)).await;
        assert_eq!(answer.status, 200, "{content_type}: {answer}");
    }
    let untyped = service.request(Method::POST, "/agent/invoke").body(r#"{"input":"hi"}"#);
    assert_eq!(service.send(untyped).await.status, 200);
}

#[tokio::test]
async fn a_wrong_method_is_a_405_that_names_the_right_one() {
    let model = Model::openai().await;
    let service = start(&model).await;
    let methods = [Method::GET, Method::HEAD, Method::PUT, Method::PATCH, Method::DELETE];
    for (path, allowed) in
        [("/agent/invoke", "POST"), ("/health/live", "GET"), ("/health/ready", "GET"), ("/metrics", "GET")]
    {
        for method in methods.iter().chain([&Method::POST]).filter(|method| {
            // HEAD is answered wherever GET is.
            method.as_str() != allowed && !(allowed == "GET" && **method == Method::HEAD)
        }) {
            let answer = service.send(service.request(method.clone(), path)).await;
            let allow: Vec<_> = answer.header("allow").split(',').map(str::trim).collect();
            assert!(answer.status == 405 && allow.contains(&allowed), "{method} {path}: {answer} {allow:?}");
            if *method != Method::HEAD {
                assert_eq!(answer.body, r#"{"error":"Method not allowed"}"#, "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn an_unknown_path_is_a_404() {
    let model = Model::openai().await;
    let service = start(&model).await;
    // Variant B's paths are unknown to Variant A.
    let paths = ["/agent", "/agent/invoke/", "/Agent/Invoke", "/health", "/ready", "/api/agent", "/%00"];
    for path in paths {
        for method in [Method::GET, Method::POST] {
            let answer = service.send(service.request(method, path)).await;
            allow_duplicates! {
                assert_snapshot!(answer, @r#"
                404 application/json; charset=utf-8
                {"error":"Not found"}
                "#);
            }
        }
    }
}

#[tokio::test]
async fn what_is_no_http_leaves_the_service_healthy() {
    let model = Model::openai().await;
    let service = start(&model).await;
    let long_header =
        format!("GET /health/live HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let many_headers = format!("GET /health/live HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(10_000));
    let garbage: [&[u8]; 9] = [
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", // the beginning of TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /health/live HTTP/9.9\r\n\r\n",
        b"POST /agent/invoke HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /agent/invoke HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        long_header.as_bytes(),
        many_headers.as_bytes(),
    ];
    for bytes in garbage {
        let mut socket = Socket::connect(service.address()).await;
        socket.send(bytes).await;
        socket.finish().await;
        let answer = socket.read_to_end().await;
        assert!(
            !answer.contains("200 OK"),
            "{}: {answer}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(80)])
        );
    }
    assert_eq!(model.calls().len(), 0);
    check_health(&service).await;
}

#[tokio::test]
async fn half_a_request_and_a_closed_connection_leave_the_service_healthy() {
    let model = Model::openai().await;
    let service = start(&model).await;
    let whole =
        "POST /agent/invoke HTTP/1.1\r\nhost: localhost\r\ncontent-length: 14\r\n\r\n{\"input\":\"hi\"}";
    for length in 0..whole.len() {
        let mut socket = Socket::connect(service.address()).await;
        socket.send(&whole[..length]).await;
        // Every other one says goodbye first.
        if length % 2 == 0 {
            socket.finish().await;
            let answer = socket.read_to_end().await;
            assert!(!answer.contains("200 OK"), "{answer}");
        }
    }
    check_health(&service).await;
    assert_eq!(model.calls().len(), 1, "only that of the check");
    eventually("no request to be in progress", async || {
        let metrics = service.metrics().await;
        (metrics.value("agent_active_requests", &[]) == Some(0.0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn connections_that_say_nothing_keep_nobody_from_being_served() {
    let model = Model::openai().await;
    let service = start(&model).await;
    let mut idle = Vec::new();
    for n in 0..200 {
        let mut socket = Socket::connect(service.address()).await;
        if n % 2 == 0 {
            socket.send("POST /agent/invoke HTTP/1.1\r\nhost:").await;
        }
        idle.push(socket);
    }
    check_health(&service).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up_at_its_time_limit() {
    let model = Model::openai().await;
    model.always(|_| says("hello"));
    let service = Service::variant_a().model(&model).env("BODY_TIMEOUT_MS", "200").start().await;
    let mut socket = Socket::connect(service.address()).await;
    socket.send("POST /agent/invoke HTTP/1.1\r\nhost: localhost\r\ncontent-length: 14\r\n\r\n{\"inp").await;
    let answer = socket.read_to_end().await;
    assert!(
        answer.starts_with("HTTP/1.1 408 ") && answer.ends_with(r#"{"error":"Request timeout"}"#),
        "{answer}"
    );
    check_health(&service).await;
}

#[tokio::test]
async fn who_asks_before_sending_a_body_is_told_at_once_that_it_is_too_large() {
    let model = Model::openai().await;
    let service = start(&model).await;
    let head = |length| {
        format!(
            "POST /agent/invoke HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nexpect: 100-continue\r\n\
             content-length: {length}\r\n\r\n"
        )
    };
    let mut socket = Socket::connect(service.address()).await;
    socket.send(head(LIMIT + 1)).await;
    let answer = socket.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    // One whose body is welcome is told so.
    let mut socket = Socket::connect(service.address()).await;
    socket.send(head(14)).await;
    assert_eq!(socket.read_line().await, "HTTP/1.1 100 Continue");
    socket.send("{\"input\":\"hi\"}").await;
    let answer = socket.read_to_end().await;
    assert!(answer.contains("HTTP/1.1 200 OK"), "{answer}");
}

#[tokio::test]
async fn requests_on_one_connection_are_answered_in_their_order() {
    let model = Model::openai().await;
    let service = start(&model).await;
    let mut socket = Socket::connect(service.address()).await;
    let good =
        "POST /agent/invoke HTTP/1.1\r\nhost: localhost\r\ncontent-length: 14\r\n\r\n{\"input\":\"hi\"}";
    let bad = "POST /agent/invoke HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}";
    let last = "GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    socket.send(format!("{bad}{good}{bad}{last}")).await;
    let answers = socket.read_to_end().await;
    let statuses: Vec<_> =
        answers.match_indices("HTTP/1.1 ").map(|(at, _)| &answers[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["400", "200", "400", "200"], "{answers}");
}

#[tokio::test]
async fn a_hundred_bad_requests_at_once_are_a_hundred_answers() {
    let model = Model::openai().await;
    let service = start(&model).await;
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let caller = service.caller();
            Task::begin(async move { caller.post("/agent/invoke", "{").await.status })
        })
        .collect();
    for task in tasks {
        assert_eq!(tokio::time::timeout(PATIENCE, task.ended()).await, Ok(400));
    }
    check_health(&service).await;
}
