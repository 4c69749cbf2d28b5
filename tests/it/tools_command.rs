//! `agent-host tools`, and the folder of compiled tools that every start makes use of.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use acceptance::{Component, Ended, Model, Service};
use serde_json::{Value, json};

#[tokio::test]
async fn the_tools_command_lists_what_would_be_served() {
    let ended = Service::command(&["tools"]).tools(["calculator", "text-stats"]).run().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let first_lines: Vec<_> = ended.stdout.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(first_lines, ["calculate", "", "text_stats"]);
    for component in ["calculator", "text-stats"].map(Component::shipped) {
        assert!(ended.stdout.contains(&component.id()), "{}", ended.stdout);
    }
    assert!(ended.stdout.contains("Works out an arithmetic expression"), "{}", ended.stdout);
    assert!(ended.stdout.contains("read-only=true"), "{}", ended.stdout);
}

#[tokio::test]
async fn the_tools_command_lists_them_as_json() {
    let ended = Service::command(&["tools", "--json"]).tools(["calculator", "text-stats"]).run().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let tools: Value = serde_json::from_str(&ended.stdout).unwrap();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["tool"].clone()).collect();
    assert_eq!(names, ["calculate", "text_stats"]);
    let calculator = &tools[0];
    assert_eq!(calculator["component"], "calculator");
    assert_eq!(calculator["digest"], Component::shipped("calculator").digest());
    assert_eq!(calculator["inputSchema"]["required"], json!(["expression"]));
    assert_eq!(
        calculator["hints"],
        json!([["read-only", "true"], ["idempotent", "true"], ["pure", "true"], ["timeout-ms", "1000"]])
    );
    assert!(calculator["description"].as_str().unwrap().starts_with("Works out"), "{calculator:#}");
}

#[tokio::test]
async fn the_tools_command_says_which_files_cannot_serve_and_exits_with_1() {
    let copy = Component::shipped("calculator").named("abacus");
    let ended = Service::command(&["tools", "--json"])
        .tools(["calculator", "text-stats"])
        .tool(copy)
        .tool(Component::core_module("core"))
        .run()
        .await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let tools: Value = serde_json::from_str(&ended.stdout).unwrap();
    let components: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["component"].clone()).collect();
    assert_eq!(components, ["abacus", "text-stats"], "of two claimants the first by name");
    let of_file = |line: &&str| line.contains("file=\"calculator.wasm\"") && line.contains("error=");
    let line = ended.stderr.lines().find(of_file).unwrap_or_default();
    let names_both = line.contains("offers the tool") && line.contains("so does abacus.wasm");
    assert!(names_both, "{}", ended.stderr);
    assert!(ended.stderr.contains("core.wasm") && ended.stderr.contains("core module"), "{}", ended.stderr);
}

/// `agent-host tools call` with these arguments and the tools that are named.
async fn call(arguments: &[&str], components: &[&str]) -> Ended {
    let arguments = [&["tools", "call"], arguments].concat();
    Service::command(&arguments).tools(components.iter().copied()).run().await
}

