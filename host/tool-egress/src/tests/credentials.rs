//! Credentials: injected by the host, never the guest's.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;

use super::server::ok;
use super::*;

const VALUE: &str = "ascii-s3cret/v+lue";

fn bearer() -> Secret {
    ascii_secret("api-key", header("authorization", "Bearer "))
}

#[tokio::test]
async fn a_header_a_parameter_and_basic_are_injected() {
    let mut server = Server::answering(|_| ok("")).await;
    let world = World::new();
    let basic = ascii_secret("login", Placement::Basic { user: "me".into() });
    let query = secret("search-key", Placement::Query { name: "key".into() });

    let call = world.call_with(vec![bearer(), query.clone()], RequestLimits::default());
    fetch(&call, get(server.url("/find?q=1"))).await.unwrap();
    let received = server.next().await;
    assert_eq!(received.header("authorization"), Some(format!("Bearer {VALUE}").as_str()));
    assert_eq!(received.line(), "GET /find?q=1&key=s3cr%2Ft%2Bv%22lue%3D42%C3%A9 HTTP/1.1");
    assert_eq!(call.receipt().secrets, ["api-key", "search-key"]);

    let call = world.call_with(vec![basic, query], RequestLimits::default());
    fetch(&call, get(server.url(""))).await.unwrap();
    let received = server.next().await;
    let expected = format!("Basic {}", STANDARD.encode(format!("me:{VALUE}")));
    assert_eq!(received.header("authorization"), Some(expected.as_str()));
    assert_eq!(received.line(), "GET /?key=s3cr%2Ft%2Bv%22lue%3D42%C3%A9 HTTP/1.1");
}

#[tokio::test]
async fn other_hosts_get_no_credential() {
    let mut server = Server::answering(|_| ok("")).await;
    let call = World::new().call_with(vec![bearer()], RequestLimits::default());
    for host in ["other.test", "sub.example.test", "example.test.evil.test", "127.0.0.1"] {
        fetch(&call, get(format!("http://{host}:{}/", server.port()))).await.unwrap();
        assert_eq!(server.next().await.header("authorization"), None, "{host}");
    }
    assert!(call.receipt().secrets.is_empty());
}

#[tokio::test]
async fn a_credential_goes_over_plain_http_only_if_the_rule_says_http() {
    let server = Server::answering(|_| ok("")).await;
    let world = World::new();
    let admission =
        Admission { private: true, scheme: Scheme::Https, secrets: vec!["api-key".into()], path: None };
    let admit = move |_: &RequestLine<'_>| Ok(admission.clone());
    let grant =
        Grant::new("sha256:x".into(), Arc::new(Rules(admit)), vec![bearer()], RequestLimits::default());
    let call = world.egress.call(Arc::new(grant.unwrap()), Instant::now() + Duration::from_secs(60));
    let refused = fetch(&call, get(server.url("/"))).await.unwrap_err();
    let (name, problem) = ("api-key".into(), "it is sent over https only");
    assert_eq!(refused, EgressError::SecretUnusable { name, problem });
    assert_eq!(server.connections(), 0);
}

/// The server cannot read another path than the rules did.
#[tokio::test]
async fn the_path_that_was_admitted_is_what_is_sent() {
    let mut server = Server::answering(|_| ok("")).await;
    let world = World::new();
    let paths = Mutex::new(VecDeque::from(["/canonical", "relative", "/a?b", "/a#b", "/a b"]));
    let admit = move |line: &RequestLine<'_>| {
        assert_eq!(line.path_and_query, "/%63anonical?q=%63");
        assert_eq!((line.host, line.authority), ("example.test", &*format!("example.test:{}", line.port)));
        let path = paths.lock().pop_front().map(str::to_owned);
        Ok(Admission { private: true, scheme: line.scheme, secrets: vec!["search-key".into()], path })
    };
    let query = secret("search-key", Placement::Query { name: "key".into() });
    let grant = Grant::new("sha256:x".into(), Arc::new(Rules(admit)), vec![query], RequestLimits::default());
    let call = world.egress.call(Arc::new(grant.unwrap()), Instant::now() + Duration::from_secs(60));
    let url = server.url("/%63anonical?q=%63");
    fetch(&call, get(&url)).await.unwrap();
    let line = "GET /canonical?q=%63&key=s3cr%2Ft%2Bv%22lue%3D42%C3%A9 HTTP/1.1";
    assert_eq!(server.next().await.line(), line);
    for _ in 0..4 {
        let refused = fetch(&call, get(&url)).await.unwrap_err();
        assert_eq!(refused, EgressError::InvalidUri(InvalidUri::Path));
    }
}

