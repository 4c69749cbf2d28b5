//! Proposing a version: what is taken, what is refused, and what is refused before it is sent.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::{StreamExt, stream};
use http::{Request, StatusCode};
use insta::assert_snapshot;
use serde_json::json;

use crate::harness::{Answer, Answers, Fakes, as_admin, request, token};

const PATH: &str = "/admin/tools/calculator";

/// Most bytes of an upload that the fake takes.
const MOST: usize = 1_000_000;

async fn upload(fakes: &Fakes, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
    let mut request = Request::put(PATH);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = fakes.service.send(as_admin(request.body(body.into()).unwrap())).await;
    fakes.windows.fill("user:a1", 0);
    answer
}

#[tokio::test]
async fn the_first_version_of_a_component_serves_and_is_201() {
    let fakes = Fakes::with_invoke(Answers);
    let answer = fakes.administer("PUT", "/admin/tools/new-one", "\0asm").await;
    assert_snapshot!(answer, @r#"
    201 Created
    content-type: application/json; charset=utf-8
    etag: "1"
    location: /admin/tools/new-one
    ratelimit-policy: 100;w=900
    ratelimit-limit: 100
    ratelimit-remaining: 99
    ratelimit-reset: 900
    x-ratelimit-limit: 10
    x-ratelimit-remaining: 9
    {"name":"new-one","revision":1,"status":"down","enabled":true,"uploaded":"sha256:cd5d4935a48c0672cb06407bb443bc0087aff947c6b864bac886982c73b3027f","active":"sha256:cd5d4935a48c0672cb06407bb443bc0087aff947c6b864bac886982c73b3027f","previous":[],"versions":[{"digest":"sha256:cd5d4935a48c0672cb06407bb443bc0087aff947c6b864bac886982c73b3027f","active":true,"serving":false,"status":{"kind":"approved","by":"first","at":"2026-11-21T12:00:00.000Z"},"source":{"kind":"upload","userId":"a1"},"proposedAt":"2026-11-21T12:00:00.000Z","facts":{"bytes":4096,"contract":"agent:tool@0.1.1","imports":["agent:tool/log@0.1.1"],"wants":[],"tellsUsersApart":false,"tools":[{"name":"calculate","description":"Computes.","inputSchema":{"properties":{"at":{"type":"number"}},"type":"object"},"hints":{"pure":"true"}}]}}],"known":[]}
    "#);
    assert_eq!(fakes.tools.take_done(), ["a1 uploads new-one: 4 bytes, signature None"]);
}

#[tokio::test]
async fn a_version_that_waits_is_202_and_says_why() {
    let fakes = Fakes::with_invoke(Answers);
    let answer = upload(&fakes, &[], "\0asm").await;
    assert_eq!((answer.status, answer.header("location")), (StatusCode::ACCEPTED, Some(PATH)));
    let body = answer.json();
    assert_eq!(body["uploaded"], body["versions"][0]["digest"]);
    assert_eq!(body["versions"][0]["status"]["because"][0], "the description changed");
}

#[tokio::test]
async fn a_version_that_is_to_serve_and_cannot_is_202_with_its_fault() {
    let fakes = Fakes::with_invoke(Answers);
    let digest = "sha256:cd5d4935a48c0672cb06407bb443bc0087aff947c6b864bac886982c73b3027f";
    fakes.tools.change("calculator", |view| {
        view.record.active = Some(digest.into());
        view.fault = Some("offers the tool \"calculate\", and so does other.wasm".into());
    });
    let answer = upload(&fakes, &[], "\0asm").await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    assert_eq!(answer.json()["fault"], "offers the tool \"calculate\", and so does other.wasm");
    // Of a file in the folder, which cannot take its place.
    fakes.tools.change("calculator", |view| view.serving = Some(digest.into()));
    assert_eq!(upload(&fakes, &[], "\0asm").await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_component_is_sent_as_what_it_is_or_as_bytes() {
    let fakes = Fakes::with_invoke(Answers);
    for kind in [
        "application/wasm",
        "Application/WASM",
        "application/octet-stream",
        "application/wasm; charset=binary",
    ] {
        let answer = upload(&fakes, &[("content-type", kind)], "\0asm").await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{kind}");
    }
    assert_eq!(
        upload(&fakes, &[("content-encoding", "identity")], "\0asm").await.status,
        StatusCode::ACCEPTED
    );
    fakes.tools.take_done();
    for kind in ["application/json", "application/x-www-form-urlencoded", "", "application/wasm2", "é"] {
        let answer = upload(&fakes, &[("content-type", kind)], "\0asm").await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
    }
    assert_eq!(fakes.tools.take_done(), [""; 0]);
}

#[tokio::test]
async fn what_is_no_whole_component_is_refused_with_what_would_be_taken() {
    let fakes = Fakes::with_invoke(Answers);
    let kinds = "A component is sent as application/wasm or application/octet-stream";
    let accept = ("accept", "application/wasm, application/octet-stream");
    let coding = ("accept-encoding", "identity");
    let unsupported = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    for (headers, body, status, text, header) in [
        (&[("content-type", "application/json")][..], "{}", unsupported, kinds, Some(accept)),
        (
            &[("content-encoding", "gzip")],
            "x",
            unsupported,
            "A component is sent as it is, without a content coding",
            Some(coding),
        ),
        (
            &[("content-range", "bytes 0-3/8")],
            "\0asm",
            StatusCode::BAD_REQUEST,
            "A component is sent as a whole, without Content-Range",
            None,
        ),
        (&[], "", StatusCode::BAD_REQUEST, "The body is empty: send the bytes of the component", None),
    ] {
        let answer = upload(&fakes, headers, body).await;
        assert_eq!((answer.status, answer.json()), (status, json!({ "error": text })));
        for (name, of_name) in ["accept", "accept-encoding"].map(|name| (name, answer.header(name))) {
            assert_eq!(of_name, header.filter(|(given, _)| *given == name).map(|(_, value)| value), "{text}");
        }
    }
    assert_eq!(fakes.tools.take_done(), [""; 0]);
}

#[tokio::test]
async fn a_signature_goes_along_in_base64() {
    let fakes = Fakes::with_invoke(Answers);
    upload(&fakes, &[("agent-tool-signature", "c2lnbmVk")], "\0asm").await;
    assert_eq!(fakes.tools.take_done(), [r#"a1 uploads calculator: 4 bytes, signature Some(b"signed")"#]);
    let long = "QUFB".repeat(342);
    for signature in ["", "not base64!", "c2lnbmVk=", "c2ln bmVk", &long] {
        let answer = upload(&fakes, &[("agent-tool-signature", signature)], "\0asm").await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{signature}");
        assert!(answer.body.contains("Agent-Tool-Signature"), "{answer}");
    }
    let two = [("agent-tool-signature", "c2lnbmVk"), ("agent-tool-signature", "c2lnbmVk")];
    assert_eq!(upload(&fakes, &two, "\0asm").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(fakes.tools.take_done(), [""; 0]);
}

#[tokio::test]
async fn an_upload_has_a_limit_of_its_own() {
    let fakes = Fakes::configured(Answers, |edge| edge.settings.max_body_bytes = 10);
    let chunked = |bytes: usize| {
        let chunks = vec![Ok::<_, Infallible>(Bytes::from(vec![0; 1000])); bytes / 1000];
        Body::from_stream(stream::iter(chunks))
    };
    assert_eq!(upload(&fakes, &[], vec![0; MOST]).await.status, StatusCode::ACCEPTED);
    assert_eq!(upload(&fakes, &[], chunked(MOST)).await.status, StatusCode::ACCEPTED);
    fakes.tools.take_done();
    for body in [Body::from(vec![0; MOST + 1]), chunked(MOST + 1000)] {
        let answer = upload(&fakes, &[], body).await;
        answer.check(StatusCode::PAYLOAD_TOO_LARGE, r#"{"error":"Payload too large"}"#);
    }
    assert_eq!(fakes.tools.take_done(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_or_breaks_off_is_no_upload_and_frees_its_permit() {
    let fakes = Fakes::configured(Answers, |edge| edge.settings.body_time_limit = Duration::from_secs(20));
    for _ in 0..3 {
        let drops = Body::from_stream(Box::pin(stream::repeat(()).then(|()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, Infallible>(Bytes::from_static(b"\0"))
        })));
        let began = tokio::time::Instant::now();
        assert_eq!(upload(&fakes, &[], drops).await.status, StatusCode::REQUEST_TIMEOUT);
        assert_eq!(began.elapsed().as_secs(), 20);
        let half = stream::iter([Ok(Bytes::from_static(b"\0as")), Err(std::io::Error::other("reset"))]);
        assert_eq!(upload(&fakes, &[], Body::from_stream(half)).await.status, StatusCode::BAD_REQUEST);
    }
    assert_eq!(fakes.tools.take_done(), [""; 0]);
}

#[tokio::test]
async fn a_third_upload_at_once_is_503_before_its_body_is_read() {
    let fakes = Fakes::with_invoke(Answers);
    fakes.tools.hold_uploads();
    let third = async {
        fakes.tools.begun(2).await;
        let never = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let third = upload(&fakes, &[], never).await;
        // What is no upload goes on meanwhile.
        let list = fakes.administer("GET", "/admin/tools", "").await;
        fakes.tools.let_end(3);
        (third, list.status)
    };
    let (first, second, (third, listed)) =
        tokio::join!(upload(&fakes, &[], "\0asm"), upload(&fakes, &[], "\0asm"), third);
    assert_eq!(
        (first.status, second.status, listed),
        (StatusCode::ACCEPTED, StatusCode::ACCEPTED, StatusCode::OK)
    );
    assert_eq!((third.status, third.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    assert_eq!(third.body, r#"{"error":"Two uploads are under way already"}"#);
    assert_eq!(upload(&fakes, &[], "\0asm").await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_client_that_goes_away_frees_its_permit() {
    let fakes = Fakes::with_invoke(Answers);
    fakes.tools.hold_uploads();
    for _ in 0..3 {
        fakes.service.leave(as_admin(request("PUT", PATH, "\0asm")), fakes.tools.begun(1)).await;
    }
    fakes.tools.let_end(1);
    assert_eq!(upload(&fakes, &[], "\0asm").await.status, StatusCode::ACCEPTED);
}

/// A request over a socket that waits for `100 Continue`, and the answer that it gets instead.
async fn refused_at_once(token: &str, head: &str) -> String {
    let fakes = Fakes::with_invoke(Answers);
    let answer = fakes.service.on_a_socket(async |mut client| {
        let authorization =
            if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        client.send(&format!("PUT {PATH} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n")).await;
        client.send(&format!("{authorization}{head}\r\n")).await;
        client.receive_all().await
    });
    let answer = answer.await;
    assert_eq!(fakes.tools.take_done(), [""; 0], "{answer}");
    answer.lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn an_upload_that_will_be_refused_is_refused_before_it_is_sent() {
    let admin = token("a1", None, Some("admin"));
    let user = token("u1", None, None);
    for (token, head, status) in [
        ("", "Content-Length: 100\r\n", "401 Unauthorized"),
        ("x.y.z", "Content-Length: 100\r\n", "403 Forbidden"),
        (&*user, "Content-Length: 100\r\n", "403 Forbidden"),
        (&*admin, "Content-Length: 1000001\r\n", "413 Payload Too Large"),
        (&*admin, "Content-Length: 100\r\nContent-Type: text/html\r\n", "415 Unsupported Media Type"),
        (&*admin, "Content-Length: 100\r\nAgent-Tool-Signature: x\r\n", "400 Bad Request"),
    ] {
        assert_eq!(refused_at_once(token, head).await, format!("HTTP/1.1 {status}"), "{head}");
    }
}

#[tokio::test]
async fn an_upload_that_may_be_sent_is_called_for() {
    let fakes = Fakes::with_invoke(Answers);
    let admin = token("a1", None, Some("admin"));
    let answer = fakes.service.on_a_socket(async |mut client| {
        client.send(&format!("PUT {PATH} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {admin}\r\n")).await;
        client.send("Expect: 100-continue\r\nContent-Length: 4\r\nConnection: close\r\n\r\n").await;
        client.expect("HTTP/1.1 100 Continue\r\n\r\n").await;
        client.send("\0asm").await;
        client.receive_all().await
    });
    assert!(answer.await.starts_with("HTTP/1.1 202 Accepted"));
}
