//! Answers that come before the body of their request was read.

use super::*;

const HEAD: &str = "POST /unread HTTP/1.1\r\nhost: test\r\n";

#[tokio::test]
async fn a_client_that_sends_its_body_after_the_answer_keeps_its_connection() {
    let outcome = with_service(times(), async |bench| {
        let mut client = bench.connect().await;
        for n in 0..3 {
            client.send(format!("{HEAD}content-length: 100\r\n\r\n")).await;
            // The answer does not wait for the body.
            let (head, body) = client.answer().await;
            assert!(head.starts_with("http/1.1 401") && body == "who are you?", "{n}: {head}");
            assert!(!head.contains("connection:"), "{head}");
            client.send([b'x'; 50]).await;
            client.send([b'x'; 50]).await;
        }
        // The bytes that were thrown away are not taken for a request.
        assert_eq!(client.ask_for("/hello").await, "hello");
        client.send(b"POST /read HTTP/1.1\r\nhost: test\r\ncontent-length: 2\r\n\r\nhi").await;
        assert_eq!(client.answer().await.1, "hi");
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn a_body_beyond_the_limit_ends_the_connection_and_the_answer_says_so() {
    let large = vec![b'x'; 10_000];
    let outcome = with_service(times(), async |bench| {
        for framing in ["content-length: 1000000", "transfer-encoding: chunked"] {
            let mut client = bench.connect().await;
            client.send(format!("{HEAD}{framing}\r\n\r\n")).await;
            if framing.starts_with('t') {
                client.send("f4240\r\n").await;
            }
            // More than the buffers of both sockets may hold, before the answer is looked at.
            for _ in 0..100 {
                client.send(&large).await;
            }
            let (head, body) = client.answer().await;
            assert!(head.starts_with("http/1.1 401") && body == "who are you?", "{framing}: {head}");
            assert!(head.contains("connection: close\r\n"), "{framing}: {head}");
            client.wait_until_closed().await;
        }
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_for_its_body_is_not_asked() {
    let outcome = with_service(times(), async |bench| {
        let mut client = bench.connect().await;
        client.send(format!("{HEAD}expect: 100-continue\r\ncontent-length: 10\r\n\r\n")).await;
        let (head, _) = client.answer().await;
        assert!(head.starts_with("http/1.1 401") && head.contains("connection: close\r\n"), "{head}");
        client.wait_until_closed().await;
        // One whose body is read is asked.
        let mut client = bench.connect().await;
        let head = "POST /read HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
        client.send(head).await;
        let mut line = String::new();
        client.0.read_line(&mut line).await.unwrap();
        assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
        client.0.read_line(&mut line).await.unwrap();
        client.send("hi").await;
        assert_eq!(client.answer().await.1, "hi");
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn a_client_that_only_waits_for_the_end_sees_it_without_finishing_its_body() {
    let outcome = with_service(times(), async |bench| {
        for head in [
            format!("{HEAD}content-length: 1000000\r\n\r\nxxx"),
            format!("{HEAD}transfer-encoding: chunked\r\n\r\n3\r\nxxx\r\n"),
            format!("{HEAD}content-length: 10\r\nexpect: 100-continue\r\n\r\n"),
            "POST /late HTTP/1.1\r\nhost: test\r\ncontent-length: 10\r\n\r\nxxx".to_owned(),
        ] {
            let mut client = bench.connect().await;
            client.send(&head).await;
            let mut answer = String::new();
            client.0.read_to_string(&mut answer).await.unwrap();
            assert!(answer.to_lowercase().contains("connection: close\r\n"), "{head}{answer}");
        }
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn a_body_that_does_not_come_ends_the_connection_at_its_time_limit_and_holds_up_no_shutdown() {
    let slow = |server: &mut Server| server.bodies.time = Duration::from_millis(50);
    let outcome = with_changed(slow, async |bench| {
        let mut client = bench.connect().await;
        client.send(format!("{HEAD}content-length: 10\r\n\r\n")).await;
        client.answer().await;
        client.wait_until_closed().await;
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);

    let outcome = with_service(times(), async |bench| {
        let mut client = bench.connect().await;
        client.send(format!("{HEAD}content-length: 10\r\n\r\n")).await;
        client.answer().await;
        bench.signal(Signal::Terminate);
        client.wait_until_closed().await;
    });
    assert_eq!(outcome.await, Outcome::Clean);
}
