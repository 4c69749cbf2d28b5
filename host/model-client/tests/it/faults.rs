//! What goes wrong between us and an honest provider, and the error it becomes.

use std::time::{Duration, Instant};

use agent_core::ports::{Model, ModelError, ModelRequest};
use model_client::{HttpModel, ProviderSettings, connect};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};
use url::Url;

use crate::call::{ask, both, model, openai, request, retrying, scripted, settings};
use crate::provider::{Answer, ScriptedProvider};

const HEAD: &str = "HTTP/1.1 200 OK\r\n";

/// The error after one exchange, in words.
async fn fault(answer: Answer) -> ModelError {
    let provider = ScriptedProvider::start(openai(), [answer]).await;
    ask(&model(openai(), &provider)).await.unwrap_err()
}

fn hurried(provider: &ScriptedProvider) -> HttpModel {
    let timeout = Duration::from_millis(50);
    connect(ProviderSettings { timeout, ..settings(openai(), provider.url()) }).unwrap()
}

#[tokio::test]
async fn nobody_listening_is_unreachable_and_says_why() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let base = Url::parse(&format!("http://{address}")).unwrap();
    let error = ask(&connect(settings(openai(), base)).unwrap()).await.unwrap_err();
    let ModelError::Unreachable { detail, .. } = error else { panic!("{error}") };
    assert!(detail.starts_with(&address.to_string()), "{detail}");
    assert!(detail.contains("refused"), "{detail}");
}

/// A listener whose queue of connections is full: the system answers no further one with as much as a
/// refusal.
fn full_listener() -> (std::net::SocketAddr, impl Sized) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    let waiting: Vec<_> = std::iter::from_fn(connect).take(100).collect();
    assert!(waiting.len() < 100, "the system takes connections beyond the queue's length");
    (address, (listener, waiting))
}

