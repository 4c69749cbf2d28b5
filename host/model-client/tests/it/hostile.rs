//! A provider that means harm: too much, elsewhere, and our key in its answers.

use agent_core::ports::ModelError;

use crate::call::{ask, both, model, openai, retrying, scripted};
use crate::provider::{Answer, KEY, ScriptedProvider};

#[tokio::test]
async fn a_reply_without_end_is_given_up() {
    let promised = "HTTP/1.1 200 OK\r\ncontent-length: 1099511627776\r\n\r\n{";
    for answer in [Answer::Stalled(promised.into()), Answer::Endless] {
        let provider = ScriptedProvider::start(openai(), [answer]).await;
        let error = ask(&retrying(openai(), &provider)).await.unwrap_err();
        assert!(matches!(error, ModelError::Malformed { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_redirect_is_refused_and_the_conversation_stays_here() {
    for protocol in both() {
        for status in [301, 302, 307, 308] {
            let elsewhere = ScriptedProvider::start(protocol, []).await;
            let redirect = Answer::status(status).with("location", elsewhere.url().as_str());
            let provider = ScriptedProvider::start(protocol, [redirect]).await;
            let error = ask(&retrying(protocol, &provider)).await.unwrap_err();
            assert!(matches!(error, ModelError::Refused { .. }), "{status}: {error}");
            assert_eq!(elsewhere.connections(), 0, "{status}");
        }
    }
}

#[tokio::test]
async fn the_key_is_in_no_error() {
    let long = format!("{}{KEY}", "x".repeat(290));
    for protocol in both() {
        for answer in [
            Answer::error(401, &format!("Incorrect API key provided: {KEY}.")),
            Answer::error(400, &long),
            Answer::text(500, &format!("plain {KEY}")),
            Answer::text(403, &format!("<html>{KEY}</html>")),
            Answer::error(429, KEY).with("request-id", KEY),
            Answer::text(200, &format!(r#"{{"error":"{KEY}"}}"#)),
            Answer::text(200, &format!(r#"{{"choices":"{KEY}","content":"{KEY}"}}"#)),
        ] {
            let (_provider, model) = scripted(protocol, [answer.clone()]).await;
            let error = ask(&model).await.unwrap_err();
            for printed in [error.to_string(), format!("{error:?}"), format!("{model:?}")] {
                assert!(!printed.contains("sk-a-very"), "{answer:?}: {printed}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_is_one_short_line_whatever_the_provider_writes() {
    let page = format!("first\nsecond\r\n\u{1b}[31mred\0 {}", "long ".repeat(10_000));
    for answer in [Answer::text(400, &page), Answer::error(400, &page)] {
        let provider = ScriptedProvider::start(openai(), [answer]).await;
        let error = ask(&model(openai(), &provider)).await.unwrap_err().to_string();
        assert!(error.len() < 500 && !error.chars().any(char::is_control), "{error}");
    }
}
