//! A body that is no request of the interface (host/docs/interface/decisions-http.md#bodies) is a 400, and no
//! body whatever is anything worse.

use http::StatusCode;
use proptest::prelude::*;

use crate::harness::{Answers, Service};

#[tokio::test]
async fn requests_that_are_not_the_interfaces_are_invalid() {
    let service = Service::with_invoke(Answers);
    let nested = |depth: usize| format!(r#"{{"input":"x","y":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let rows: &[(&str, &[u8])] = &[
        ("no body", b""),
        ("only blanks", b" \n"),
        ("only a byte order mark", b"\xEF\xBB\xBF"),
        ("no input", b"{}"),
        ("another case", br#"{"Input":"x"}"#),
        ("input is null", br#"{"input":null}"#),
        ("input is a number", br#"{"input":5}"#),
        ("input is a boolean", br#"{"input":true}"#),
        ("input is an array", br#"{"input":["x"]}"#),
        ("input is an object", br#"{"input":{"input":"x"}}"#),
        ("input is empty", br#"{"input":""}"#),
        ("the last of two inputs is no string", br#"{"input":"x","input":5}"#),
        ("an array", br#"[{"input":"x"}]"#),
        ("a string", br#""input""#),
        ("a number", b"5"),
        ("null", b"null"),
        ("a form", b"input=x"),
        ("cut off", br#"{"input":"x"#),
        ("a second value", br#"{"input":"x"}{"input":"y"}"#),
        ("a trailing comma", br#"{"input":"x",}"#),
        ("single quotes", b"{'input':'x'}"),
        ("a comment", br#"{"input":"x"/**/}"#),
        ("a raw NUL in the text", b"{\"input\":\"a\0b\"}"),
        ("a NUL after the body", b"{\"input\":\"x\"}\0"),
        ("a raw line break in the text", b"{\"input\":\"a\nb\"}"),
        ("an unknown escape", br#"{"input":"\x"}"#),
        ("UTF-16", b"\xFF\xFE{\0}\0"),
        ("gzip", b"\x1F\x8B\x08\0\0\0"),
        ("two byte order marks", b"\xEF\xBB\xBF\xEF\xBB\xBF{\"input\":\"x\"}"),
        ("a number beyond a double", br#"{"input":"x","n":1e999}"#),
        ("nesting too deep", nested(127).leak().as_bytes()),
        ("nesting far too deep", nested(50_000).leak().as_bytes()),
    ];
    for (what, body) in rows {
        let answer = service.invoke(*body).await;
        answer.check_at(what, StatusCode::BAD_REQUEST, r#"{"error":"Invalid input"}"#);
    }
}

#[tokio::test]
async fn requests_that_only_look_odd_are_served() {
    let service = Service::with_invoke(Answers);
    let nested = format!(r#"{{"input":"x","y":{}{}}}"#, "[".repeat(126), "]".repeat(126));
    let rows: &[(&str, &[u8])] = &[
        ("blanks around it", b" \r\n\t{ \"input\" : \"x\" } \n"),
        ("a byte order mark", b"\xEF\xBB\xBF{\"input\":\"x\"}"),
        ("the last of two inputs counts", br#"{"input":5,"input":"x"}"#),
        ("an escaped key", br#"{"\u0069nput":"x"}"#),
        ("deep nesting", nested.as_bytes()),
        ("invalid UTF-8 in another key", b"{\"input\":\"x\",\"\xC3\":1}"),
        ("half a surrogate pair in another key", br#"{"input":"x","\ud83d":1}"#),
    ];
    for (what, body) in rows {
        let answer = service.invoke(body.to_vec()).await;
        assert_eq!(answer.status, StatusCode::OK, "{what}");
        assert_eq!(answer.json()["result"]["messages"][0]["content"], "x", "{what}");
    }
}

/// `text.slice(0, n)` in JavaScript cuts an emoji into halves, and `JSON.stringify` writes the half as an
/// escape.
#[tokio::test]
async fn what_is_no_character_is_replaced() {
    let service = Service::with_invoke(Answers);
    for body in [&br#"{"input":"a\ud83d"}"#[..], b"{\"input\":\"a\xFF\"}"] {
        let answer = service.invoke(body.to_vec()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", body.escape_ascii());
        assert_eq!(answer.json()["result"]["messages"][0]["content"], "a\u{fffd}");
    }
}

/// Bytes, bytes that are nearly JSON, and bytes that are nearly a request.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..2_000),
        r#"[\[\]{}",:0-9eE+\-.a-z\\ ]{0,200}"#.prop_map(String::into_bytes),
        r#"\{"input": ?("[^"]{0,20}"|[0-9]{1,9}|null|\[\]|\{\})[},]{0,2}"#.prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn no_body_is_answered_with_anything_but_200_400_or_413(body in bodies()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let service = Service::configured(Answers, |edge| edge.settings.max_body_bytes = 1_000);
        let (length, answer) = (body.len(), runtime.block_on(service.invoke(body)));
        prop_assert_eq!(answer.status == StatusCode::PAYLOAD_TOO_LARGE, length > 1_000);
        let expected = [StatusCode::OK, StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE];
        prop_assert!(expected.contains(&answer.status), "{}", answer);
    }
}
