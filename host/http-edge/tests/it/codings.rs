//! Bodies may be encoded (host/docs/interface/decisions-http.md#bodies). What each coding is has its tests
//! beside it.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::StatusCode;
use insta::{allow_duplicates, assert_snapshot};

use crate::harness::{Answer, Answers, Fakes, Service, bearer, request, with};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

async fn invoke(service: &Service, coding: &str, body: Vec<u8>) -> Answer {
    service.send(with(request("POST", "/agent/invoke", body), "content-encoding", coding)).await
}

#[tokio::test]
async fn bodies_are_decoded() {
    let service = Service::with_invoke(Answers);
    let text = br#"{"input":"hi"}"#;
    for (coding, body) in [("gzip", gzip(text)), ("GZip", gzip(text)), ("identity", text.into())] {
        let answer = invoke(&service, coding, body).await;
        assert_eq!(answer.status, StatusCode::OK, "{coding}: {answer}");
        assert_eq!(answer.json()["result"]["messages"][0]["content"], "hi", "{coding}");
    }
}

#[tokio::test]
async fn the_limit_counts_what_a_body_decodes_to() {
    let body = |bytes: usize| format!(r#"{{"input":"{}"}}"#, "x".repeat(bytes - 12)).into_bytes();
    let service = Service::with_invoke(Answers);
    assert_eq!(invoke(&service, "gzip", gzip(&body(102_400))).await.status, StatusCode::OK);
    for bytes in [102_401, 64 << 20] {
        let bomb = gzip(&body(bytes));
        assert!(bomb.len() < 102_400);
        let answer = invoke(&service, "gzip", bomb).await;
        allow_duplicates! {
            assert_snapshot!(answer, @r#"
            413 Payload Too Large
            content-type: application/json; charset=utf-8
            {"error":"Payload too large"}
            "#);
        }
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_made_smaller_may_grow_by_its_frames() {
    let text: String =
        (0..100_000_u64).map(|n| char::from(b'!' + (n * n * 7919 % 2 + n % 90) as u8)).collect();
    let body = format!(r#"{{"input":{}}}"#, serde_json::to_string(&text).unwrap());
    let service = Service::configured(Answers, |edge| edge.settings.max_body_bytes = body.len());
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(body.as_bytes()).unwrap();
    let encoded = encoder.finish().unwrap();
    assert!(encoded.len() > body.len());
    assert_eq!(invoke(&service, "gzip", encoded).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_body_that_is_not_what_its_coding_says_is_invalid() {
    let service = Service::with_invoke(Answers);
    let text = br#"{"input":"hi"}"#;
    // What is decoded in the last is no JSON.
    for (coding, body) in [("gzip", text.to_vec()), ("br", gzip(text)), ("gzip", gzip(b"input=hi"))] {
        let answer = invoke(&service, coding, body).await;
        answer.check_at(coding, StatusCode::BAD_REQUEST, r#"{"error":"Invalid input"}"#);
    }
}

#[tokio::test]
async fn another_coding_is_a_415_that_names_those_there_are() {
    let service = Service::with_invoke(Answers);
    for coding in ["zstd", "compress", "gzip, gzip", "utf-8"] {
        let answer = invoke(&service, coding, b"{}".to_vec()).await;
        allow_duplicates! {
            assert_snapshot!(answer, @r#"
            415 Unsupported Media Type
            accept-encoding: gzip, deflate, br
            content-type: application/json; charset=utf-8
            {"error":"Unsupported content encoding"}
            "#);
        }
    }
}

#[tokio::test]
async fn variant_b_asks_for_the_token_first_and_then_says_the_same() {
    let fakes = Fakes::with_invoke(Answers);
    for path in ["/api/agent", "/api/agent/async", "/api/serverless", "/api/gateway"] {
        let ask = |coding: &str, body: Vec<u8>| with(request("POST", path, body), "content-encoding", coding);
        assert_eq!(fakes.service.send(ask("zstd", b"{}".to_vec())).await.status, StatusCode::UNAUTHORIZED);
        let answer = fakes.service.send(bearer("u1", ask("zstd", b"{}".to_vec()))).await;
        assert_eq!(
            (answer.status, answer.header("accept-encoding")),
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, Some("gzip, deflate, br"))
        );
        let answer = fakes.service.send(bearer("u1", ask("gzip", gzip(br#"{"query":"hi"}"#)))).await;
        assert!(answer.status.is_success(), "{path}: {answer}");
    }
}
