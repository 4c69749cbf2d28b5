//! What a guest may ask, and what of it leaves the host.

use http::{Method, Request};
use tokio::sync::Semaphore;

use super::server::ok;
use super::*;

#[tokio::test]
async fn a_request_goes_out_and_its_answer_comes_back() {
    let mut server = Server::answering(|_| ok("hello")).await;
    let world = World::new();
    let call = world.call();
    let request = Request::post(server.url("/a/b?c=d"))
        .header("x-own", "1")
        .header("content-type", "text/plain")
        .body(Full::new(Bytes::from_static(b"ping")))
        .unwrap();
    let (head, body) = fetch(&call, request).await.unwrap();
    assert_eq!((head.status.as_u16(), body.as_str()), (200, "hello"));
    assert_eq!(head.headers["content-length"], "5");

    let received = server.next().await;
    assert_eq!(received.line(), "POST /a/b?c=d HTTP/1.1");
    assert_eq!(received.header("host"), Some(format!("example.test:{}", server.port()).as_str()));
    assert_eq!(received.header("x-own"), Some("1"));
    assert_eq!(received.header("content-length"), Some("4"));
    assert_eq!(received.header("accept-encoding"), Some("identity"));
    assert_eq!(received.body, "ping");

    let receipt = call.receipt();
    assert_eq!((receipt.requests, receipt.hosts.len(), receipt.refusals.len()), (1, 1, 0));
    let host = &receipt.hosts[0];
    assert_eq!((host.scheme, host.host.as_str(), host.port), ("http", "example.test", server.port()));
    assert_eq!((host.requests, host.failures), (1, 0));
    assert_eq!(host.address, Some("127.0.0.1".parse().unwrap()));
    assert!(receipt.sent_bytes > 4 && receipt.received_bytes > 5, "{receipt:?}");
}

