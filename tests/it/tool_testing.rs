//! `agent-tool inspect`, `check` and `test`: what the author of a component is told before it is shipped.

use std::fs;
use std::path::Path;

use acceptance::{Component, Ended, Service};
use serde_json::{Value, json};

/// A folder with one component and its cases.
struct Project(tempfile::TempDir);

impl Project {
    fn new(component: &Component, cases: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(component.file()), &component.bytes).unwrap();
        if !cases.is_empty() {
            fs::write(folder.path().join("cases.toml"), cases).unwrap();
        }
        Self(folder)
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    /// `agent-tool …` with that folder as its last argument.
    async fn run(&self, arguments: &[&str]) -> Ended {
        Service::author(&[arguments, &[self.path()]].concat()).run().await
    }

    /// Runs the command with `--json`: the exit code and the report.
    async fn json(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let ended = self.run(&[arguments, &["--json"]].concat()).await;
        let report = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        (ended.code, report)
    }
}

const CALCULATOR: &str = r#"
[[case]]
name = "multiplies"
arguments = { expression = "6 * 7" }
expect = { json = { value = "42", exact = true } }

[[case]]
name = "says where it does not understand"
tool = "calculate"
arguments = { expression = "1 +" }
expect = { error = "invalid-arguments", contains = "character" }
"#;

#[tokio::test]
async fn the_cases_of_a_tool_pass_and_it_bears_abuse_and_its_calls_are_counted() {
    let project = Project::new(&Component::shipped("calculator"), CALCULATOR);
    let (code, report) = project.json(&["test"]).await;
    assert_eq!((code, &report["ok"]), (Some(0), &json!(true)), "{report:#}");
    assert_eq!(report["cases"].as_array().unwrap().len(), 2);
    let abuse = &report["abuse"][0];
    assert!(abuse["valid"].as_u64().unwrap() == 40 && abuse["invalid"].as_u64().unwrap() > 20, "{abuse:#}");
    let costs = &report["costs"][0];
    assert_eq!(costs["tool"], "calculate");
    assert!(costs["calls"].as_u64().unwrap() > 0 && costs["p50Ms"].as_f64().unwrap() > 0.0, "{costs:#}");
    assert!(
        costs["memoryBytes"].as_u64().unwrap() > 0 && costs["promptTokens"].as_u64().unwrap() > 10,
        "{costs:#}"
    );
}