#[tokio::test]
async fn what_the_guest_set_itself_is_refused() {
    let server = Server::answering(|_| ok("")).await;
    let query = secret("search-key", Placement::Query { name: "api key".into() });
    let call = World::new()
        .call_with(vec![bearer(), query], RequestLimits { requests: 20, ..RequestLimits::default() });
    let own =
        Request::get(server.url("/")).header("Authorization", "Bearer mine").body(Empty::<Bytes>::new());
    let refused = fetch(&call, own.unwrap()).await.unwrap_err();
    assert_eq!(
        refused,
        EgressError::SetByGuest { name: "api-key".into(), part: "header authorization".into() }
    );
    for query in ["api%20key=1", "a=1&api+key=2", "api%20%6bey", "a;api+key=1", "api+key="] {
        let refused = fetch(&call, get(server.url(&format!("/?{query}")))).await.unwrap_err();
        assert!(matches!(refused, EgressError::SetByGuest { .. }), "{query}: {refused:?}");
    }
    assert_eq!(server.connections(), 0);
    fetch(&call, get(server.url("/?other=1&api"))).await.unwrap();
}

#[tokio::test]
async fn a_credential_without_a_value_is_an_error_that_names_it() {
    let server = Server::answering(|_| ok("")).await;
    let missing = Secret { value: None, ..bearer() };
    let call = World::new().call_with(vec![missing], RequestLimits::default());
    let refused = fetch(&call, get(server.url("/"))).await.unwrap_err();
    let (name, host) = ("api-key".into(), "example.test".into());
    assert_eq!(refused, EgressError::SecretUnresolved { name, host });
    assert_eq!(refused.kind(), ErrorKind::ConfigurationError);
    assert!(
        refused.to_string().contains("\"api-key\"") && refused.log_text().contains("environment variable")
    );
    assert_eq!(server.connections(), 0);
    // Other hosts do not need it.
    fetch(&call, get(format!("http://other.test:{}/", server.port()))).await.unwrap();
}

#[tokio::test]
async fn a_value_that_no_header_takes_is_an_error() {
    // HTTP allows bytes beyond ASCII in headers; `SecretValue` refuses controls. What is left is the prefix.
    let bad = ascii_secret("api-key", header("x-key", "a\nb"));
    let call = World::new().call_with(vec![bad], RequestLimits::default());
    let refused = fetch(&call, get("http://example.test/")).await.unwrap_err();
    assert!(matches!(refused, EgressError::SecretUnusable { .. }), "{refused:?}");
}

#[tokio::test]
async fn two_secrets_cannot_have_one_place() {
    let server = Server::answering(|_| ok("")).await;
    let basic = ascii_secret("login", Placement::Basic { user: "me".into() });
    let call = World::new().call_with(vec![bearer(), basic], RequestLimits::default());
    let refused = fetch(&call, get(server.url("/"))).await.unwrap_err();
    let (name, problem) = ("login".into(), "another secret for this host has the same place");
    assert_eq!(refused, EgressError::SecretUnusable { name, problem });
}

