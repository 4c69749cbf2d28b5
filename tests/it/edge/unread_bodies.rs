//! Answers that do not wait for the body: no token, no such path, a full window
//! (host/docs/interface/decisions-http.md#bodies).

use acceptance::{Service, Socket};

use super::framing::read_answer;

async fn start() -> Service {
    Service::variant_b().env("LLM_API_KEY", "sk-1").start().await
}

/// As Python's `http.client` and many proxies send it: the head in one packet, the body in the next.
#[tokio::test]
async fn a_kept_alive_client_that_was_turned_away_goes_on_on_its_connection() {
    let service = start().await;
    let mut socket = Socket::connect(service.address()).await;
    for (path, expected) in
        [("/api/agent", "401"), ("/nowhere", "404"), ("/health", "405"), ("/api/agent", "401")]
    {
        let body = r#"{"query":"What is 6 * 7?"}"#;
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
        socket.send(head).await;
        let answer = read_answer(&mut socket).await;
        assert!(answer.status == expected && !answer.closes, "{path}: {answer:?}");
        socket.send(body).await;
    }
    socket.send("GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(read_answer(&mut socket).await.status, "200");
}
