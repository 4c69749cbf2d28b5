//! A first start in which nothing is wrong: no line of the log says otherwise.

use std::fs;

use acceptance::{Builder, Model, Postgres, Service, Token, eventually};
use serde_json::Value;

/// An MCP server of two lines of JSON.
const SERVER: &str = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
  case "$line" in
    *'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"0"}}';;
    *'"tools/list"'*) answer '{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}';;
  esac
done
"#;

/// Starts it with two components and an MCP server, all of which wait for an approval, until each of them
/// does.
async fn starts_without_an_error(builder: Builder) {
    let home = tempfile::tempdir().unwrap();
    let (script, policy) = (home.path().join("server.sh"), home.path().join("policy.toml"));
    fs::write(&script, SERVER).unwrap();
    let command = format!("command = \"/bin/sh\"\nargs = [{script:?}]\nallow = [\"a\"]\n");
    fs::write(&policy, format!("[[mcp]]\nname = \"docs\"\n{command}")).unwrap();
    let builder = builder.tools(["calculator", "text-stats"]).env("TOOLS_APPROVAL", "on");
    let service = builder.env("TOOLS_POLICY", &policy).start().await;
    let ops = service.user(Token::of("ops").admin().premium());
    for name in ["calculator", "text-stats", "docs"] {
        eventually(name, async || {
            let found = ops.get(&format!("/admin/tools/{name}")).await;
            (found.status == 200 && found.json()["status"] == "waiting").then_some(())
        })
        .await;
    }
    service.ready().await;
    let is_error = |entry: &Value| entry["level"] == "ERROR";
    let errors: Vec<_> = service.log().entries().into_iter().filter(is_error).collect();
    assert_eq!(errors, Vec::<Value>::new());
    service.stop().await;
}

#[tokio::test]
async fn on_sqlite_a_first_start_with_everything_to_approve_logs_no_error() {
    let model = Model::openai().await;
    starts_without_an_error(Service::variant_b().model(&model)).await;
}

#[tokio::test]
async fn on_postgres_a_first_start_with_everything_to_approve_logs_no_error() {
    let (model, postgres) = (Model::openai().await, Postgres::start().await);
    starts_without_an_error(Service::variant_b().model(&model).postgres(&postgres)).await;
}