#[tokio::test]
async fn a_tool_can_be_called_from_the_command_line_without_a_model() {
    let ended = call(&["calculate", r#"{"expression": "6 * 7"}"#], &["calculator"]).await;
    let answer = (ended.code, ended.stdout.as_str(), ended.stderr.as_str());
    // Nothing but the answer: it can go on to another program.
    assert_eq!(answer, (Some(0), "{\"value\":\"42\",\"exact\":true}\n", ""));
    let ended = call(&["current_time"], &["clock"]).await;
    assert!(ended.code == Some(0) && ended.stdout.contains("UTC"), "arguments may be left out: {ended:?}");
}

#[tokio::test]
async fn a_call_from_the_command_line_says_what_it_cost_when_asked() {
    let ended = call(&["-v", "calculate", r#"{"expression": "6 * 7"}"#], &["calculator"]).await;
    assert_eq!(ended.stdout, "{\"value\":\"42\",\"exact\":true}\n");
    let words: Vec<_> = ended.stderr.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(words, ["outcome", "component", "duration", "instance", "memory"], "{}", ended.stderr);
    assert!(ended.stderr.contains(&Component::shipped("calculator").id()), "{}", ended.stderr);
}

#[tokio::test]
async fn a_call_that_fails_prints_what_the_model_would_read_and_exits_with_1() {
    for (components, arguments, answer, reason) in [
        (&["calculator"][..], &["calculate", r#"{"expression": "1 +"}"#][..], "at character", "failed"),
        (&["calculator"], &["calculate", r#"{"expr": "1"}"#], "invalid arguments", "invalid_arguments"),
    ] {
        let ended = call(arguments, components).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stdout.starts_with("Error: ") && ended.stdout.contains(answer), "{ended:?}");
        assert!(ended.stderr.contains(reason), "{ended:?}");
    }
    let calculator = Component::shipped("calculator");
    let arguments = ["tools", "call", "calculate", r#"{"expression": "6 * 7"}"#];
    let waits = Service::command(&arguments).granting([(&calculator, "approve = \"always\"\n")]).run().await;
    assert!(waits.code == Some(1) && waits.stdout.contains("has to approve this call"), "{waits:?}");
    assert!(waits.stderr.contains("a run would have waited until somebody approves it"), "{waits:?}");
    // What the model is not told stands in the log.
    let panics = Service::command(&["tools", "call", "trap", r#"{"by": "panic"}"#])
        .tool(Component::misbehaving("misbehaving"))
        .run()
        .await;
    assert_eq!((panics.code, panics.stdout.as_str()), (Some(1), "Error: the tool crashed.\n"), "{panics:?}");
    assert!(panics.stderr.contains("panicked at") && panics.stderr.contains("trapped"), "{panics:?}");
}

#[tokio::test]
async fn a_call_that_cannot_be_made_says_what_to_do() {
    let unknown = call(&["greet", "{}"], &["calculator", "text-stats"]).await;
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""), "{unknown:?}");
    assert!(unknown.stderr.contains("no tool `greet`") && unknown.stderr.contains("calculate, text_stats"));
    let garbled = call(&["calculate", "{expression: 1}"], &["calculator"]).await;
    assert_eq!(garbled.code, Some(1), "{garbled:?}");
    assert!(garbled.stderr.contains("no JSON object") && garbled.stderr.contains("column 2"), "{garbled:?}");
    for command in [&["tools"][..], &["tools", "call", "calculate"]] {
        let nowhere = Service::command(command).env("TOOLS_DIR", "no/such/folder").run().await;
        assert_eq!((nowhere.code, nowhere.stdout.as_str()), (Some(1), ""), "{nowhere:?}");
        assert!(nowhere.stderr.contains("no/such/folder does not exist: set TOOLS_DIR"), "{nowhere:?}");
    }
}

#[tokio::test]
async fn with_a_store_of_versions_the_folder_is_not_named_as_what_is_read() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::openai().await);
    // A service makes the tables; its folder had no tools.
    let without_tools = Service::variant_b().model(&model).tools::<Component>([]);
    without_tools.sqlite_in(folder.path()).start().await.stop().await;
    for command in [&["tools"][..], &["tools", "call", "calculate"]] {
        let builder = Service::command(command).tool(Component::shipped("calculator"));
        let ended = builder.sqlite_in(folder.path()).run().await;
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(
            said.contains("by the records of DATABASE_URL, whatever lies in")
                && said.contains("`agent-host tools versions`"),
            "{ended:?}"
        );
    }
}

#[tokio::test]
async fn the_tools_command_needs_no_model_and_no_tools() {
    let ended = Service::command(&["tools"]).run().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stdout.starts_with("no tools are loaded in ") && ended.stdout.ends_with("(TOOLS_DIR)\n"),
        "{ended:?}"
    );
    let ended = Service::command(&["tools", "--json"]).run().await;
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "[]"), "{ended:?}");
}

#[tokio::test]
async fn the_catalog_is_bounded_by_half_the_token_budget() {
    let ended = Service::command(&["tools", "--json"])
        .tools(["calculator", "clock", "json-query", "text-stats"])
        .env("TOKEN_BUDGET_PER_REQUEST", "2400")
        .run()
        .await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let tools: Value = serde_json::from_str(&ended.stdout).unwrap();
    let bytes = |tool: &Value| {
        let text = |key: &str| tool[key].as_str().unwrap().len();
        text("tool") + text("description") + tool["inputSchema"].to_string().len()
    };
    let tokens = tools.as_array().unwrap().iter().map(bytes).sum::<usize>() / 3;
    assert!((1..=688).contains(&tokens), "{tokens} tokens in {tools:#}");
    let refusal = "all tools together may have 688, half of TOKEN_BUDGET_PER_REQUEST less 512 for the question and the last words; the largest are ";
    assert!(ended.stderr.contains(refusal), "{}", ended.stderr);
}

#[tokio::test]
async fn a_compile_cache_that_cannot_be_used_is_said_and_done_without() {
    let home = tempfile::tempdir().unwrap();
    let (file, open) = (home.path().join("file"), home.path().join("open"));
    fs::write(&file, "").unwrap();
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    // Below a file not even root can make a folder.
    for (cache, said) in [(file.join("below"), "TOOLS_CACHE_DIR"), (open.clone(), "others can write it")] {
        let builder = Service::command(&["tools"]).tools(["calculator"]).env("TOOLS_CACHE_DIR", cache);
        let ended = builder.run().await;
        assert!(ended.code == Some(0) && ended.stdout.starts_with("calculate\n"), "{ended:?}");
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
    assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
}