/// Interface of this crate: connecting takes at most 3 s, so that another try may get a better address.
#[tokio::test]
async fn connecting_ends_after_three_seconds_and_says_so() {
    let (address, _queue) = full_listener();
    let base = Url::parse(&format!("http://{address}")).unwrap();
    let start = Instant::now();
    let error = ask(&connect(settings(openai(), base)).unwrap()).await.unwrap_err();
    let took = start.elapsed();
    let ModelError::Unreachable { detail, .. } = error else { panic!("{error}") };
    assert_eq!(detail, format!("{address}: no connection within 3000 ms"));
    assert!((3..8).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test]
async fn a_call_takes_no_longer_than_its_timeout() {
    let half = format!("{HEAD}content-length: 100\r\n\r\n{{\"choices\"");
    for answer in [Answer::Stalled(String::new()), Answer::Stalled(HEAD.into()), Answer::Stalled(half)] {
        let provider = ScriptedProvider::start(openai(), [answer]).await;
        let error = ask(&hurried(&provider)).await.unwrap_err();
        assert_eq!(error, ModelError::Timeout { provider: "openai/test-model".into() });
    }
}

#[tokio::test]
async fn a_call_takes_no_longer_than_its_request_has_time() {
    let (provider, model) = scripted(openai(), [Answer::Stalled(String::new())]).await;
    for left in [50, 0] {
        let deadline = Instant::now() + Duration::from_millis(left);
        let error = model.complete(ModelRequest { deadline, ..request() }).await.unwrap_err();
        assert!(matches!(error, ModelError::Timeout { .. }), "{error}");
    }
    // The second one had no time left and was not even sent.
    assert_eq!(provider.requests().len(), 1);
}

#[tokio::test]
async fn a_connection_that_breaks_is_unreachable() {
    for answer in [
        Answer::HangUp,
        Answer::Raw("HTTP/1.1 200".into()),
        Answer::Raw(format!("{HEAD}content-length: 100\r\n\r\n{{\"choices\":")),
        Answer::Raw(format!("{HEAD}transfer-encoding: chunked\r\n\r\n5\r\n{{\"cho\r\n")),
        Answer::Raw(format!("{HEAD}\r\n{{\"choices\": [")),
        Answer::Raw(format!("{HEAD}\r\n")),
        Answer::Raw("SSH-2.0-OpenSSH_9.9\r\n".into()),
    ] {
        let error = fault(answer.clone()).await;
        assert!(matches!(error, ModelError::Unreachable { .. }), "{answer:?}: {error}");
    }
}

#[tokio::test]
async fn what_is_no_reply_is_malformed_and_not_asked_for_again() {
    for protocol in both() {
        for body in ["<html><body>Welcome</body></html>", "[]", "null", r#"{"choices":7,"content":7}"#] {
            let provider = ScriptedProvider::start(protocol, [Answer::text(200, body)]).await;
            let error = ask(&retrying(protocol, &provider)).await.unwrap_err();
            assert!(matches!(error, ModelError::Malformed { .. }), "{body}: {error}");
        }
    }
}

#[tokio::test]
async fn half_a_reply_none_and_an_error_in_its_place_are_asked_for_again() {
    for protocol in both() {
        for body in [
            "",
            " \n",
            "{}",
            "{\"choices\":[{\"message\":{\"cont",
            "{\"content\":[{\"type\":\"te",
            r#"{"choices":[],"content":null}"#,
            r#"{"error":"overloaded"}"#,
            r#"{"error":{"message":"model is loading"},"choices":null}"#,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        ] {
            let script = [Answer::text(200, body), Answer::reply(protocol, "3")];
            let provider = ScriptedProvider::start(protocol, script).await;
            let reply = ask(&retrying(protocol, &provider)).await;
            assert_eq!(reply.map(|reply| reply.content), Ok("3".to_owned()), "{body}");
        }
        // An error that will not pass is told as what it is.
        let body = r#"{"error":{"message":"no such key","type":"authentication_error"}}"#;
        let provider = ScriptedProvider::start(protocol, [Answer::text(200, body)]).await;
        let error = ask(&retrying(protocol, &provider)).await.unwrap_err();
        assert!(matches!(error, ModelError::Refused { .. }), "{error}");
    }
    // Whole by its own count, so that no connection can be to blame.
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\n{\"choices\":\r\n0\r\n\r\n";
    let error = fault(Answer::Raw(chunked.into())).await;
    assert!(matches!(error, ModelError::Unavailable { .. }), "{error}");
    let error = fault(Answer::text(200, "")).await;
    insta::assert_snapshot!(error, @"the model provider openai/test-model is unavailable: 200 OK without a reply: it is empty");
    let error = fault(Answer::text(200, r#"{"choices":[]}"#)).await;
    insta::assert_snapshot!(error, @"the model provider openai/test-model is unavailable: 200 OK without a reply: it names no choice");
    let error = fault(Answer::text(200, r#"{"error":{"message":"model is loading"}}"#)).await;
    insta::assert_snapshot!(error, @"the model provider openai/test-model is unavailable: 200 OK without a reply: it is an error: model is loading");
}

/// A call whose own time ends when the run's does leaves it to the run to say so.
#[tokio::test]
async fn a_call_has_all_the_time_of_a_run_that_ends_with_it() {
    let provider = ScriptedProvider::start(openai(), [Answer::Stalled(String::new())]).await;
    let timeout = Duration::from_millis(100);
    let model = connect(ProviderSettings { timeout, ..settings(openai(), provider.url()) }).unwrap();
    let deadline = Instant::now() + Duration::from_millis(200);
    let error = model.complete(ModelRequest { deadline, ..request() }).await.unwrap_err();
    assert!(matches!(error, ModelError::Timeout { .. }) && Instant::now() >= deadline, "{error}");
}

#[tokio::test]
async fn a_status_is_an_error_with_the_providers_words_and_wish() {
    let error = fault(Answer::error(503, "overloaded").with("retry-after", "1")).await;
    let ModelError::Unavailable { detail, retry_after, .. } = error else { panic!("{error}") };
    assert_eq!(retry_after, Some(Duration::from_secs(1)));
    insta::assert_snapshot!(detail, @"503 Service Unavailable: overloaded");

    let error = fault(Answer::error(429, "slow down").with("retry-after", "7")).await;
    let ModelError::RateLimited { detail, retry_after, .. } = error else { panic!("{error}") };
    assert_eq!(retry_after, Some(Duration::from_secs(7)));
    insta::assert_snapshot!(detail, @"429 Too Many Requests: slow down");

    let error = fault(Answer::error(404, "no such model").with("x-request-id", "req_9")).await;
    insta::assert_snapshot!(error, @"the model provider openai/test-model refused the request: 404 Not Found: no such model (provider's request id req_9)");
}

#[tokio::test]
async fn a_status_counts_even_when_its_text_does_not_arrive() {
    let head = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 100\r\n\r\nbad k";
    let error = fault(Answer::Raw(head.into())).await;
    insta::assert_snapshot!(error, @"the model provider openai/test-model refused the request: 401 Unauthorized: bad k");
    let provider = ScriptedProvider::start(openai(), [Answer::Stalled(head.into())]).await;
    let error = ask(&hurried(&provider)).await.unwrap_err();
    assert!(matches!(error, ModelError::Refused { .. }), "{error}");
}

#[tokio::test]
async fn a_gateways_error_inside_a_200_is_that_error() {
    let limited = fault(Answer::text(200, r#"{"error":{"message":"busy","code":429}}"#)).await;
    assert!(matches!(limited, ModelError::RateLimited { .. }), "{limited}");
    let down = fault(Answer::text(200, r#"{"error":{"message":"down","code":502},"choices":null}"#)).await;
    assert!(matches!(down, ModelError::Unavailable { .. }), "{down}");
}

#[tokio::test]
async fn a_quota_that_is_used_up_is_a_limit_that_is_tried_once() {
    for protocol in both() {
        for error in [
            json!({"message": "You exceeded your quota", "type": "insufficient_quota"}),
            json!({"message": "You exceeded your quota", "type": "requests", "code": "insufficient_quota"}),
        ] {
            let answer = Answer::text(429, &json!({ "error": error }).to_string());
            let provider = ScriptedProvider::start(protocol, [answer.with("retry-after", "0")]).await;
            let error = ask(&retrying(protocol, &provider)).await.unwrap_err();
            assert!(matches!(error, ModelError::RateLimited { .. }), "{error}");
        }
    }
}
