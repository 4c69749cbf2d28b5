//! What is generated from the code says what the code says. `cargo xtask docs` runs these tests with
//! `WRITE_DOCUMENTS=1`: then they write their pages and do not compare them.

use std::fmt::Write as _;
use std::{env, fs};

use acceptance::{Builder, Service, repository};
use serde_json::Value;

/// Compares a file with what it should be, or writes it.
#[expect(
    clippy::disallowed_methods,
    reason = "`cargo xtask docs` says so to tests, which have no configuration"
)]
fn holds(file: &str, expected: &str) {
    let path = repository().join(file);
    if env::var_os("WRITE_DOCUMENTS").is_some() {
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{file} is behind: run `cargo xtask docs`");
}

async fn printed(arguments: &[&str]) -> String {
    output(Service::command(arguments)).await
}

async fn output(command: Builder) -> String {
    let ended = command.run().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

#[tokio::test]
async fn every_setting() {
    let table = printed(&["variables", "--format", "markdown"]).await;
    assert!(table.lines().count() > 40, "{table}");
    holds(
        "host/docs/reference/settings.md",
        &format!(
            "# Settings\n\nAfter this page you know every setting: what it holds, its default, and which variant needs it.\n\
         All are environment variables; an empty one counts as not set. `agent-host variables` prints them for the version you run.\n\n\
         {table}"
        ),
    );
}

#[tokio::test]
async fn the_example_of_an_environment_file() {
    holds(".env.example", &printed(&["variables", "--format", "env"]).await);
}

#[tokio::test]
async fn every_metric() {
    let table = printed(&["metrics"]).await;
    assert!(table.lines().count() > 50, "{table}");
    holds(
        "host/docs/reference/metrics.md",
        &format!(
            "# Metrics\n\nAfter this page you know the name, the kind and the labels of every metric of `GET /metrics`.\n\
         `agent-host metrics` prints them for the version you run. [Observability](../operate/observability.md) says which are \
         not always there.\n\nHistograms have the series `_bucket`, `_sum` and `_count`. `METRICS_PREFIX` stands before the \
         names of process metrics, here `agent_`.\n\n{table}"
        ),
    );
}

/// The names of a command's own commands, as its help lists them.
fn subcommands(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

/// The help of a program and of all its commands, and how many those are.
async fn helps(program: &str, command: impl Fn(&[&str]) -> Builder) -> (String, usize) {
    let (mut page, mut found) = (String::new(), 0);
    let mut left = vec![Vec::<String>::new()];
    while let Some(words) = left.pop() {
        let arguments: Vec<_> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let help = output(command(&arguments)).await;
        // The last one is taken next.
        let commands = subcommands(&help).into_iter().rev();
        left.extend(commands.map(|name| words.iter().cloned().chain([name.to_owned()]).collect()));
        let name = [&[program.to_owned()], words.as_slice()].concat().join(" ");
        let help: Vec<_> = help.lines().map(str::trim_end).collect();
        write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end()).unwrap();
        found += 1;
    }
    (page, found)
}

#[tokio::test]
async fn every_command() {
    let (host, of_host) = helps("agent-host", Service::command).await;
    let (tool, of_tool) = helps("agent-tool", Service::author).await;
    assert!(of_host > 30 && of_tool > 10, "the commands are found: {of_host}, {of_tool}");
    let page = format!(
        "# Commands\n\nAfter this page you know every command of `agent-host`, which serves and operates, and of `agent-tool`, with which \
         tools are made, and their options, as `--help` prints them.\n\
         Every command takes `--json`: then it prints JSON, and a failure is `{{\"error\"}}` in the last line of the standard error.\n\n\
         A command exits with 0 when all is well, with 1 when something is wrong, and with 2 when the command line makes no \
         sense. Commands that exit otherwise say so in their help.\n{host}{tool}"
    );
    holds("host/docs/reference/commands.md", &page);
}

#[test]
fn every_key_of_the_policy() {
    let example = fs::read_to_string(repository().join("host/tool-policy/src/file/example.toml")).unwrap();
    holds(
        "host/docs/reference/policy.md",
        &format!(
            "# Policy keys\n\nAfter this page you know every key of the policy, its default and its bounds.\n\
         A test reads this very file, and fails when a key is missing. [Policy](../operate/policy.md) says how to begin.\n\n\
         ```toml\n{example}```\n"
        ),
    );
}

/// What is said of an error, without what is only an example.
fn rows(operation: &Value) -> Vec<(String, String)> {
    let responses = operation["responses"].as_object().unwrap().iter();
    let errors = responses.filter(|(status, _)| status.as_str() >= "400");
    errors
        .map(|(status, response)| (status.clone(), response["description"].as_str().unwrap().to_owned()))
        .collect()
}

#[tokio::test]
async fn every_error_of_each_route() {
    let service = Service::both_variants().env("LLM_API_KEY", "none").start().await;
    let document = service.caller().get("/openapi.json").await.json();
    let mut page = String::from(
        "# Errors of each route\n\nAfter this page you know every status that a route may refuse a request with, and what it says then.\n\
         The same is in `GET /openapi.json`, with the bodies. [What to do](../api/limits-and-idempotency.md#what-the-others-mean) \
         is on another page.\n\nBodies are `{\"error\": …}` with one of these texts, except where the page says otherwise. Those of 401 \
         and 403 for a token are empty.\n",
    );
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            write!(page, "\n## {} {path}\n\n| status | says |\n|---|---|\n", method.to_uppercase()).unwrap();
            for (status, says) in rows(operation) {
                writeln!(page, "| {status} | {} |", says.replace('|', "\\|")).unwrap();
            }
        }
    }
    assert!(page.matches("\n## ").count() > 40, "the routes are found");
    holds("host/docs/reference/errors.md", &page);
}
