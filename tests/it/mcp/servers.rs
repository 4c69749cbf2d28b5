//! Servers of the official Python SDK whose tools the service serves, over HTTP and as a child process.

use std::fs;

use acceptance::{Model, Process, Service, eventually, order, repository};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::clients::python;

#[tokio::test]
async fn tools_of_the_official_sdks_servers_are_called_like_any_other() {
    let program = repository().join("tests/mcp/server.py");
    let over_http = Process::spawn(Command::new(python()).arg(&program).arg("http").kill_on_drop(true));
    let port = |line: &str| serde_json::from_str::<Value>(line).ok()?["port"].as_u64();
    let port = over_http.log().find("the server's port", port).await;
    let address = format!("127.0.0.1:{port}");
    eventually("the server to listen", async || TcpStream::connect(&address).await.ok()).await;

    let model = Model::openai().await;
    model.obeys();
    let builder = Service::variant_a().model(&model).tool("calculator");
    let policy = builder.policy_file();
    let (python, program) = (python(), program.display().to_string());
    let lines = format!(
        "[[mcp]]\nname = \"web\"\nurl = \"http://127.0.0.1:{port}/mcp\"\nplain-http = true\nprivate = true\n\
         allow = [\"addNumbers\", \"fail\"]\n\
         [[mcp]]\nname = \"local\"\ncommand = {:?}\nargs = [{program:?}, \"stdio\"]\nenv = {{ LANG = \"C.UTF-8\" }}\n\
         allow = [\"addNumbers\", \"environment\"]\nlimits = {{ timeout-ms = 30000 }}\n",
        python.display().to_string(),
    );
    fs::write(&policy, lines).unwrap();
    let service = builder.env("TOOLS_POLICY", policy).start().await;

    for server in ["web", "local"] {
        let text = order(&format!("{server}_add_numbers"), &json!({ "a": 40, "b": 2 }));
        let result = service.result_of(&text).await;
        assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{result:#}");
        assert!(result["output"].as_str().unwrap().contains("42"), "{result:#}");
        let component = result["toolCalls"][0]["component"].as_str().unwrap();
        assert!(component.starts_with(&format!("{server}@sha256:")), "{result:#}");
    }
    let calls = model.calls();
    let expected = ["calculate", "local_add_numbers", "local_environment", "web_add_numbers", "web_fail"];
    assert_eq!(calls[0].tools(), expected);

    let failed = service.result_of(&order("web_fail", &json!({ "reason": "no such page" }))).await;
    assert_eq!(failed["toolCalls"][0]["outcome"], "failed", "{failed:#}");
    assert!(failed["output"].as_str().unwrap().contains("no such page"), "{failed:#}");
    let variables = service.result_of(&order("local_environment", &json!({}))).await;
    let output = variables["output"].as_str().unwrap();
    assert!(
        output.contains("LANG") && !output.contains("LLM_API_KEY") && !output.contains("PATH"),
        "{output}"
    );
    let called = [("tool", "web_fail"), ("outcome", "failed")];
    assert_eq!(service.metrics().await.value("agent_tool_calls_total", &called), Some(1.0));
}
