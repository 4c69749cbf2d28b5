//! More connections than there may be.

use super::*;

fn at_most(connections: usize) -> impl FnOnce(&mut Server) {
    move |server| server.most_connections = connections
}

#[tokio::test]
async fn a_new_connection_displaces_the_one_that_has_been_idle_for_longest() {
    let outcome = with_changed(at_most(3), async |bench| {
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = bench.connect().await;
            assert_eq!(client.ask_for("/hello").await, "hello");
            clients.push(client);
        }
        // The first one is no longer the one that has been idle for longest.
        assert_eq!(clients[0].ask_for("/hello").await, "hello");
        assert_eq!(bench.connect().await.ask_for("/hello").await, "hello");
        clients[1].wait_until_closed().await;
        assert_eq!(clients[0].ask_for("/hello").await, "hello");
        assert_eq!(clients[2].ask_for("/hello").await, "hello");
        assert_eq!(bench.count("agent_http_connections_displaced_total"), 1.0);
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn hundreds_of_idle_connections_starve_nobody_whatever_they_have_sent() {
    let outcome = with_changed(at_most(10), async |bench| {
        let mut crowd = Vec::new();
        for n in 0..300 {
            let mut client = bench.connect().await;
            match n % 3 {
                0 => client.send("GET /hello HT").await,
                1 => assert_eq!(client.ask_for("/hello").await, "hello"),
                _ => {}
            }
            crowd.push(client);
            assert!(bench.count("agent_http_connections") <= 10.0);
        }
        assert_eq!(bench.connect().await.ask_for("/hello").await, "hello");
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn who_is_being_answered_is_not_displaced_and_new_ones_wait() {
    let outcome = with_changed(at_most(1), async |bench| {
        let mut busy = bench.ask_slow().await;
        let mut waiting = bench.connect().await;
        waiting.ask("/hello").await;
        while bench.count("agent_http_connection_waits_total") == 0.0 {
            tokio::task::yield_now().await;
        }
        bench.answer.notify_one();
        assert_eq!(busy.answer().await.1, "slow");
        // Now it is idle, and makes room.
        assert_eq!(waiting.answer().await.1, "hello");
        busy.wait_until_closed().await;
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

/// Until a connection waits for room, or has displaced another.
async fn until_another_waits(bench: &Bench) {
    let moved = |name| bench.count(name) > 0.0;
    while !moved("agent_http_connection_waits_total") && !moved("agent_http_connections_displaced_total") {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_has_not_read_the_whole_answer_is_not_displaced() {
    let outcome = with_changed(at_most(1), async |bench| {
        let mut slow = bench.connect().await;
        slow.ask("/huge").await;
        // The answer has begun: the service has all of it, and its socket takes no more.
        let mut line = String::new();
        slow.0.read_line(&mut line).await.unwrap();
        let mut waiting = bench.connect().await;
        waiting.ask("/hello").await;
        until_another_waits(&bench).await;
        assert_eq!(slow.answer().await.1.len(), 64 << 20);
        // Now it is idle, and makes room.
        assert_eq!(waiting.answer().await.1, "hello");
        slow.wait_until_closed().await;
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn a_request_that_comes_before_the_last_answer_was_read_is_not_displaced_either() {
    let outcome = with_changed(at_most(1), async |bench| {
        let mut client = bench.connect().await;
        client.ask("/huge").await;
        client.ask("/slow").await;
        assert_eq!(client.answer().await.1.len(), 64 << 20);
        bench.asked.notified().await;
        let mut waiting = bench.connect().await;
        waiting.ask("/hello").await;
        until_another_waits(&bench).await;
        bench.answer.notify_one();
        assert_eq!(client.answer().await.1, "slow");
        assert_eq!(waiting.answer().await.1, "hello");
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn who_waits_for_room_when_the_service_stops_is_served() {
    let outcome = with_changed(at_most(1), async |bench| {
        let mut busy = bench.ask_slow().await;
        let mut waiting = bench.connect().await;
        waiting.ask("/hello").await;
        bench.signal(Signal::Terminate);
        assert_eq!(waiting.answer().await.1, "hello");
        bench.answer.notify_one();
        assert_eq!(busy.answer().await.1, "slow");
    });
    assert_eq!(outcome.await, Outcome::Clean);
}

#[tokio::test]
async fn what_is_no_http_is_counted_by_the_status_that_it_gets() {
    let outcome = with_service(times(), async |bench| {
        let many_headers = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1_000));
        // As many bytes as are read: a reset because of unread ones could take the answer with it.
        let endless = |begun: &str| format!("{begun}{}", "y".repeat((64 << 10) - begun.len()));
        let (endless_line, endless_header) = (endless("GET /"), endless("GET / HTTP/1.1\r\nx: "));
        for (bytes, status) in [
            ("\0\0\0\0\r\n\r\n", "400"),
            (&*many_headers, "431"),
            (&*endless_line, "431"),
            (&*endless_header, "431"),
        ] {
            let mut client = bench.connect().await;
            client.send(bytes).await;
            let mut answer = String::new();
            client.0.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        }
        let families = bench.metrics.gather();
        let family = families.iter().find(|family| family.name() == "agent_http_requests_total").unwrap();
        let mut counted: Vec<_> = family
            .get_metric()
            .iter()
            .map(|metric| {
                let labels = metric.get_label().iter().map(|label| label.value().to_owned());
                (labels.collect::<Vec<_>>().join(" "), metric.get_counter().get_value())
            })
            .collect();
        counted.sort_by(|one, other| one.0.cmp(&other.0));
        let of = |status: &str, count: f64| (format!("unknown unmatched {status}"), count);
        assert_eq!(counted, [of("400", 1.0), of("431", 3.0)]);
        bench.signal(Signal::Terminate);
    });
    assert_eq!(outcome.await, Outcome::Clean);
}
