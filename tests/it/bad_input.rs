//! Bytes that are no request, or half of one, harm no service. Which wrong request has which answer is tested
//! in `host/http-edge`.

use acceptance::{Model, Service, Socket, eventually, says};

use serde_json::json;

async fn start(model: &Model) -> Service {
    model.always(|_| says("hello"));
    Service::variant_a().model(model).start().await
}

/// The service answers as ever.
async fn check_health(service: &Service) {
    assert_eq!(service.live().await.status, 200);
    assert_eq!(service.result_of("hi").await["output"], "hello");
}

/// A body of exactly that many bytes.
fn body_of(bytes: usize) -> String {
    let frame = json!({ "input": "" }).to_string().len();
    json!({ "input": "x".repeat(bytes - frame) }).to_string()
}

#[tokio::test]
async fn the_body_limit_can_be_set() {
    let model = Model::saying("hello").await;
    let service = Service::variant_a().model(&model).env("MAX_BODY_BYTES", "20").start().await;
    assert_eq!(service.post("/agent/invoke", body_of(21)).await.status, 413);
    assert_eq!(service.post("/agent/invoke", body_of(20)).await.status, 200);
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
