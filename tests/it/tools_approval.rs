//! `TOOLS_APPROVAL=on`: nothing serves that nobody approved, and one command approves what waits.

use acceptance::{Builder, Component, Ended, Model, Service, Token, asks_for, eventually, says};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A service in production with two tools and approvals, its database in `home`.
fn service(model: &Model, home: &TempDir) -> Builder {
    let builder = Service::variant_b().model(model).sqlite_in(home.path());
    builder.tools(["calculator", "text-stats"]).env("TOOLS_APPROVAL", "on")
}

/// A command of an operator on that database.
async fn operator(home: &TempDir, arguments: &[&str]) -> Ended {
    let mut command = Service::command(arguments).env("TOOLS_APPROVAL", "on").sqlite_in(home.path());
    if arguments.contains(&"doctor") {
        command = command.env("LLM_MODEL", "openai/none").env("LLM_API_KEY", "sk-1").env("PORT", "0");
    }
    command.tools(["calculator", "text-stats"]).run().await
}

#[tokio::test]
async fn on_a_first_start_the_tools_wait_and_one_command_approves_all_of_them() {
    let (model, home) = (Model::openai().await, tempfile::tempdir().unwrap());
    let ops = Token::of("ops").admin().premium();
    let service = service(&model, &home).start().await;
    let (first, second) = (Component::shipped("calculator"), Component::shipped("text-stats"));
    let both = format!("{},{}", first.id(), second.id());
    let waits = |line: &Value| {
        let command =
            line["message"].as_str().filter(|text| text.contains("`agent-host tools approve --all`"));
        command.is_some() && line["versions"] == both
    };
    service.log().entry("what waits and the command that approves it", waits).await;
    let ops = service.user(ops);
    for name in ["calculator", "text-stats"] {
        assert_eq!(ops.get(&format!("/admin/tools/{name}")).await.json()["status"], "waiting");
    }
    let report: Value =
        serde_json::from_str(&operator(&home, &["doctor", "--json", "--without-model"]).await.stdout)
            .unwrap();
    let approvals = report["checks"].as_array().unwrap().iter().find(|found| found["check"] == "approvals");
    let approvals = approvals.unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(approvals["state"], "warning");
    assert!(approvals["found"].as_str().unwrap().contains(&first.id()), "{approvals}");
    assert!(approvals["todo"].as_str().unwrap().contains("agent-host tools approve --all"), "{approvals}");

    let approved = operator(&home, &["tools", "approve", "--all"]).await;
    assert_eq!(approved.code, Some(0), "{approved:?}");
    for component in [&first, &second] {
        assert!(approved.stdout.contains(&component.digest()), "{approved:?}");
    }
    assert!(approved.stdout.contains("calculate"), "{approved:?}");
    let serves = async || {
        let found = ops.get("/admin/tools/calculator").await.json();
        (found["status"] == "serving").then_some(())
    };
    eventually("the calculator to serve", serves).await;
    model.plays(asks_for("calculate", json!({ "expression": "6 * 7" })));
    model.plays(says("42"));
    let result = service.user(Token::of("u1")).result_of("How much is it?").await;
    assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{result}");

    // Nothing is left, and a name and --all are one or the other.
    let again = operator(&home, &["tools", "approve", "--all"]).await;
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "no version waits for an approval\n"));
    let both = operator(&home, &["tools", "approve", "calculator", "--all"]).await;
    assert_eq!(both.code, Some(2), "{both:?}");
    service.stop().await;
}

#[tokio::test]
async fn commands_in_production_list_no_tool_that_nobody_approved() {
    let list = async |environment: &str| {
        Service::command(&["tools"]).env("NODE_ENV", environment).tools(["calculator"]).run().await
    };
    let (production, development) = (list("production").await, list("development").await);
    assert!(production.code == Some(1) && production.stderr.contains("waits for approval"), "{production:?}");
    assert!(development.code == Some(0) && development.stdout.contains("calculate"), "{development:?}");
}
