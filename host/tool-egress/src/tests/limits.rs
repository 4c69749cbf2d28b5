//! What one call may use up.

use http_body_util::StreamBody;
use tokio::sync::{Semaphore, mpsc};

use super::server::ok;
use super::*;

/// The beginning of an answer.
const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no";

#[tokio::test]
async fn requests_beyond_the_limit_are_refused_and_refused_ones_count() {
    let server = Server::answering(|_| ok("")).await;
    let call = World::new().call_with(vec![], RequestLimits { requests: 3, ..RequestLimits::default() });
    fetch(&call, get(server.url("/"))).await.unwrap();
    fetch(&call, get("http://user@example.test/")).await.unwrap_err();
    fetch(&call, get(server.url("/"))).await.unwrap();
    let refused = fetch(&call, get(server.url("/"))).await.unwrap_err();
    assert_eq!(refused, EgressError::TooManyRequests(3));
    let receipt = call.receipt();
    assert_eq!((receipt.requests, receipt.hosts[0].requests, receipt.refusals.len()), (4, 2, 2));
}

/// One more is there: how many there are, and have been at most.
fn count(there: &Mutex<(usize, usize)>) {
    let mut there = there.lock();
    there.0 += 1;
    there.1 = there.1.max(there.0);
}

#[tokio::test]
async fn of_a_hundred_at_once_four_go_and_the_others_wait() {
    let gate = Arc::new(Semaphore::new(0));
    let (at_once, most) = (Arc::new(Mutex::new((0_usize, 0_usize))), 4);
    let (counted, opened) = (at_once.clone(), gate.clone());
    let mut server = Server::scripted(move |mut connection| {
        let (counted, opened) = (counted.clone(), opened.clone());
        async move {
            while connection.read_request().await.is_some() {
                count(&counted);
                opened.acquire().await.unwrap().forget();
                counted.lock().0 -= 1;
                connection.write(ok("done")).await;
            }
        }
    })
    .await;
    let limits = RequestLimits { requests: 100, concurrent_requests: 4, ..RequestLimits::default() };
    let call = World::new().call_with(vec![], limits);
    let all = futures::future::join_all((0..100).map(|_| fetch(&call, get(server.url("/")))));
    let watch = async {
        for _ in 0..most {
            server.next().await;
        }
        // All that may go are there, and wait; now all are let through.
        assert_eq!(at_once.lock().0, most);
        gate.add_permits(100);
    };
    let (answers, ()) = futures::future::join(all, watch).await;
    assert_eq!(answers.into_iter().filter(Result::is_ok).count(), 100);
    assert_eq!(at_once.lock().1, most);
    assert!(server.connections() <= most, "{}", server.connections());
}

/// A guest that keeps responses open waits for itself, until its deadline.
#[tokio::test]
async fn waiting_for_a_turn_ends_at_the_deadline() {
    let mut server = Server::saying_once(HALF).await;
    let world = World::new();
    let grant = grant(true, vec![], RequestLimits { concurrent_requests: 1, ..RequestLimits::default() });
    let call = world.egress.call(grant, Instant::now() + Duration::from_secs(5));
    let open = call.send(get(server.url("/")), call.times()).await.unwrap();
    server.next().await;
    tokio::time::pause();
    let failed = fetch(&call, get(server.url("/"))).await.unwrap_err();
    assert_eq!(failed, EgressError::Deadline("example.test".into()));
    assert_eq!(server.connections(), 1);
    drop(open);
}

#[tokio::test]
async fn a_response_larger_than_what_is_left_is_refused_by_its_length() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n";
    let server = Server::answering(move |_| answer.to_owned()).await;
    let call = World::new().call_with(vec![], RequestLimits { bytes: 10_000, ..RequestLimits::default() });
    let refused = fetch(&call, get(server.url("/"))).await.unwrap_err();
    assert_eq!(refused, EgressError::BytesSpent(10_000));
    assert_eq!(refused.kind(), ErrorKind::HttpResponseBodySize);
}

#[tokio::test]
async fn an_endless_response_ends_when_the_bytes_are_spent() {
    let mut server = Server::scripted(|mut connection| async move {
        connection.read_request().await.unwrap();
        connection.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        loop {
            connection.write(format!("400\r\n{}\r\n", "x".repeat(1024))).await;
            if connection.is_closed() {
                break;
            }
        }
    })
    .await;
    let call = World::new().call_with(vec![], RequestLimits { bytes: 100_000, ..RequestLimits::default() });
    let refused = fetch(&call, get(server.url("/"))).await.unwrap_err();
    assert_eq!(refused, EgressError::BytesSpent(100_000));
    server.closed.recv().await.unwrap();
    // What came before was the limit and one read.
    assert!(call.receipt().received_bytes < 100_000 + 128 * 1024, "{:?}", call.receipt());
}

