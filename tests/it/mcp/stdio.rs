//! `agent-host mcp`, started by its client.

use acceptance::{Component, Service, Startable};

use super::clients::{Client, Sdk, components, over_stdio};

fn server(arguments: &[&str]) -> Startable {
    Service::command(arguments).tools(components()).for_others()
}

#[tokio::test]
async fn official_clients_start_it_list_call_cancel_and_hear_of_swaps() {
    for (sdk, mode, version) in [
        (Sdk::Python, "auto", "2026-07-28"),
        (Sdk::Python, "legacy", "2025-11-25"),
        (Sdk::TypeScript, "", "stdio"),
    ] {
        let server = server(&["mcp", "--user", "ada"]);
        let mut client = Client::start(sdk, over_stdio(&server), mode);
        assert_eq!(client.step("version").await, version, "{sdk:?} {mode}");
        client.finds_the_tools().await;
        client.says(&["outcome=\"cancelled\"", "user_id=\"ada\""]).await;
        server.put(&Component::shipped("text-stats"));
        client.finds_the_swap("text_stats").await;
    }
}

#[tokio::test]
async fn it_ends_with_its_input_and_prints_nothing_but_messages() {
    let server = Service::command(&["mcp"])
        .granting([(&Component::shipped("calculator"), "tiers = [\"premium\"]")])
        .tool("text-stats")
        .for_others();
    let ended = server.run_with("").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:?}");
    let lines = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\
                 \"capabilities\":{},\"clientInfo\":{\"name\":\"test\",\"version\":\"0\"}}}\n\
                 {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n\
                 no message\n\
                 {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n";
    let ended = server.run_with(lines).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let messages: Vec<serde_json::Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(messages.len(), 2, "{messages:#?}");
    assert_eq!(messages[0]["result"]["protocolVersion"], "2025-06-18");
    let names: Vec<_> =
        messages[1]["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["text_stats"], "nobody is premium");
}
