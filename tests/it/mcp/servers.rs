//! Servers of the official SDKs, Python's and TypeScript's, whose tools the service serves, over HTTP and as
//! child processes.

use std::fs;
use std::path::{Path, PathBuf};

use acceptance::{Model, Process, Service, eventually, order, repository};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::clients::python;

/// A program of tests/mcp/ and what runs it; its servers' names over HTTP and as a child process.
struct Sdk {
    runtime: PathBuf,
    program: &'static str,
    web: &'static str,
    local: &'static str,
    /// What is allowed of either: the items of a list.
    of_web: &'static str,
    of_local: &'static str,
}

fn sdks() -> [Sdk; 2] {
    let node = std::process::Command::new("node").args(["-p", "process.execPath"]).output().unwrap();
    let node = String::from_utf8(node.stdout).unwrap().trim().into();
    [
        Sdk {
            runtime: python(),
            program: "server.py",
            web: "web",
            local: "local",
            of_web: r#""addNumbers", "fail""#,
            of_local: r#""addNumbers", "environment""#,
        },
        Sdk {
            runtime: node,
            program: "server.mjs",
            web: "nodeweb",
            local: "nodelocal",
            of_web: r#""addNumbers", "count", "fail""#,
            of_local: r#""addNumbers", "count""#,
        },
    ]
}

impl Sdk {
    /// Starts its server over HTTP, and says what the policy has for both.
    async fn serve(&self) -> (Process, String) {
        let program = repository().join("tests/mcp").join(self.program);
        let mut over_http = Command::new(&self.runtime);
        let over_http = Process::spawn(over_http.arg(&program).arg("http").kill_on_drop(true));
        let port = |line: &str| serde_json::from_str::<Value>(line).ok()?["port"].as_u64();
        let port = over_http.log().find("the server's port", port).await;
        let address = format!("127.0.0.1:{port}");
        eventually("the server to listen", async || TcpStream::connect(&address).await.ok()).await;
        let text = |path: &Path| path.display().to_string();
        let (Self { web, local, of_web, of_local, .. }, runtime) = (self, text(&self.runtime));
        let lines = format!(
            "[[mcp]]\nname = \"{web}\"\nurl = \"http://{address}/mcp\"\nplain-http = true\nprivate = true\n\
             allow = [{of_web}]\n\
             [[mcp]]\nname = \"{local}\"\ncommand = {runtime:?}\nargs = [{:?}, \"stdio\"]\nenv = {{ LANG = \"C.UTF-8\" }}\n\
             allow = [{of_local}]\nlimits = {{ timeout-ms = 30000 }}\n",
            text(&program),
        );
        (over_http, lines)
    }
}

#[tokio::test]
async fn tools_of_the_official_sdks_servers_are_called_like_any_other() {
    let [(_python, of_python), (_node, of_node)] = {
        let [python, node] = sdks();
        [python.serve().await, node.serve().await]
    };
    let model = Model::obeying().await;
    let builder = Service::variant_a().model(&model).tool("calculator");
    let policy = builder.policy_file();
    fs::write(&policy, of_python + &of_node).unwrap();
    let service = builder.env("TOOLS_POLICY", policy).start().await;

    for server in ["web", "local", "nodeweb", "nodelocal"] {
        let text = order(&format!("{server}_add_numbers"), &json!({ "a": 40, "b": 2 }));
        let result = service.result_of(&text).await;
        assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{result:#}");
        assert!(result["output"].as_str().unwrap().contains("42"), "{result:#}");
        let component = result["toolCalls"][0]["component"].as_str().unwrap();
        assert!(component.starts_with(&format!("{server}@sha256:")), "{result:#}");
    }
    let calls = model.calls();
    let expected = [
        "calculate",
        "local_add_numbers",
        "local_environment",
        "nodelocal_add_numbers",
        "nodelocal_count",
        "nodeweb_add_numbers",
        "nodeweb_count",
        "nodeweb_fail",
        "web_add_numbers",
        "web_fail",
    ];
    assert_eq!(calls[0].tools(), expected);

    for tool in ["web_fail", "nodeweb_fail"] {
        let failed = service.result_of(&order(tool, &json!({ "reason": "no such page" }))).await;
        assert_eq!(failed["toolCalls"][0]["outcome"], "failed", "{failed:#}");
        assert!(failed["output"].as_str().unwrap().contains("no such page"), "{failed:#}");
        let called = [("tool", tool), ("outcome", "failed")];
        assert_eq!(service.metrics().await.value("agent_tool_calls_total", &called), Some(1.0));
    }
    let variables = service.result_of(&order("local_environment", &json!({}))).await;
    let output = variables["output"].as_str().unwrap();
    assert!(
        output.contains("LANG") && !output.contains("LLM_API_KEY") && !output.contains("PATH"),
        "{output}"
    );

    // Whoever watches a run reads what a server says of a call while it goes on, as far as the pace of
    // reports and the reader's own allow.
    for tool in ["nodeweb_count", "nodelocal_count"] {
        let events = eventually("a report that was read before its call returned", async || {
            let events = service.invoke_streamed(&order(tool, &json!({ "to": 3 }))).await.rest().await;
            events.iter().any(|event| event.name == "tool.progress").then_some(events)
        });
        let events = events.await;
        let report = events.iter().find(|event| event.name == "tool.progress").unwrap();
        let reached = (1..=3).find(|at| report.data["message"] == format!("at {at}\\u{{1b}}[31m"));
        let reached = f64::from(reached.unwrap_or_else(|| panic!("{events:?}")));
        assert_eq!((&report.data["name"], &report.data["fraction"]), (&json!(tool), &json!(reached / 3.0)));
        let result = &events.last().unwrap().data["result"];
        assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{events:?}");
    }
}
