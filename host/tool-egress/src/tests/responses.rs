//! What servers answer, and what of it guests get.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::server::ok;
use super::*;

const VALUE: &str = "ascii-s3cret/v+lue";

fn call_with_secret(world: &World) -> Call {
    let secrets = vec![ascii_secret("api-key", header("authorization", "Bearer "))];
    world.call_with(secrets, RequestLimits::default())
}

#[tokio::test]
async fn a_server_that_repeats_a_credential_is_redacted() {
    let server = Server::answering(|received| {
        let own = received.header("authorization").unwrap();
        let body = format!("you sent {own}, that is {} and ascii-s3cret%2fv%2blue.", STANDARD.encode(own));
        format!(
            "HTTP/1.1 200 OK\r\nx-echo: {own}\r\nlocation: https://evil.test/?k={VALUE}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    })
    .await;
    let world = World::new();
    let call = call_with_secret(&world);
    let (head, body) = fetch(&call, get(server.url("/"))).await.unwrap();
    assert_eq!(head.headers["x-echo"], "Bearer [secret api-key]");
    assert_eq!(head.headers["location"], "https://evil.test/?k=[secret api-key]");
    assert!(body.starts_with("you sent Bearer [secret api-key], that is "), "{body}");
    assert!(body.ends_with(" and [secret api-key]."), "{body}");
    assert!(!body.contains("s3cret") && !body.contains(&STANDARD.encode(VALUE)[..8]), "{body}");
    // The body is another one than was announced.
    assert!(!head.headers.contains_key("content-length"));
    assert_eq!(call.receipt().redactions, 5);
}

#[tokio::test]
async fn a_credential_split_over_chunks_is_redacted() {
    let server = Server::scripted(|mut connection| async move {
        connection.read_request().await.unwrap();
        connection.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        for character in format!("a {VALUE} b {}", &VALUE[..9]).chars() {
            connection.write(format!("1\r\n{character}\r\n")).await;
            tokio::task::yield_now().await;
        }
        connection.write("0\r\n\r\n").await;
    })
    .await;
    let world = World::new();
    let (_, body) = fetch(&call_with_secret(&world), get(server.url("/"))).await.unwrap();
    assert_eq!(body, format!("a [secret api-key] b {}", &VALUE[..9]));
}

#[tokio::test]
async fn compressed_answers_are_refused() {
    for (header, expected) in [
        ("content-encoding: gzip\r\ncontent-length: 3", ErrorKind::HttpResponseContentCoding),
        ("content-encoding: identity, br\r\ncontent-length: 3", ErrorKind::HttpResponseContentCoding),
        ("transfer-encoding: gzip, chunked", ErrorKind::HttpResponseTransferCoding),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\nabc");
        let server = Server::answering(move |_| answer.clone()).await;
        let refused = fetch(&World::new().call(), get(server.url("/"))).await.unwrap_err();
        assert_eq!(refused.kind(), expected, "{header}: {refused:?}");
    }
    let plain = "HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\ncontent-length: 3\r\n\r\nabc";
    let server = Server::answering(move |_| plain.to_owned()).await;
    assert_eq!(fetch(&World::new().call(), get(server.url("/"))).await.unwrap().1, "abc");
}

/// A guest that sends guesses to a server of its own sees which one comes back replaced.
#[tokio::test]
async fn a_call_that_meets_secrets_where_none_were_sent_makes_no_more_requests() {
    let server = Server::answering(|_| ok(format!("{VALUE} ").repeat(16))).await;
    let world = World::new();
    let port = server.port();
    let (with_secret, without) = (server.url("/"), format!("http://other.test:{port}/"));
    let call = call_with_secret(&world);
    // A server that got the secret may repeat it.
    assert!(fetch(&call, get(&with_secret)).await.unwrap().1.contains("[secret api-key]"));
    for url in [&without, &with_secret] {
        let refused = fetch(&call, get(url)).await.unwrap_err();
        assert_eq!(refused, EgressError::TooManySecretsMet(16), "{url}");
    }
    let secrets = vec![ascii_secret("api-key", header("authorization", "Bearer "))];
    let call = world.call_with(secrets, RequestLimits { requests: 20, ..RequestLimits::default() });
    for expected in [[true; 16].as_slice(), &[false]].concat() {
        let guess = Request::post(&with_secret).body(Full::new(Bytes::from(VALUE))).unwrap();
        let refused = fetch(&call, guess).await.unwrap_err();
        let is_found = matches!(refused, EgressError::SecretInRequest { .. });
        assert_eq!(is_found, expected, "{refused}");
    }
}

/// A guest asks a server that gets one secret, and that repeats its guesses, for another one.
#[tokio::test]
async fn only_the_secrets_of_a_request_may_be_in_its_answer() {
    let server = Server::answering(|received| {
        let guess = if received.line().contains("/own") { VALUE } else { "0ther-s3cret" };
        let guesses = format!("{guess} ").repeat(16);
        if received.line().contains("head") {
            return format!("HTTP/1.1 200 OK\r\nx-echo: {guesses}\r\ncontent-length: 0\r\n\r\n");
        }
        ok(guesses)
    })
    .await;
    let world = World::new();
    let admit = |line: &RequestLine<'_>| {
        Ok(Admission { private: true, scheme: line.scheme, secrets: vec!["api-key".into()], path: None })
    };
    let secrets = || {
        let own = ascii_secret("api-key", header("authorization", "Bearer "));
        let other = Secret { value: Some(value("0ther-s3cret")), ..secret("other", header("x-other", "")) };
        vec![own, other]
    };
    for path in ["/other", "/other-head"] {
        let grant =
            Grant::new("sha256:test".into(), Arc::new(Rules(admit)), secrets(), RequestLimits::default());
        let call = world.egress.call(Arc::new(grant.unwrap()), Instant::now() + Duration::from_secs(120));
        for own in ["/own", "/own-head"] {
            fetch(&call, get(server.url(own))).await.unwrap();
        }
        assert_eq!((call.receipt().redactions, call.receipt().secrets_met), (32, 0));
        let refused = fetch(&call, get(server.url(path))).await.unwrap_err();
        assert_eq!(refused, EgressError::TooManySecretsMet(16), "{path}");
        assert_eq!((call.receipt().redactions, call.receipt().secrets_met), (48, 16));
    }
}

#[tokio::test]
async fn an_error_does_not_repeat_a_secret_that_the_server_put_into_it() {
    let server = Server::answering(|received| {
        let own = received.header("authorization").unwrap();
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: {own}\r\ncontent-length: 0\r\n\r\n")
    })
    .await;
    let world = World::new();
    let refused = fetch(&call_with_secret(&world), get(server.url("/"))).await.unwrap_err();
    assert!(!refused.to_string().contains("s3cret") && !refused.log_text().contains("s3cret"), "{refused}");
    assert!(refused.to_string().contains("[secret api-key]"), "{refused}");
}

#[tokio::test]
async fn a_change_of_the_protocol_is_refused() {
    let answer = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
    let server = Server::answering(move |_| answer.to_owned()).await;
    let refused = fetch(&World::new().call(), get(server.url("/"))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HttpUpgradeFailed, "{refused:?}");
}

#[tokio::test]
async fn headers_of_the_connection_do_not_come_through() {
    let answer = "HTTP/1.1 200 OK\r\nkeep-alive: timeout=5\r\nproxy-authenticate: Basic\r\nx-own: 1\r\n\
                  content-length: 2\r\n\r\nok";
    let server = Server::answering(move |_| answer.to_owned()).await;
    let (head, _) = fetch(&World::new().call(), get(server.url("/"))).await.unwrap();
    let names: Vec<_> = head.headers.keys().map(http::HeaderName::as_str).collect();
    assert_eq!(names, ["x-own", "content-length"]);
}

#[tokio::test]
async fn a_body_that_is_cut_off_is_an_error_and_never_an_end() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let server = Server::scripted(move |mut connection| async move {
            connection.read_request().await.unwrap();
            connection.write(answer).await;
        })
        .await;
        let call = World::new().call();
        let failed = fetch(&call, get(server.url("/"))).await.unwrap_err();
        assert_eq!(failed, EgressError::Incomplete { host: "example.test".into() });
        assert_eq!(call.receipt().hosts[0].failures, 1);
    }
}

