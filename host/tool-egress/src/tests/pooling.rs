//! Connections that are used again, and those that must not be.

use super::server::ok;
use super::*;

fn bounds(per_key: usize, in_all: usize) -> EgressBounds {
    let pool = PoolBounds { per_key, in_all, idle: Duration::from_secs(15) };
    EgressBounds { pool, ..EgressBounds::default() }
}

fn call_under(world: &World, digest: &str, private: bool) -> Call {
    let grant = grant_called(digest, private, vec![], RequestLimits::default());
    world.egress.call(grant, Instant::now() + Duration::from_secs(60))
}

#[tokio::test]
async fn calls_of_one_grant_share_connections() {
    let server = Server::answering(|_| ok("same")).await;
    let world = World::new();
    for _ in 0..3 {
        let call = world.call();
        for _ in 0..3 {
            assert_eq!(fetch(&call, get(server.url("/"))).await.unwrap().1, "same");
        }
    }
    assert_eq!((server.connections(), world.egress.idle_connections()), (1, 1));
    assert_eq!(world.resolver.asked().len(), 1);
}

#[tokio::test]
async fn another_grant_host_or_reach_uses_none_of_them() {
    let server = Server::answering(|_| ok("")).await;
    let world = World::new();
    fetch(&call_under(&world, "sha256:a", true), get(server.url("/"))).await.unwrap();
    assert_eq!(server.connections(), 1);
    fetch(&call_under(&world, "sha256:b", true), get(server.url("/"))).await.unwrap();
    assert_eq!(server.connections(), 2);
    let other_name = format!("http://other.test:{}/", server.port());
    fetch(&call_under(&world, "sha256:a", true), get(other_name)).await.unwrap();
    assert_eq!(server.connections(), 3);
    // A connection to a private address waits; a rule without `private` must not find it.
    let refused = fetch(&call_under(&world, "sha256:a", false), get(server.url("/"))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DestinationIpProhibited);
    assert_eq!(world.egress.idle_connections(), 3);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_not_used() {
    let server = Server::scripted(|mut connection| async move {
        connection.read_request().await.unwrap();
        connection.write(ok("once")).await;
    })
    .await;
    let world = World::new();
    let call = world.call();
    for _ in 0..5 {
        assert_eq!(fetch(&call, get(server.url("/"))).await.unwrap().1, "once");
        // The server's end is noticed by the connection's task.
        while world.egress.open_idle_connections() > 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(server.connections(), 5);
}

#[tokio::test]
async fn a_server_that_says_close_is_taken_at_its_word() {
    let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let server = Server::answering(move |_| answer.to_owned()).await;
    let world = World::new();
    let call = world.call();
    fetch(&call, get(server.url("/"))).await.unwrap();
    assert_eq!(world.egress.idle_connections(), 0);
    fetch(&call, get(server.url("/"))).await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn what_waits_is_bounded_for_each_key_and_in_all() {
    let gate = Arc::new(tokio::sync::Barrier::new(3));
    let mut server = Server::scripted(move |mut connection| {
        let gate = gate.clone();
        async move {
            while connection.read_request().await.is_some() {
                gate.wait().await;
                connection.write(ok("")).await;
            }
        }
    })
    .await;
    let world = World::with(FakeResolver::new(&[&["127.0.0.1"]]), bounds(2, 3));
    for (host, expected) in [("a.test", 2), ("b.test", 3), ("c.test", 3)] {
        let call = world.call();
        let url = format!("http://{host}:{}/", server.port());
        let three = futures::future::join_all((0..3).map(|_| fetch(&call, get(&url)))).await;
        assert!(three.iter().all(Result::is_ok), "{three:?}");
        assert_eq!(world.egress.idle_connections(), expected, "{host}");
    }
    // What did not fit was closed.
    for _ in 0..6 {
        server.closed.recv().await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_that_waits_too_long_is_closed() {
    let mut server = Server::answering(|_| ok("")).await;
    let world = World::new();
    fetch(&world.call(), get(server.url("/"))).await.unwrap();
    assert_eq!(world.egress.idle_connections(), 1);
    tokio::time::pause();
    let begun = Instant::now();
    server.closed.recv().await.unwrap();
    // The connection has waited a little before the clock was stopped.
    assert!((14..17).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert_eq!(world.egress.idle_connections(), 0);
    // And it begins anew.
    fetch(&world.call(), get(server.url("/"))).await.unwrap();
    assert_eq!(world.egress.idle_connections(), 1);
    server.closed.recv().await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn the_end_of_the_service_closes_what_waits() {
    let mut server = Server::answering(|_| ok("")).await;
    let world = World::new();
    fetch(&world.call(), get(server.url("/"))).await.unwrap();
    drop(world);
    server.closed.recv().await.unwrap();
}

/// The server closes at the moment when the next request arrives: that is its right.
#[tokio::test]
async fn a_safe_request_is_made_again_when_a_used_connection_is_closed_under_it() {
    let mut server = Server::scripted(|mut connection| async move {
        let first = connection.read_request().await.unwrap();
        connection.write(ok(first.line())).await;
        connection.read_request().await;
    })
    .await;
    let world = World::new();
    let call = world.call();
    fetch(&call, get(server.url("/1"))).await.unwrap();
    assert_eq!(fetch(&call, get(server.url("/2"))).await.unwrap().1, "GET /2 HTTP/1.1");
    let seen = [server.next().await, server.next().await, server.next().await];
    assert_eq!(
        seen.map(|received| received.line().to_owned()),
        ["GET /1 HTTP/1.1", "GET /2 HTTP/1.1", "GET /2 HTTP/1.1"]
    );
    // What may have been done is not done twice, with a body or without.
    let delete = http::Request::delete(server.url("/3")).body(Empty::<Bytes>::new()).unwrap();
    let terminated = EgressError::Terminated { host: "example.test".into() };
    assert_eq!(fetch(&call, delete).await.unwrap_err(), terminated);
    fetch(&call, get(server.url("/4"))).await.unwrap();
    assert_eq!(fetch(&call, post(server.url("/5"), "x")).await.unwrap_err(), terminated);
    assert_eq!(server.connections(), 3);
}