/// What frames an answer is not counted, and has an end all the same.
#[tokio::test]
async fn interim_responses_and_chunk_sizes_without_end_are_given_up() {
    let hint = format!("HTTP/1.1 103 Early Hints\r\nlink: {}\r\n\r\n", "x".repeat(1024));
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (begin, endless) in [("", hint), (chunked, "0".repeat(1024))] {
        let server = Server::scripted(move |mut connection| {
            let endless = endless.clone();
            async move {
                connection.read_request().await.unwrap();
                connection.write(begin).await;
                while !connection.is_closed() {
                    connection.write(&endless).await;
                }
            }
        })
        .await;
        let limits = RequestLimits { bytes: 100_000, ..RequestLimits::default() };
        let refused = fetch(&World::new().call_with(vec![], limits), get(server.url("/"))).await.unwrap_err();
        assert_eq!(refused, EgressError::BytesSpent(100_000));
    }
}

#[tokio::test]
async fn all_requests_of_a_call_share_its_bytes() {
    let server = Server::answering(|_| ok("x".repeat(1000))).await;
    let call = World::new().call_with(vec![], RequestLimits { bytes: 3_000, ..RequestLimits::default() });
    for _ in 0..2 {
        fetch(&call, get(server.url("/"))).await.unwrap();
    }
    assert_eq!(fetch(&call, get(server.url("/"))).await.unwrap_err(), EgressError::BytesSpent(3_000));
}

#[tokio::test]
async fn a_body_that_is_sent_counts_too() {
    let server = Server::answering(|_| ok("")).await;
    let call = World::new().call_with(vec![], RequestLimits { bytes: 2_000, ..RequestLimits::default() });
    fetch(&call, post(server.url("/"), "x".repeat(1000))).await.unwrap();
    let refused = fetch(&call, post(server.url("/"), "x".repeat(1000))).await.unwrap_err();
    assert_eq!(refused, EgressError::BytesSpent(2_000));
}

#[tokio::test]
async fn dropping_a_response_closes_its_connection() {
    let mut server = Server::saying_once(HALF).await;
    let world = World::new();
    let call = world.call();
    let response = call.send(get(server.url("/")), call.times()).await.unwrap();
    drop(response);
    server.closed.recv().await.unwrap();
    assert_eq!(world.egress.idle_connections(), 0);
}

#[tokio::test]
async fn dropping_a_request_closes_its_connection() {
    let mut server = Server::saying_once("").await;
    let call = World::new().call();
    let mut sending = Box::pin(call.send(get(server.url("/")), call.times()));
    tokio::select! {
        _ = &mut sending => panic!("nothing was answered"),
        _ = server.received.recv() => {}
    }
    drop(sending);
    server.closed.recv().await.unwrap();
}

#[tokio::test]
async fn the_end_of_a_call_ends_its_requests() {
    let mut server = Server::saying_once(HALF).await;
    let call = World::new().call();
    let response = call.send(get(server.url("/")), call.times()).await.unwrap();
    let waiting = call.send(get(server.url("/")), call.times());
    drop(call);
    server.closed.recv().await.unwrap();
    // What was there may still be read; the end is an error, and no end of the body.
    assert_eq!(read(response).await.unwrap_err(), EgressError::CallEnded);
    assert_eq!(waiting.await.err(), Some(EgressError::CallEnded));
}

/// Guests write their bodies while the request is under way.
#[tokio::test]
async fn a_body_is_sent_as_it_is_written() {
    let mut server = Server::answering(|received| ok(&received.body)).await;
    let (write, chunks) = mpsc::channel::<&'static str>(1);
    let chunks = futures::stream::unfold(chunks, |mut chunks| async {
        let chunk = chunks.recv().await?;
        Some((Ok::<_, io::Error>(http_body::Frame::data(Bytes::from_static(chunk.as_bytes()))), chunks))
    });
    let call = World::new().call();
    let request = http::Request::post(server.url("/")).body(StreamBody::new(chunks)).unwrap();
    let writing = async {
        for chunk in ["one ", "two ", "three"] {
            write.send(chunk).await.unwrap();
        }
        drop(write);
    };
    let (answer, ()) = futures::future::join(fetch(&call, request), writing).await;
    assert_eq!(answer.unwrap().1, "one two three");
    assert_eq!(server.next().await.header("transfer-encoding"), Some("chunked"));
}

/// However many calls there are.
#[tokio::test]
async fn requests_of_all_calls_together_are_bounded_too() {
    let at_once = Arc::new(Mutex::new((0_usize, 0_usize)));
    let counted = at_once.clone();
    let server = Server::scripted(move |mut connection| {
        let counted = counted.clone();
        async move {
            while connection.read_request().await.is_some() {
                count(&counted);
                // Long enough for another to come, if it may.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                counted.lock().0 -= 1;
                connection.write(ok("done")).await;
            }
        }
    })
    .await;
    let bounds = |exchanges| EgressBounds { exchanges, ..EgressBounds::default() };
    for (exchanges, expected) in [(2, 2..3), (100, 3..7)] {
        *at_once.lock() = (0, 0);
        let world = World::with(FakeResolver::new(&[&["127.0.0.1"]]), bounds(exchanges));
        let calls: Vec<Call> = (0..3).map(|_| world.call()).collect();
        let two_each = calls.iter().flat_map(|call| [call, call]);
        let answers = futures::future::join_all(two_each.map(|call| fetch(call, get(server.url("/"))))).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let most = at_once.lock().1;
        assert!(expected.contains(&most), "{most} at once of {exchanges}");
    }
}
