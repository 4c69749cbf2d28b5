//! Everything under `/api/` asks for a token, and says nothing but a status to whoever has none.

use http::StatusCode;

use crate::harness::{Answers, Fakes, bearer, request, token};

#[tokio::test]
async fn the_token_is_the_second_part_of_the_header() {
    let fakes = Fakes::with_invoke(Answers);
    let token = token("u1", None, None);
    for (header, status) in [
        (format!("Bearer {token}"), StatusCode::OK),
        (format!("Whatever {token}"), StatusCode::OK),
        (format!("Bearer {token} and more"), StatusCode::OK),
        (format!("Bearer  {token}"), StatusCode::UNAUTHORIZED),
        (token.clone(), StatusCode::UNAUTHORIZED),
        ("Bearer".into(), StatusCode::UNAUTHORIZED),
        (String::new(), StatusCode::UNAUTHORIZED),
        (format!("Bearer {token}x"), StatusCode::FORBIDDEN),
    ] {
        let mut request = request("POST", "/api/agent", r#"{"query":"hi"}"#);
        request.headers_mut().insert("authorization", header.parse().unwrap());
        assert_eq!(fakes.service.send(request).await.status, status, "{header}");
    }
}

#[tokio::test]
async fn a_header_that_is_no_text_is_refused() {
    let mut request = request("POST", "/api/agent", "");
    let header = http::HeaderValue::from_bytes(b"Bearer \xFF.\xFE.\xFD").unwrap();
    request.headers_mut().insert("authorization", header);
    assert_eq!(Fakes::with_invoke(Answers).service.send(request).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn what_no_route_answers_needs_no_token() {
    let fakes = Fakes::with_invoke(Answers);
    for (method, path, status) in [
        ("GET", "/api/nope", StatusCode::NOT_FOUND),
        ("POST", "/api/agent/", StatusCode::NOT_FOUND),
        ("GET", "/api/agent", StatusCode::METHOD_NOT_ALLOWED),
        ("POST", "/api/agent/jobs/1", StatusCode::METHOD_NOT_ALLOWED),
        ("OPTIONS", "/api/agent", StatusCode::OK),
    ] {
        assert_eq!(fakes.service.ask(method, path).await.status, status, "{method} {path}");
    }
}

#[tokio::test]
async fn a_numeric_id_and_its_text_are_one_user() {
    let fakes = Fakes::with_invoke(Answers);
    fakes.service.send(bearer("5", request("POST", "/api/agent/async", r#"{"query":"hi"}"#))).await;
    assert_eq!(fakes.submitted(), [("5".to_owned(), "hi".to_owned())]);
    assert_eq!(fakes.windows.count("user:5"), 1);
}
