//! The inspector's command line, as host/docs/api/mcp.md shows it.

use acceptance::{Model, Service, Token, repository};
use serde_json::Value;
use tokio::process::Command;

#[tokio::test]
async fn the_inspector_lists_the_tools_and_calls_one() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).tools(["calculator", "text-stats"]).start().await;
    let (url, token) = (format!("http://{}/mcp", service.address()), Token::of("ada").premium());
    let inspect = async |arguments: &[&str]| -> Value {
        let folder = repository().join("tests/mcp");
        let output = Command::new("node")
            .arg(folder.join("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"))
            .args(["--cli", &url, "--transport", "http"])
            .args(["--header", &format!("Authorization: Bearer {token}")])
            .args(arguments)
            .current_dir(&folder)
            .env("HOME", service.tools_folder())
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
    };
    let listed = inspect(&["--method", "tools/list"]).await;
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["calculate", "text_stats"]);
    let called = ["--method", "tools/call", "--tool-name", "calculate", "--tool-arg", "expression=6 * 7"];
    let called = inspect(&called).await;
    assert!(called["content"][0]["text"].as_str().unwrap().contains("42"), "{called:#}");
}
