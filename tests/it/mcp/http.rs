//! `/mcp`, for clients with tokens.

use acceptance::{Component, Model, Service, Token, eventually};

use super::clients::{Client, Sdk, components, over_http};

async fn service() -> Service {
    Service::variant_b().model(&Model::openai().await).tools(components()).start().await
}

fn url(service: &Service) -> String {
    format!("http://{}/mcp", service.address())
}

#[tokio::test]
async fn official_clients_list_call_cancel_and_hear_of_swaps_over_http() {
    let service = service().await;
    let swaps = Component::shipped("text-stats");
    let mut clients = vec![];
    for (sdk, mode, version) in [
        (Sdk::Python, "auto", "2026-07-28"),
        (Sdk::Python, "legacy", "2025-11-25"),
        (Sdk::TypeScript, "", "2025-11-25"),
    ] {
        let token = Token::of(format!("{sdk:?} {mode}")).premium();
        let client = Client::start(sdk, over_http(&url(&service), Some(&token)), mode);
        assert_eq!(client.step("version").await, version, "{sdk:?} {mode}");
        client.finds_the_tools().await;
        clients.push(client);
    }
    // Nobody's tool runs on.
    let cancelled = [("tool", "loop_until_cancelled"), ("outcome", "cancelled")];
    eventually("the calls to be cancelled", async || {
        let calls = service.metrics().await.value("agent_tool_calls_total", &cancelled);
        (calls == Some(3.0)).then_some(())
    })
    .await;
    service.put(&swaps);
    for mut client in clients {
        client.finds_the_swap("text_stats").await;
    }
    let entry = |entry: &serde_json::Value| entry["user_id"] == "Python auto" && entry["tool"] == "calculate";
    let line = service.log().entry("the line of a call", entry).await;
    assert_eq!(line["component"], Component::shipped("calculator").id());
    let log = service.log().to_string();
    assert!(!log.contains("6 * 7") && !log.contains("rmcp"), "{log}");
}

#[tokio::test]
async fn a_client_without_a_good_token_is_refused_and_variant_a_has_no_tools_for_it() {
    let service = service().await;
    let forged = Token::of("eve").signed_with("another secret");
    for (sdk, token) in [(Sdk::Python, None), (Sdk::TypeScript, None), (Sdk::Python, Some(&forged))] {
        let client = Client::start(sdk, over_http(&url(&service), token), "legacy");
        client.step("refused").await;
    }
    let refused = [("route", "/mcp"), ("method", "POST"), ("status", "401")];
    let count = service.metrics().await.value("agent_http_requests_total", &refused);
    assert_eq!(count, Some(3.0), "each client was refused once, and gave up");
    let of_a = Service::variant_a().model(&Model::openai().await).start().await;
    assert_eq!(of_a.post("/mcp", "{}").await.status, 404);
}
