//! `agent-tool dev`, beside a service that runs.

use std::fs;
use std::time::Instant;

use acceptance::{Model, Process, Service, eventually, order};
use serde_json::json;

use super::{Desk, run};

#[tokio::test]
async fn an_edit_is_served_without_a_restart_and_a_failed_build_changes_nothing() {
    let model = Model::obeying().await;
    let service = Service::variant_a().model(&model).start().await;
    let ask = async || {
        let result = service.result_of(&order("my_greeter", &json!({ "name": "Ada" }))).await;
        result["output"].as_str().unwrap_or_default().to_owned()
    };
    let desk = Desk::new();
    // A folder for `--out`.
    let out = desk.path().join("built/");
    let source = desk.new_project("my-greeter", "rust", "greeting").join("src/lib.rs");
    // The first build compiles what the SDK is made of, which takes longer than a line of a log is waited
    // for.
    let built = run(&mut desk.command(&["build", "my-greeter", "--out", out.to_str().unwrap()]));
    assert!(built.succeeded && out.join("my-greeter.wasm").is_file(), "{built:?}");
    let tools = service.tools_folder();
    let command = desk.command(&["dev", "my-greeter", tools.to_str().unwrap()]);
    let dev = Process::spawn(&mut tokio::process::Command::from(command));
    dev.log().line_with(&["swapped", "my-greeter.wasm", "sha256:"]).await;
    eventually("the first version", async || ask().await.contains("Hello, Ada!").then_some(())).await;

    let good = fs::read_to_string(&source).unwrap();
    let edited = Instant::now();
    fs::write(&source, good.replace("Hello, {name}!", "Welcome, {name}!")).unwrap();
    eventually("the second version", async || ask().await.contains("Welcome, Ada!").then_some(())).await;
    let took = edited.elapsed().as_secs_f64();
    // How long the toolchain took and how long all else did.
    dev.log().line_with(&["swapped", "s after the edit (cargo ", " s, all else "]).await;
    println!("edit to answer: {took:.1} s");

    let served = fs::read(tools.join("my-greeter.wasm")).unwrap();
    fs::write(&source, good.replace("Ok(Greeting", "Okay(Greeting")).unwrap();
    dev.log().line_with(&["cannot find", "Okay"]).await;
    dev.log().line_with(&["the tools folder was left as it is"]).await;
    assert!(fs::read(tools.join("my-greeter.wasm")).unwrap() == served);
    // What the SDK refuses is an error of the build too.
    fs::write(&source, good.replace("/// Writes a greeting", "// Writes a greeting")).unwrap();
    dev.log().line_with(&["`my_greeter` has no description"]).await;
    dev.log().line_with(&["mend", "doc comment"]).await;
    let capital =
        good.replace("fn my_greeter(", "fn My_greeter(").replace("my_greeter(Guest)", "My_greeter(Guest)");
    fs::write(&source, capital).unwrap();
    dev.log().line_with(&["a tool's name is a lower-case letter"]).await;
    dev.log().line_with(&["mend", "rename the function"]).await;
    fs::write(&source, good.replace("[read_only", "[harmless, read_only")).unwrap();
    dev.log().line_with(&["unknown hint `harmless`"]).await;
    dev.log().line_with(&["mend", "one of the hints"]).await;
    assert!(ask().await.contains("Welcome, Ada!"));
    fs::write(&source, good.replace("Hello, {name}!", "Hi, {name}!")).unwrap();
    eventually("the version that was mended", async || ask().await.contains("Hi, Ada!").then_some(())).await;
}

#[tokio::test]
async fn a_build_that_fails_is_told_to_a_program_as_json() {
    let desk = Desk::new();
    for folder in ["website", "served"] {
        fs::create_dir(desk.path().join(folder)).unwrap();
    }
    fs::write(desk.path().join("website/package.json"), r#"{"name": "website"}"#).unwrap();
    let command = desk.command(&["dev", "website", "served", "--json"]);
    let dev = Process::spawn(&mut tokio::process::Command::from(command));
    dev.log().line_with(&[r#"{"error":"this package is not a tool's"#, "build.mjs"]).await;
}