#[tokio::test]
async fn what_is_not_http_is_an_error() {
    for (answer, expected) in [
        ("SSH-2.0-OpenSSH_9.6\r\n".to_owned(), ErrorKind::HttpProtocolError),
        (String::new(), ErrorKind::ConnectionTerminated),
        (
            format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(40_000)),
            ErrorKind::HttpResponseHeaderSectionSize,
        ),
        (
            format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(200)),
            ErrorKind::HttpResponseHeaderSectionSize,
        ),
    ] {
        let server = Server::scripted(move |mut connection| {
            let answer = answer.clone();
            async move {
                connection.read_request().await.unwrap();
                connection.write(answer).await;
            }
        })
        .await;
        let failed = fetch(&World::new().call(), get(server.url("/"))).await.unwrap_err();
        assert_eq!(failed.kind(), expected, "{failed:?}");
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_refuses() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let failed = fetch(&World::new().call(), get(format!("http://example.test:{port}/"))).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(failed.to_string(), "example.test cannot be reached: the connection was refused");
}

#[tokio::test]
async fn a_head_without_a_body_comes_with_its_length() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 12345\r\n\r\n";
    let server = Server::answering(move |_| answer.to_owned()).await;
    let world = World::new();
    let request = http::Request::head(server.url("/")).body(Empty::<Bytes>::new()).unwrap();
    let (head, body) = fetch(&call_with_secret(&world), request).await.unwrap();
    assert_eq!((head.headers["content-length"].to_str().unwrap(), body.as_str()), ("12345", ""));
}

#[tokio::test]
async fn outputs_and_log_lines_of_the_call_are_scanned_the_same() {
    let world = World::new();
    let call = call_with_secret(&world);
    assert_eq!(call.scanner().scan_text(&format!("{{\"k\":\"{VALUE}\"}}")), "{\"k\":\"[secret api-key]\"}");
}