#[tokio::test]
async fn a_case_that_fails_says_what_was_expected_and_how_to_call_again() {
    let cases = CALCULATOR.replace("\"42\"", "\"41\"");
    let project = Project::new(&Component::shipped("calculator"), &cases);
    let ended = project.run(&["test", "--no-abuse"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let told = ended.stdout.split("\n\n").next().unwrap().replace(project.path(), "FOLDER");
    insta::assert_snapshot!(told, @r#"
    FAIL  multiplies  (FOLDER/cases.toml:2)
            /value should be "41", and is "42"
            TOOLS_DIR=FOLDER agent-host tool run calculate '{"expression":"6 * 7"}'
    ok    says where it does not understand
    "#);
}

#[tokio::test]
async fn a_budget_that_is_not_kept_fails() {
    let project = Project::new(&Component::shipped("calculator"), CALCULATOR);
    let budget =
        ["test", "--no-abuse", "--budget-memory", "1000", "--budget-tokens", "1", "--budget-ms", "10000"];
    let ended = project.run(&budget).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let beyond: Vec<_> = ended.stdout.lines().filter(|line| line.starts_with("beyond the budget")).collect();
    assert_eq!(beyond.len(), 2, "{ended:?}");
    assert!(beyond[0].contains("--budget-memory") && beyond[1].contains("--budget-tokens"), "{beyond:?}");
}

const SEARCH: &str = r#"
[[case]]
name = "reads the results"
arguments = { query = "tea" }
expect = { contains = "https://tea.example/" }
config = { endpoint = "https://search.example.org/search" }
secrets = ["search-key"]
[[case.http]]
url = "https://search.example.org/search?q=tea&format=json&pageno=1"
json = { results = [{ title = "Tea", url = "https://tea.example/", content = "A drink." }] }

[[case]]
name = "says that it is not configured"
arguments = { query = "tea" }
expect = { error = "not-configured" }

[[case]]
name = "says that nobody answers"
arguments = { query = "tea" }
expect = { error = "unavailable" }
config = { endpoint = "https://search.example.org/search" }
[[case.http]]
url = "https://search.example.org/search?q=tea&format=json&pageno=1"
fails = "connection-refused"
"#;

#[tokio::test]
async fn requests_are_answered_by_the_case_and_upstreams_get_into_trouble() {
    let project = Project::new(&Component::granted("web-search"), SEARCH);
    let (code, report) = project.json(&["test"]).await;
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["abuse"][0]["troubles"], 9, "{report:#}");
}

#[tokio::test]
async fn a_case_that_cannot_be_made_fails_by_itself_and_by_its_name() {
    let cases = SEARCH.replace("\"search-key\"", "\"search key\"").replace("connection-refused", "refusd");
    let project = Project::new(&Component::granted("web-search"), &cases);
    let (code, report) = project.json(&["test", "--no-abuse"]).await;
    assert_eq!(code, Some(1), "{report:#}");
    let problem = |case: usize| report["cases"][case]["problems"][0].as_str().unwrap();
    assert!(
        problem(0).contains("the policy that is made of the case") && problem(0).contains("\"search key\""),
        "{report:#}"
    );
    assert_eq!(report["cases"][1]["problems"], json!([]));
    assert!(problem(2).contains("no request fails with \"refusd\""), "{report:#}");
}

#[tokio::test]
async fn a_tool_that_does_not_bear_abuse_is_shown_with_the_smallest_arguments_and_a_command() {
    let project = Project::new(&Component::misbehaving("misbehaving"), "");
    // So that what hangs does not hold the test up.
    let arguments = ["test", "--json", project.path()];
    let ended = Service::author(&arguments)
        .env("TOOL_TIMEOUT_MS", "400")
        .env("TOOL_MEMORY_BYTES", "8388608")
        .run()
        .await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let found = |tool: &str| {
        let abuse = report["abuse"].as_array().unwrap().iter().find(|abuse| abuse["tool"] == tool);
        abuse.unwrap_or_else(|| panic!("{tool} in {report:#}"))["findings"].clone()
    };
    assert_eq!(found("count_calls"), json!([]));
    for (tool, said) in [
        ("trap", "traps"),
        ("loop_forever", "does not end in time"),
        ("allocate_forever", "wants more memory than it may have"),
        ("return_wrong_shape", "has an answer that is refused: /calls"),
        ("return_bad_json", "has an answer that is refused: not JSON"),
    ] {
        let finding = &found(tool)[0];
        assert!(finding["text"].as_str().unwrap().contains(said), "{finding:#}");
        let command = finding["command"].as_str().unwrap();
        assert!(command.ends_with(&format!("agent-host tool run {tool} '{{}}'")), "{command}");
    }
}

#[tokio::test]
async fn a_component_is_checked_against_what_it_declares() {
    let component = Component::misbehaving("misbehaving");
    let project = Project::new(&component, "");
    let file = Path::new(project.path()).join(component.file());
    let arguments = ["check", "--json", file.to_str().unwrap()];
    let ended = Service::author(&arguments).env("TOOL_TIMEOUT_MS", "400").run().await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let of = |tool: &str, weight: &str| {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().filter(|finding| finding["tool"] == tool && finding["weight"] == weight).count()
    };
    assert_eq!(
        (of("return_wrong_shape", "fault"), of("return_bad_json", "fault"), of("count_calls", "fault")),
        (1, 1, 0),
        "{report:#}"
    );

    let good = Project::new(&Component::shipped("calculator"), "");
    let file = Path::new(good.path()).join("calculator.wasm");
    let ended = Service::author(&["check", file.to_str().unwrap()]).run().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("0 faults"), "{ended:?}");
}

#[tokio::test]
async fn a_tool_whose_calls_somebody_has_to_approve_is_checked_and_tested_under_its_policy() {
    let component = Component::shipped("calculator");
    let project = Project::new(&component, CALCULATOR);
    let (folder, digest) = (Path::new(project.path()), component.digest());
    let (file, policy) = (folder.join(component.file()), folder.join("policy.toml"));
    let lines =
        format!("[[component]]\nname = \"calculator\"\ndigest = \"{digest}\"\napprove = \"always\"\n");
    fs::write(&policy, lines).unwrap();
    let policy = ["--policy", policy.to_str().unwrap()];
    let checked = Service::author(&[&["check", file.to_str().unwrap()], &policy[..]].concat()).run().await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.stdout.starts_with("calculator (25 calls were made)"), "{checked:?}");
    let tested = project.run(&[&["test", "--no-abuse"], &policy[..]].concat()).await;
    assert_eq!(tested.code, Some(0), "{tested:?}");
}

