//! Times of a request, on the paused clock: it is stopped when the server has what it waits for.

use super::*;

fn limits(times: Times) -> RequestLimits {
    RequestLimits { times, ..RequestLimits::default() }
}

/// Reads a request, begins to answer as told, and then drips a byte after each pause.
async fn dripping(begin: &'static str, pause: Duration) -> Server {
    Server::scripted(move |mut connection| async move {
        connection.read_request().await.unwrap();
        connection.write(begin).await;
        while !connection.is_closed() {
            tokio::time::sleep(pause).await;
            connection.write("x").await;
        }
    })
    .await
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nx";

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    let mut server = dripping("", Duration::from_secs(3600)).await;
    let (call, url) = (World::new().call(), format!("http://{}/", server.address));
    let asked = async {
        server.next().await;
        tokio::time::pause();
        Instant::now()
    };
    let (failed, at) = futures::future::join(fetch(&call, get(url)), asked).await;
    let within = Duration::from_secs(30);
    assert_eq!(failed.unwrap_err(), EgressError::FirstByteTimeout { host: "127.0.0.1".into(), within });
    // The time began a little before the clock was stopped.
    assert!((within / 2..within * 2).contains(&at.elapsed()), "{:?}", at.elapsed());
}

#[tokio::test]
async fn a_server_that_stops_in_its_body_is_given_up() {
    let server = dripping(HEAD, Duration::from_secs(3600)).await;
    let call = World::new().call();
    let response = call.send(get(server.url("/")), call.times()).await.unwrap();
    tokio::time::pause();
    let begun = Instant::now();
    let within = Duration::from_secs(10);
    let failed = read(response).await.unwrap_err();
    assert_eq!(failed, EgressError::BetweenBytesTimeout { host: "example.test".into(), within });
    assert!((within / 2..within * 2).contains(&begun.elapsed()));
}

#[tokio::test]
async fn a_server_that_drips_is_given_up_in_the_end() {
    let server = dripping(HEAD, Duration::from_secs(9)).await;
    let call = World::new().call();
    let response = call.send(get(server.url("/")), call.times()).await.unwrap();
    tokio::time::pause();
    let failed = read(response).await.unwrap_err();
    let within = Duration::from_secs(60);
    assert_eq!(failed, EgressError::TotalTimeout { host: "example.test".into(), within });
    assert_eq!(failed.kind(), ErrorKind::HttpResponseTimeout);
}

#[tokio::test]
async fn the_deadline_of_the_call_is_over_all_times() {
    let server = dripping(HEAD, Duration::from_secs(2)).await;
    let world = World::new();
    let call = world
        .egress
        .call(grant(true, vec![], RequestLimits::default()), Instant::now() + Duration::from_secs(15));
    let response = call.send(get(server.url("/")), call.times()).await.unwrap();
    tokio::time::pause();
    let failed = read(response).await.unwrap_err();
    assert_eq!(failed, EgressError::Deadline("example.test".into()));
}

/// A guest may ask for shorter times, and gets no longer ones.
#[tokio::test]
async fn a_guest_may_shorten_its_times() {
    let server = dripping(HEAD, Duration::from_secs(3600)).await;
    let call = World::new().call();
    let second = Some(Duration::from_secs(1));
    let times = call.times().shortened(second, second, second);
    let longer = call.times().shortened(Some(Duration::MAX), Some(Duration::MAX), Some(Duration::MAX));
    assert_eq!(longer, call.times());
    let response = call.send(get(server.url("/")), times).await.unwrap();
    tokio::time::pause();
    let failed = read(response).await.unwrap_err();
    let within = Duration::from_secs(1);
    assert_eq!(failed, EgressError::BetweenBytesTimeout { host: "example.test".into(), within });
}

#[test]
fn the_time_of_a_call_lengthens_times_and_shortens_none() {
    let (own, hour) = (Times::default(), Duration::from_secs(3600));
    assert_eq!(own.lengthened(Duration::from_secs(1)), own);
    let expected = Times { first_byte: hour, between_bytes: hour, total: hour, ..own };
    assert_eq!(own.lengthened(hour), expected);
}

/// A guest that takes long to read what is there is not the server's fault.
#[tokio::test]
async fn time_that_nobody_reads_is_not_between_bytes() {
    let server = Server::scripted(|mut connection| async move {
        connection.read_request().await.unwrap();
        connection.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        for _ in 0..8 {
            connection.write(format!("10000\r\n{}\r\n", "x".repeat(65_536))).await;
        }
        connection.write("0\r\n\r\n").await;
        connection.wait_for_close().await;
    })
    .await;
    let times = Times { between_bytes: Duration::from_secs(1), ..Times::default() };
    let call = World::new().call_with(vec![], limits(times));
    let response = call.send(get(server.url("/")), call.times()).await.unwrap();
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(read(response).await.unwrap().1.len(), 8 * 65_536);
}

/// TLS that never begins: the connection is there, and nobody speaks.
#[tokio::test]
async fn a_handshake_that_hangs_is_given_up() {
    let mut server =
        Server::scripted(|mut connection| async move { connection.wait_for_close().await }).await;
    let call = World::new().call();
    tokio::time::pause();
    let failed = fetch(&call, get(format!("https://example.test:{}/", server.port()))).await.unwrap_err();
    let within = Duration::from_secs(5);
    assert_eq!(
        failed,
        EgressError::Unreachable { host: "example.test".into(), why: ConnectError::Timeout(within) }
    );
    server.closed.recv().await.unwrap();
}

/// The time to the first byte is the server's: it begins when the request is sent.
#[tokio::test]
async fn a_guest_that_writes_slowly_does_not_use_up_the_servers_time() {
    let server = Server::answering(|received| super::server::ok(&received.body)).await;
    let chunks = futures::stream::unfold(0, |written| async move {
        if written == 3 {
            return None;
        }
        tokio::time::sleep(Duration::from_secs(15)).await;
        Some((Ok::<_, io::Error>(http_body::Frame::data(Bytes::from_static(b"x"))), written + 1))
    });
    let call = World::new().call();
    let body = http_body_util::StreamBody::new(chunks);
    let request = http::Request::post(server.url("/")).body(body).unwrap();
    tokio::time::pause();
    assert_eq!(fetch(&call, request).await.unwrap().1, "xxx");
}
