//! One process serves either variant or both; what is not served does not exist.

use std::sync::Arc;

use agent_core::testing::EchoTools;
use http::StatusCode;
use http_edge::VariantA;

use crate::harness::{Answers, Fakes, Service};

const OF_A: [(&str, &str); 3] =
    [("POST", "/agent/invoke"), ("GET", "/health/live"), ("GET", "/health/ready")];
const OF_B: [(&str, &str); 5] = [
    ("GET", "/health"),
    ("GET", "/ready"),
    ("POST", "/api/agent"),
    ("POST", "/api/agent/async"),
    ("POST", "/api/gateway"),
];

#[tokio::test]
async fn variant_a_alone_knows_nothing_under_api_and_counts_nobody() {
    let service = Service::with_invoke(Answers);
    for (method, path) in OF_B {
        let answer = service.ask(method, path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
        assert_eq!(answer.header("ratelimit-limit"), None, "{method} {path}");
    }
}

#[tokio::test]
async fn variant_b_alone_knows_nothing_of_variant_a() {
    let fakes = Fakes::with_invoke(Answers);
    for (method, path) in OF_A {
        assert_eq!(fakes.ask(method, path, "").await.status, StatusCode::NOT_FOUND, "{method} {path}");
    }
}

#[tokio::test]
async fn both_share_the_metrics_and_nothing_else() {
    let fakes = Fakes::configured(Answers, |edge| {
        let toolbox = Arc::new(EchoTools::new(&[]));
        edge.a = Some(VariantA { invoke: Arc::new(Answers), streams: None, toolbox, probes: vec![] });
    });
    for (method, path) in OF_A.into_iter().chain(OF_B) {
        assert_ne!(fakes.ask(method, path, "").await.status, StatusCode::NOT_FOUND, "{method} {path}");
    }
    assert_eq!(fakes.service.get("/metrics").await.body, "up 1\n");
    let answer = fakes.service.invoke(r#"{"input":"hi"}"#).await;
    assert_eq!((answer.status, answer.header("ratelimit-limit")), (StatusCode::OK, None));
}

#[tokio::test]
async fn a_wrong_method_is_a_405_that_names_the_right_ones() {
    let fakes = Fakes::with_invoke(Answers);
    for (path, allow) in [
        ("/api/agent", "POST"),
        ("/api/agent/cache", "DELETE"),
        ("/api/agent/jobs/1", "GET,HEAD"),
        ("/health", "GET,HEAD"),
    ] {
        let answer = fakes.service.ask("PATCH", path).await;
        assert_eq!(
            (answer.status, answer.header("allow")),
            (StatusCode::METHOD_NOT_ALLOWED, Some(allow)),
            "{path}"
        );
        assert_eq!(answer.body, r#"{"error":"Method not allowed"}"#, "{path}");
    }
}
