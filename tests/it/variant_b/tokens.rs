//! Tokens and the secret that signs them stay out of the log. Who is let in is tested in `host/http-edge`
//! and, beside Node, in `node_peer/tokens.rs`.

use acceptance::{SECRET, Service, Token};

#[tokio::test]
async fn no_log_shows_a_token_or_the_secret() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").env("LOG_LEVEL", "debug").start().await;
    let (good, bad) = (Token::of("u").to_string(), Token::of("u").signed_with("another").to_string());
    assert_eq!(service.user(good.as_str()).jobs("").await.status, 200);
    assert_eq!(service.user(bad.as_str()).jobs("").await.status, 403);
    service.log().entry("the line of the request", |entry| entry["status"] == 403).await;
    let log = service.log().to_string();
    for secret in [SECRET, &good, &bad, good.split('.').next_back().expect("a signature")] {
        assert!(!log.contains(secret), "{log}");
    }
}