/// `wasi:http` adds the header by itself, from the same authority.
#[tokio::test]
async fn a_host_header_may_only_say_where_the_request_goes() {
    let mut server = Server::answering(|_| ok("")).await;
    let call = World::new().call();
    let with_host =
        |host: &str| Request::get(server.url("/")).header("host", host).body(Empty::<Bytes>::new()).unwrap();
    for other in ["evil.test", "example.test", "example.test:1", "127.0.0.1", ""] {
        let refused = fetch(&call, with_host(other)).await.unwrap_err();
        assert_eq!(refused, EgressError::Header("host".into()), "{other}");
    }
    let same = format!("Example.test:{}", server.port());
    fetch(&call, with_host(&same)).await.unwrap();
    let received = server.next().await;
    assert_eq!(received.head.to_lowercase().matches("\r\nhost:").count(), 1);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn headers_of_the_connection_are_refused_or_left_away() {
    let mut server = Server::answering(|_| ok("")).await;
    let call = World::new().call_with(vec![], RequestLimits { requests: 100, ..RequestLimits::default() });
    let url = server.url("/");
    let with =
        |name: &str, value: &str| Request::get(&url).header(name, value).body(Empty::<Bytes>::new()).unwrap();
    for name in [
        "transfer-encoding",
        "upgrade",
        "proxy-authorization",
        "proxy-authenticate",
        "proxy-connection",
        "http2-settings",
    ] {
        let refused = fetch(&call, with(name, "chunked")).await.unwrap_err();
        assert_eq!(refused, EgressError::Header(name.into()));
        assert!(refused.to_string().contains(name));
    }
    assert_eq!(server.connections(), 0);
    for name in ["connection", "keep-alive", "te", "trailer", "expect", "accept-encoding"] {
        fetch(&call, with(name, "gzip")).await.unwrap();
        let received = server.next().await;
        assert!(!received.head.contains("gzip"), "{}", received.head);
    }
}

#[tokio::test]
async fn tunnels_and_echoes_are_refused() {
    let call = World::new().call();
    for method in [Method::CONNECT, Method::TRACE] {
        let request = Request::builder()
            .method(&method)
            .uri("http://example.test/")
            .body(Empty::<Bytes>::new())
            .unwrap();
        assert_eq!(fetch(&call, request).await.unwrap_err(), EgressError::Method(method.to_string()));
    }
}

#[tokio::test]
async fn a_length_that_is_not_the_bodys_is_an_error() {
    let server = Server::answering(|_| ok("")).await;
    let call = World::new().call();
    let with_length = |length: &str| {
        let request = Request::post(server.url("/")).header("content-length", length);
        request.body(Full::new(Bytes::from_static(b"four"))).unwrap()
    };
    for wrong in ["3", "5", "0"] {
        assert_eq!(fetch(&call, with_length(wrong)).await.unwrap_err(), EgressError::BodyLength, "{wrong}");
    }
    for invalid in ["four", "-4", "+4", "4, 4", ""] {
        let refused = fetch(&call, with_length(invalid)).await.unwrap_err();
        assert_eq!(refused, EgressError::Header("content-length".into()), "{invalid}");
    }
    let twice = Request::post(server.url("/")).header("content-length", "4").header("content-length", "4");
    let twice = twice.body(Full::new(Bytes::from_static(b"four"))).unwrap();
    assert_eq!(fetch(&call, twice).await.unwrap_err(), EgressError::Header("content-length".into()));
    fetch(&call, with_length("4")).await.unwrap();
}

#[tokio::test]
async fn too_many_headers_and_too_large_ones_are_refused() {
    let call = World::new().call();
    let mut many = Request::get("http://example.test/");
    for number in 0..65 {
        many = many.header(format!("x-{number}"), "1");
    }
    let large = Request::get("http://example.test/").header("x-large", "y".repeat(17 * 1024));
    for request in [many, large] {
        let refused = fetch(&call, request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap_err();
        assert!(matches!(refused, EgressError::HeadersTooLarge { .. }), "{refused:?}");
    }
}

#[tokio::test]
async fn what_no_rule_admits_is_not_sent_and_is_in_the_receipt() {
    let world = World::new();
    let refuse = |line: &RequestLine<'_>| -> Result<Admission, String> {
        Err(format!("no rule admits {} to {}{}", line.method, line.host, line.path_and_query))
    };
    let grant =
        Grant::new("sha256:x".into(), Arc::new(Rules(refuse)), vec![], RequestLimits::default()).unwrap();
    let call = world.egress.call(Arc::new(grant), Instant::now() + Duration::from_secs(60));
    let refused = fetch(&call, get("https://Example.test/secret?q=1")).await.unwrap_err();
    assert_eq!(refused, EgressError::Denied("no rule admits GET to example.test/secret?q=1".into()));
    assert_eq!(refused.kind(), ErrorKind::HttpRequestDenied);
    let receipt = call.receipt();
    assert_eq!((receipt.requests, receipt.hosts.len()), (1, 0));
    assert_eq!(receipt.refusals, [Refusal { kind: refused.kind(), text: refused.to_string() }]);
    assert!(world.resolver.asked().is_empty(), "nothing is resolved for what no rule admits");
}

#[tokio::test]
async fn a_user_name_in_the_url_is_refused() {
    let world = World::new();
    let refused = fetch(&world.call(), get("http://example.test@127.0.0.1/")).await.unwrap_err();
    assert_eq!(refused, EgressError::InvalidUri(InvalidUri::Userinfo));
    assert_eq!(refused.kind(), ErrorKind::HttpRequestUriInvalid);
}

/// The caller's runtime has no driver for I/O: any socket there would panic.
#[test]
fn network_io_is_done_on_the_runtime_that_was_given() {
    let io = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let guests = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (server, world) = io.block_on(async { (Server::answering(|_| ok("from afar")).await, World::new()) });
    let (_, body) = guests.block_on(fetch(&world.call(), get(server.url("/")))).unwrap();
    assert_eq!(body, "from afar");
}

/// The runtime that was given has no driver for I/O: any socket there would panic.
#[test]
fn network_io_is_done_where_the_request_is_made_off_the_guests() {
    let io = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let here = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut world = io.block_on(async { World::new() });
    world.egress = world.egress.keeping_off(io.handle().id());
    here.block_on(async {
        let (server, call) = (Server::answering(|_| ok("from here")).await, world.call());
        for _ in 0..2 {
            assert_eq!(fetch(&call, get(server.url("/"))).await.unwrap().1, "from here");
        }
        assert_eq!((server.connections(), world.egress.idle_connections()), (1, 1));
    });
}

/// The exchange was polled until its head was there; its body comes later, and nobody looks at it.
#[tokio::test]
async fn a_small_response_that_nobody_reads_keeps_no_other_request_waiting() {
    let gate = Arc::new(Semaphore::new(0));
    let bodies = gate.clone();
    let server = Server::scripted(move |mut connection| {
        let bodies = bodies.clone();
        async move {
            while connection.read_request().await.is_some() {
                connection.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await;
                bodies.acquire().await.unwrap().forget();
                connection.write("ok").await;
            }
        }
    })
    .await;
    let limits = RequestLimits { concurrent_requests: 1, ..RequestLimits::default() };
    let call = World::new().call_with(vec![], limits);
    let unread = call.send(get(server.url("/")), call.times()).await.unwrap();
    gate.add_permits(2);
    assert_eq!(fetch(&call, get(server.url("/"))).await.unwrap().1, "ok");
    assert_eq!(read(unread).await.unwrap().1, "ok");
}

/// Otherwise the server would take the next request on the connection for what is missing.
#[tokio::test]
async fn a_body_that_never_comes_is_not_announced() {
    let mut server = Server::answering(|_| ok("")).await;
    let call = World::new().call();
    let empty = Request::post(server.url("/")).header("content-length", "5").body(Empty::<Bytes>::new());
    assert_eq!(fetch(&call, empty.unwrap()).await.unwrap_err(), EgressError::BodyLength);
    assert_eq!(server.connections(), 0);
    // Of a stream it is known at its end only.
    let stream =
        || http_body_util::StreamBody::new(futures::stream::empty::<io::Result<http_body::Frame<Bytes>>>());
    let unwritten = Request::post(server.url("/")).header("content-length", "5").body(stream()).unwrap();
    assert_eq!(fetch(&call, unwritten).await.unwrap_err(), EgressError::BodyLength);
    // What guests do that take a body for every request and write nothing.
    fetch(&call, Request::get(server.url("/get")).body(stream()).unwrap()).await.unwrap();
    assert_eq!(server.next().await.line(), "GET /get HTTP/1.1");
    fetch(&call, Request::post(server.url("/post")).body(stream()).unwrap()).await.unwrap();
    assert_eq!(server.next().await.line(), "POST /post HTTP/1.1");
}
