//! The tools folder while the service runs: what is in it serves, what cannot serve is named, and what is
//! replaced is replaced for good without a request that fails. Which file is refused why, and who has a name
//! that two files claim, is tested in `host/tool-host`.

use std::fs;

use acceptance::{Builder, Component, Model, Service, Task, eventually, order};
use serde_json::{Value, json};

/// Files that are no tools, and what is said about each.
fn broken() -> Vec<(Component, &'static str)> {
    vec![
        (Component::core_module("core"), "is a core module, not a component"),
        (Component::misbehaving("describe-loops"), "did not return within"),
    ]
}

#[tokio::test]
async fn files_that_are_no_tools_are_named_everywhere_and_the_others_serve() {
    let model = Model::obeying().await;
    let files = broken().into_iter().map(|(component, _)| component);
    let service = Service::variant_a().model(&model).tools(files).tool("calculator").start().await;
    let result = service.result_of(&order("calculate", &json!({ "expression": "6 * 7" }))).await;
    assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{result:#}");
    assert_eq!(model.calls()[0].tools(), ["calculate"]);

    let ready = service.ready().await;
    assert_eq!(ready.status, 200, "{ready}");
    let report = ready.json();
    assert_eq!((&report["healthy"], &report["status"]), (&json!(true), &json!("healthy")));
    let failed = report["tools"]["failed"].as_array().expect("a list of files").clone();
    assert_eq!(failed.len(), broken().len(), "{ready}");
    let metrics = service.metrics().await;
    for (component, reason) in broken() {
        let file = component.file();
        let fault = failed.iter().find(|fault| fault["file"] == file.as_str());
        let error = fault.and_then(|fault| fault["error"].as_str()).unwrap_or_default();
        assert!(error.contains(reason), "{file}: {error}");
        let logged = |entry: &Value| entry["level"] == "ERROR" && entry["file"] == file.as_str();
        assert_eq!(service.log().entry(&file, logged).await["error"], error);
        assert_eq!(metrics.value("agent_tool_component_faults", &[("file", &file)]), Some(1.0), "{file}");
    }
    assert_eq!(metrics.values_of("agent_tool_component_faults", "file").len(), broken().len());
}

/// Which component answers now.
async fn serving(service: &Service) -> String {
    let result = service.result_of(&order("calculate", &json!({ "expression": "6 * 7" }))).await;
    assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{result:#}");
    result["toolCalls"][0]["component"].as_str().unwrap().to_owned()
}

async fn wait_until_serving(service: &Service, component: &Component) {
    let is_there = async || (serving(service).await == component.id()).then_some(());
    eventually(&format!("{} to serve", component.id()), is_there).await;
}

#[tokio::test]
async fn a_tool_replaced_a_hundred_times_under_load_fails_no_request() {
    let model = Model::obeying().await;
    let builder = Service::variant_a().model(&model);
    // A hundred compiled versions would push those of the other tests out of the shared folder.
    let cache = builder.home().join("compiled");
    let service = builder.env("TOOLS_CACHE_DIR", cache).start().await;
    let last = Component::shipped("calculator").revision(100);
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (caller, last) = (service.caller(), last.id());
            Task::begin(async move {
                let call = order("calculate", &json!({ "expression": "6 * 7" }));
                let mut seen = Vec::<String>::new();
                while seen.last() != Some(&last) {
                    let result = caller.result_of(&call).await;
                    assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{result:#}");
                    let component = result["toolCalls"][0]["component"].as_str().unwrap();
                    if seen.last().is_none_or(|last| last != component) {
                        seen.push(component.to_owned());
                    }
                }
                seen
            })
        })
        .collect();
    for n in 1..=100 {
        let version = Component::shipped("calculator").revision(n);
        service.put(&version);
        // Every tenth is waited for, so that the others are replaced while they are being taken in.
        if n % 10 == 0 {
            wait_until_serving(&service, &version).await;
        }
    }
    for caller in callers {
        let seen = caller.ended().await;
        assert!(seen.len() > 10, "only {} versions in {seen:#?}", seen.len());
        let unique: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(unique.len(), seen.len(), "an old version came back: {seen:#?}");
    }
    assert_eq!(serving(&service).await, last.id());
    assert_eq!(service.ready().await.json().get("tools"), None);
}

/// Without a tools folder: neither the default one, nor `TOOLS_DIR`.
fn without_folder(builder: Builder) -> Builder {
    fs::remove_dir(builder.home().join("tools")).unwrap();
    builder.without_env("TOOLS_DIR")
}

#[tokio::test]
async fn a_default_folder_that_is_not_there_is_one_warning_and_taken_up_when_it_comes() {
    let model = Model::openai().await;
    model.expects_no_tools().says("hello");
    let builder = Service::variant_a().model(&model).tools([] as [&str; 0]);
    let service = without_folder(builder).start().await;
    let report = service.ready().await;
    assert_eq!(report.status, 200, "{report}");
    let none = "there are no tools: the default tools folder does not exist; create it, or set TOOLS_DIR";
    assert_eq!(report.json()["tools"], json!({ "none": none }));
    assert_eq!(service.result_of("hi").await["output"], "hello");
    let said: Vec<_> = service
        .log()
        .entries()
        .into_iter()
        .filter(|entry| entry["level"] == "ERROR" || entry["message"].to_string().contains("no tools folder"))
        .map(|entry| entry["level"].clone())
        .collect();
    assert_eq!(said, ["WARN"], "{}", service.log());

    let folder = service.tools_folder();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("calculator.wasm"), Component::shipped("calculator").bytes).unwrap();
    eventually("the folder to be taken up", async || {
        service.ready().await.json().get("tools").is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_folder_that_is_named_and_missing_ends_the_start_of_every_command_that_serves() {
    for command in [&["serve"][..], &["dev"], &["mcp"]] {
        let builder = Service::command(command).env("LLM_MODEL", "demo/rules").env("PORT", "0");
        let folder = builder.home().join("not-there");
        let ended = builder.env("TOOLS_DIR", &folder).run().await;
        assert_eq!(ended.code, Some(1), "{command:?}: {ended:?}");
        let expected = format!(
            "the tools folder {} does not exist: create it, or set TOOLS_DIR to the one that is meant",
            folder.display()
        );
        assert!(ended.stderr.contains(&expected), "{command:?}: {ended:?}");
    }
    let doctor = || Service::command(&["doctor", "--without-model"]).env("LLM_MODEL", "demo/rules");
    let named = doctor().env("TOOLS_DIR", "not-there").run().await;
    assert!(named.code == Some(1) && named.stdout.contains("FAILED   tools"), "{named:?}");
    let default = without_folder(doctor()).run().await;
    let expected = "warning  tools        there are no tools: the default tools folder does not exist";
    assert!(default.code == Some(0) && default.stdout.contains(expected), "{default:?}");
}

#[tokio::test]
async fn a_tool_behind_a_symbolic_link_is_replaced_with_the_link() {
    use std::os::unix::fs::symlink;

    let model = Model::obeying().await;
    let service = Service::variant_a().model(&model).tools(["text-stats"]).start().await;
    // As Kubernetes lays out a mounted volume: each file is a link through one link that is swapped.
    let folder = service.tools_folder();
    let release = |name: &str, component: &Component| {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join(component.file()), &component.bytes).unwrap();
        symlink(name, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    let (first, second) = (Component::shipped("calculator"), Component::shipped("calculator").revision(1));
    release("..first", &first);
    symlink("..data/calculator.wasm", folder.join("calculator.wasm")).unwrap();
    let call = order("calculate", &json!({ "expression": "6 * 7" }));
    let is_there = async || service.result_of(&call).await["toolCalls"][0]["outcome"] == "ok";
    eventually("the link to be followed", async || is_there().await.then_some(())).await;
    assert_eq!(serving(&service).await, first.id());
    release("..second", &second);
    wait_until_serving(&service, &second).await;
}
