//! The command line: what it says to people, and `agent-host dev` for those who want to see it work.

use acceptance::{Ended, SECRET, Service};
use serde_json::Value;

#[tokio::test]
async fn help_and_version_are_there_for_whoever_asks() {
    let Ended { code, stdout, .. } = Service::command(&["--help"]).run().await;
    assert_eq!(code, Some(0));
    for word in ["serve", "dev", "tools", "--version"] {
        assert!(stdout.contains(word), "{word} is not in {stdout}");
    }
    let Ended { code, stdout, .. } = Service::command(&["--version"]).run().await;
    // The shipped build names its commit and date.
    let version = format!("agent-host {} (built from a working copy)\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((code, stdout), (Some(0), version));
    for command in ["serve", "dev", "tools"] {
        let ended = Service::command(&[command, "--help"]).run().await;
        assert!(ended.code == Some(0) && ended.stdout.contains("Usage"), "{ended:?}");
    }
}

#[tokio::test]
async fn a_command_line_that_makes_no_sense_is_refused_with_a_hint() {
    for arguments in [&["server"][..], &["serve", "--port", "3000"], &["tools", "extra"], &[]] {
        let Ended { code, stderr, .. } = Service::command(arguments).run().await;
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains("Usage"), "{arguments:?}: {stderr}");
    }
}

#[tokio::test]
async fn a_command_that_moved_names_the_program_that_has_it() {
    for (moved, name) in
        [("tools new x --lang rust", "new"), ("tool test", "test"), ("replay run_1", "replay")]
    {
        let arguments: Vec<_> = moved.split(' ').collect();
        let Ended { code, stdout, stderr } = Service::command(&arguments).run().await;
        assert_eq!((code, &*stdout), (Some(2), ""), "{moved}: {stderr}");
        assert!(
            stderr.starts_with(&format!("agent-host: `agent-tool {name}` does that")),
            "{moved}: {stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        let known = Service::author(&[name, "--help"]).run().await;
        assert!(known.code == Some(0) && known.stdout.contains("Usage: agent-tool"), "{known:?}");
    }
    let json = Service::command(&["tools", "build", "--json"]).run().await;
    let said: Value = serde_json::from_str(&json.stderr).unwrap();
    assert!(
        json.code == Some(2) && said["error"].as_str().unwrap().contains("`agent-tool build`"),
        "{json:?}"
    );
}

#[tokio::test]
async fn a_command_line_that_cannot_be_read_is_answered_in_json_where_that_is_asked_for() {
    type Program = fn(&[&str]) -> acceptance::Builder;
    for (program, line) in [
        (Service::command as Program, &["tools", "--json", "--no-such"][..]),
        (Service::command as Program, &["--json", "runs", "show"]),
        (Service::author as Program, &["sign", "--json"]),
        (Service::author as Program, &["bulid", "--json"]),
    ] {
        let ended = program(line).run().await;
        let said: Value =
            serde_json::from_str(&ended.stderr).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        let text = said["error"].as_str().unwrap();
        assert!(
            !text.starts_with("error") && !text.contains('\u{1b}') && text.len() > 20,
            "{line:?}: {text}"
        );
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{line:?}");
        let without: Vec<_> = line.iter().copied().filter(|argument| *argument != "--json").collect();
        let plain = program(&without).run().await;
        assert!(plain.code == Some(2) && plain.stderr.starts_with("error: "), "{without:?}: {plain:?}");
    }
    let help = Service::command(&["tools", "--json", "--help"]).run().await;
    assert!(help.code == Some(0) && help.stdout.contains("Usage: agent-host tools"), "{help:?}");
}

#[tokio::test]
async fn a_command_that_looks_at_a_store_says_that_there_is_none_and_makes_none() {
    let folder = tempfile::tempdir().unwrap();
    for command in [
        &["runs", "list"][..],
        &["jobs", "list"],
        &["waits", "list"],
        &["tools", "versions"],
        &["tools"],
        &["tools", "call", "calculate", "{}"],
        &["mcp"],
    ] {
        let ended = Service::command(command).sqlite_in(folder.path()).run().await;
        assert_eq!(ended.code, Some(1), "{command:?}: {ended:?}");
        assert!(ended.stderr.contains("there is no file "), "{command:?}: {ended:?}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// `agent-host dev` with the tools that the demo model knows.
async fn dev() -> Service {
    let builder = Service::command(&["dev"]).tools(["calculator", "clock", "text-stats"]);
    builder.env("PORT", "0").start().await
}

#[tokio::test]
async fn the_dev_command_prints_where_its_tools_are_from_and_a_curl_line_that_works() {
    let service = dev().await;
    let folder = service.tools_folder();
    service.log().line_with(&["Tools are served from", folder.to_str().unwrap()]).await;
    let last = service.log().line_with(&["-d", "input"]).await;
    assert!(service.address().ip().is_loopback(), "nobody else is invited");
    let text = service.log().stdout();
    let first = text.lines().find(|line| line.trim_start().starts_with("curl ")).expect("a curl line");
    let command = format!("{first}\n{last}");
    let output = tokio::process::Command::new("/bin/sh").args(["-c", &command]).output().await.unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {command}\n{output:?}"));
    let result = &answer["result"];
    assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{answer:#}");
    let said = result["output"].as_str().unwrap();
    assert!(said.contains("demo") && said.contains("77.364"), "{said}");
    assert_eq!(result["model"], "demo/rules");
    // A demo says in the log that it is one (host/docs/interface/decisions-runs.md#models).
    service
        .log()
        .find("a warning in the log", |line| {
            (line.contains("WARN") && line.contains("demo model")).then_some(())
        })
        .await;
}

#[tokio::test]
async fn the_dev_command_prints_how_to_sign_a_token_where_the_secret_is_set() {
    let builder = Service::command(&["dev"]).tools(["calculator"]);
    let service = builder.env("PORT", "0").env("JWT_SECRET", SECRET).start().await;
    service.log().line_with(&["TOKEN=$(agent-host token --id dev --tier premium --role admin)"]).await;
}

#[tokio::test]
async fn the_demo_model_keeps_its_promises() {
    let service = dev().await;
    let introduction = service.result_of("Hello").await;
    let introduction = introduction["output"].as_str().unwrap();
    // What it offers stands in quotes.
    let offers: Vec<_> = introduction.split('"').skip(1).step_by(2).collect();
    assert_eq!(offers.len(), 3, "{introduction}");
    for offer in offers {
        let result = service.result_of(offer).await;
        assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{offer}: {result:#}");
        assert!(result["output"].as_str().unwrap().contains("demo"), "{result:#}");
    }
}