#[tokio::test]
async fn a_tool_that_nothing_can_call_is_a_fault_of_its_schema_and_no_test_that_passed() {
    let component = Component::misbehaving("describe-uncallable");
    let project = Project::new(&component, "");
    let file = Path::new(project.path()).join(component.file());
    let checked = Service::author(&["check", file.to_str().unwrap()]).run().await;
    assert_eq!(checked.code, Some(1), "{checked:?}");
    assert!(
        checked.stdout.contains(r#"fault: find: its arguments must have "qurey" ("required") and may not"#)
            && checked.stdout.contains(r#"add it to "properties", or take it out of "required""#),
        "{checked:?}"
    );
    let tested = project.run(&["test"]).await;
    assert_eq!(tested.code, Some(1), "{tested:?}");
    assert!(
        tested.stdout.contains("FAIL  find under abuse")
            && tested.stdout.contains("it was never called")
            && tested.stdout.contains("`agent-tool check`"),
        "{tested:?}"
    );
}

#[tokio::test]
async fn a_component_is_inspected_by_name_and_by_file_and_when_it_is_refused() {
    let ended = Service::author(&["inspect", "calculator"]).tools(["calculator"]).run().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let digest = Component::shipped("calculator").digest();
    for part in
        [&digest, "agent:tool@0.1.1", "imports", "granted by default", "calculate", "prompt", "tokens"]
    {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }

    let project = Project::new(&Component::granted("http-fetch"), "");
    let file = Path::new(project.path()).join("http-fetch.wasm");
    let arguments = ["inspect", "--json", file.to_str().unwrap()];
    let ended = Service::author(&arguments).run().await;
    assert_eq!(ended.code, Some(1), "a service would refuse it: {ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(report["refusal"].as_str().unwrap().starts_with("imports wasi:http"), "{report:#}");
    let lines = report["policyLines"].as_str().unwrap();
    assert!(
        lines.contains("[[component.http]]") && lines.contains(&Component::granted("http-fetch").digest()),
        "{lines}"
    );
    assert_eq!(report["tools"][0]["tool"], "fetch", "what it would be is shown all the same");

    let module = Project::new(&Component::core_module("core"), "");
    let file = Path::new(module.path()).join("core.wasm");
    let ended = Service::author(&["inspect", file.to_str().unwrap()]).run().await;
    assert!(ended.code == Some(1) && ended.stdout.contains("is a core module"), "{ended:?}");
}

#[tokio::test]
async fn what_cannot_be_tested_says_what_to_do() {
    let empty = tempfile::tempdir().unwrap();
    let ended = Service::author(&["test", empty.path().to_str().unwrap()]).run().await;
    assert!(ended.code == Some(1) && ended.stderr.contains("there is no component in"), "{ended:?}");
    let project = Project::new(&Component::shipped("calculator"), "[[case]]\nexpect = { outptu = \"3\" }\n");
    let ended = project.run(&["test"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("line 2: expect of the case") && ended.stderr.contains("outptu"),
        "{ended:?}"
    );
    let ended = Service::author(&["check", "nothing-here"]).run().await;
    assert!(ended.code == Some(1) && ended.stderr.contains("no component of that name in"), "{ended:?}");
    for name in [".calculator.wasm", "my calculator.wasm", ".wasm"] {
        let file = empty.path().join(name);
        fs::write(&file, Component::shipped("calculator").bytes).unwrap();
        for command in ["inspect", "check", "test"] {
            let ended = Service::author(&[command, file.to_str().unwrap()]).run().await;
            assert!(ended.code == Some(1) && ended.stdout.is_empty(), "{ended:?}");
            assert!(ended.stderr.contains("under its name: rename it"), "{ended:?}");
        }
    }
}

#[tokio::test]
async fn a_call_that_ends_badly_says_what_its_author_can_do() {
    let run = async |tool: &str, arguments: &str| {
        let builder =
            Service::command(&["tool", "run", tool, arguments]).tool(Component::misbehaving("misbehaving"));
        let ended = builder.env("TOOL_TIMEOUT_MS", "400").env("TOOL_MEMORY_BYTES", "8388608").run().await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended.stderr.lines().last().unwrap_or_default().to_owned()
    };
    for (tool, arguments, mend) in [
        ("trap", r#"{"by": "panic"}"#, "is trapped: return a failure with a code"),
        ("return_wrong_shape", "{}", "is invalid_output: return JSON, of its output schema"),
        ("return_100_mb", r#"{"mb": 2}"#, "is output_limit: return what was asked for and no more"),
        ("allocate_forever", "{}", "is memory_limit: use less"),
        ("loop_forever", "{}", "is timed_out: return sooner"),
        (
            "echo",
            r#"{"valu": 1}"#,
            "is invalid_arguments: call it with arguments that its input schema allows",
        ),
    ] {
        let line = run(tool, arguments).await;
        assert!(line.contains(mend), "{tool}: {line}");
    }
}

const ORDERS: &str = r#"
[[case]]
name = "orders what somebody wants"
tool = "order"
arguments = { thing = "shoes" }
expect = { contains = ["blue", "3"] }
[[case.answer]]
question = "Which colour of shoes?"
value = "blue"
[[case.answer]]
value = 3

[[case]]
name = "orders nothing that somebody does not want"
tool = "order"
arguments = { thing = "shoes" }
expect = { error = "rejected" }
[[case.answer]]
rejected = true
"#;

#[tokio::test]
async fn the_questions_of_a_component_are_answered_by_its_cases() {
    let project = Project::new(&Component::misbehaving("asks"), ORDERS);
    let (code, report) = project.json(&["test", "--no-abuse"]).await;
    assert_eq!((code, &report["ok"]), (Some(0), &json!(true)), "{report:#}");
    // Whoever does not say what is answered is told what to add.
    let without = ORDERS.split("[[case.answer]]").next().unwrap();
    let project = Project::new(&Component::misbehaving("asks"), without);
    let ended = project.run(&["test", "--no-abuse"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let asks = r#"it asked "Which colour of shoes?", which no answer is for: add [[case.answer]] with question = "Which colour of shoes?""#;
    assert!(ended.stdout.contains(asks), "{ended:?}");
    let ended = project.run(&["test", "--no-abuse", "--answer", "\"blue\"", "--answer", "3"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = project.run(&["test", "--no-abuse", "--answer", "\"blue\"", "--answer", "true"]).await;
    assert!(ended.stdout.contains("the answer true is none that the question allows"), "{ended:?}");
    let ended = project.run(&["test", "--answer", "blue"]).await;
    assert!(ended.code == Some(2) && ended.stderr.contains("a text stands in quotes"), "{ended:?}");
}