#[tokio::test]
async fn a_credential_that_the_grant_does_not_have_is_not_left_out_silently() {
    let admit = |line: &RequestLine<'_>| {
        let secrets = vec!["forgotten".to_owned()];
        Ok(Admission { private: true, scheme: line.scheme, secrets, path: None })
    };
    let grant =
        Grant::new("sha256:x".into(), Arc::new(Rules(admit)), vec![], RequestLimits::default()).unwrap();
    let call = World::new().egress.call(Arc::new(grant), Instant::now() + Duration::from_secs(60));
    let refused = fetch(&call, get("http://example.test/")).await.unwrap_err();
    let (name, host) = ("forgotten".into(), "example.test".into());
    assert_eq!(refused, EgressError::SecretUnresolved { name, host });
}

#[tokio::test]
async fn a_guest_that_has_a_secret_in_its_request_is_refused() {
    let server = Server::answering(|_| ok("")).await;
    let call =
        World::new().call_with(vec![bearer()], RequestLimits { requests: 20, ..RequestLimits::default() });
    let refusal = |place| EgressError::SecretInRequest { name: "api-key".into(), place };
    let encoded = STANDARD.encode(format!("x{VALUE}"));
    for path in [
        format!("/{VALUE}"),
        format!("/?k={VALUE}"),
        "/?k=ascii-s3cret%2Fv%2Blue".into(),
        "/?k=%61scii-s3cret/v%2blue".into(),
        format!("/?k={}", encoded.replace('=', "")),
    ] {
        let refused = fetch(&call, get(server.url(&path))).await.unwrap_err();
        assert_eq!(refused, refusal(Place::Url), "{path}");
        assert!(!refused.to_string().contains(VALUE) && !refused.log_text().contains(VALUE));
    }
    let in_header =
        Request::get(server.url("/")).header("x-note", format!("see {encoded}")).body(Empty::<Bytes>::new());
    assert_eq!(fetch(&call, in_header.unwrap()).await.unwrap_err(), refusal(Place::Headers));
    assert_eq!(server.connections(), 0, "none of these left the host");
    let receipt = format!("{:?}", call.receipt());
    assert!(!receipt.contains(VALUE) && receipt.contains("api-key"), "{receipt}");
}

#[tokio::test]
async fn a_secret_split_over_chunks_of_a_body_does_not_leave_the_host() {
    let (seen_by, mut seen) = tokio::sync::mpsc::unbounded_channel::<Vec<u8>>();
    let server = Server::scripted(move |mut connection| {
        let seen = seen_by.clone();
        async move {
            connection.wait_for_close().await;
            seen.send(connection.unread()).unwrap();
        }
    })
    .await;
    let call = World::new().call_with(vec![bearer()], RequestLimits::default());
    let chunks = ["before ascii-s3", "cret/", "v+lue after"].map(Ok::<_, io::Error>);
    let chunks =
        chunks.map(|chunk| chunk.map(|chunk| http_body::Frame::data(Bytes::from_static(chunk.as_bytes()))));
    let body = http_body_util::StreamBody::new(futures::stream::iter(chunks));
    let request = Request::post(server.url("/")).body(body).unwrap();
    let refused = fetch(&call, request).await.unwrap_err();
    assert_eq!(refused, EgressError::SecretInRequest { name: "api-key".into(), place: Place::Body });
    let seen = String::from_utf8(seen.recv().await.unwrap()).unwrap();
    assert!(!seen.contains("\r\n\r\n") || !seen.split("\r\n\r\n").nth(1).unwrap().contains("s3"), "{seen}");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_range_is_not_asked_for_with_a_credential() {
    let mut server = Server::answering(|_| ok("")).await;
    let call = World::new().call_with(vec![bearer()], RequestLimits::default());
    let with_range = |host: &str| {
        let url = format!("http://{host}:{}/", server.port());
        Request::get(url).header("range", "bytes=0-3").body(Empty::<Bytes>::new()).unwrap()
    };
    let (own, other) = (with_range("example.test"), with_range("other.test"));
    fetch(&call, own).await.unwrap();
    assert_eq!(server.next().await.header("range"), None);
    fetch(&call, other).await.unwrap();
    assert_eq!(server.next().await.header("range"), Some("bytes=0-3"));
}
