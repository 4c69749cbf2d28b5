//! Servers that are child processes: shell scripts that use nothing but what the shell has.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::Toolbox;
use agent_core::words::{Principal, ToolOutcome};
use rustix::process::DumpableBehavior;
use serde_json::json;
use tempfile::TempDir;

use super::{eventually, fault, host, set_policy};
use crate::harness::{Host, generous};

/// Answers the handshake, lists the tool `a`, and does these lines for a call.
fn script(call: &str) -> String {
    format!(
        r#"while read -r line; do
  id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}
  answer() {{ echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}}"; }}
  say() {{ answer "{{\"content\":[{{\"type\":\"text\",\"text\":\"$1\"}}]}}"; }}
  case "$line" in
    *'"initialize"'*) answer '{{"protocolVersion":"2025-11-25","capabilities":{{}},"serverInfo":{{"name":"s","version":"0"}}}}';;
    *'"tools/list"'*) answer '{{"tools":[{{"name":"a","inputSchema":{{"type":"object"}}}}]}}';;
    *'"tools/call"'*)
{call}
    ;;
  esac
done
"#
    )
}

/// The lines of a policy for it, and where its script is.
fn policy(home: &Path, call: &str, lines: &str) -> String {
    let file = home.join("server.sh");
    fs::write(&file, script(call)).unwrap();
    let file = file.display();
    format!(
        "[[mcp]]\nname = \"docs\"\ncommand = \"/bin/sh\"\nargs = [\"{file}\"]\nallow = [\"a\"]\n{lines}\n"
    )
}

/// Lines for a server that is told a secret.
const SECRET: &str =
    "env = { LANG = \"C\" }\n[[mcp.secret]]\nname = \"key\"\nenv = \"KEY\"\nvariable = \"API_KEY\"";

/// A host that has the secret, and the folder of its policy.
async fn host_with_key(policy: &str) -> (Host, TempDir) {
    host(policy, generous(), |config| {
        config.environment = Arc::new(|name: &str| (name == "KEY").then(|| "abc-12345678".to_owned()));
    })
    .await
}

/// A host with such a server, and the folder of its script.
async fn host_of(call: &str, lines: &str) -> (Host, TempDir, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let policy = policy(folder.path(), call, lines);
    let (host, home) = host_with_key(&policy).await;
    assert_eq!(host.names(), ["docs_a"], "{:?}", host.faults());
    (host, home, folder)
}

/// Whether a process has ended, whether or not somebody has asked how.
fn has_ended(pid: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat"));
    !state.is_ok_and(|stat| !stat.contains(") Z "))
}

async fn ends(pid: &str, until: Instant) {
    while !has_ended(pid) {
        assert!(Instant::now() < until, "{pid} runs on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_child_has_the_environment_of_its_entry_and_its_secret_does_not_come_back() {
    let call = "say \"$(/usr/bin/env | /usr/bin/tr '\\n' ' ')pid $$\"";
    let (host, _home, _folder) = host_of(call, SECRET).await;
    let said = host.call("docs_a", json!({})).await;
    assert_eq!(said.receipt.outcome, ToolOutcome::Ok, "{said:?}");
    assert!(said.content.contains("LANG=C") && said.content.contains("API_KEY="), "{}", said.content);
    assert!(!said.content.contains("abc-12345678"), "{}", said.content);
    for inherited in ["HOME=", "CARGO", "PATH="] {
        assert!(!said.content.contains(inherited), "{inherited}: {}", said.content);
    }
    assert!(said.receipt.is_per_user() && said.receipt.component.is_some());
    let pid = |content: &str| content.rsplit("pid ").next().unwrap().trim_end_matches('"').to_owned();
    let again = host.call("docs_a", json!({})).await;
    assert_eq!(pid(&again.content), pid(&said.content), "a server that answered is used again");
    let own = rustix::process::dumpable_behavior().unwrap();
    assert_eq!(own, DumpableBehavior::NotDumpable, "the service's own environment is not to be read");
}

#[tokio::test]
async fn a_secret_of_a_child_is_not_in_its_list_of_tools() {
    let listed = r#"*'"tools/list"'*) answer "{\"tools\":[{\"name\":\"a\",\"description\":\"Key $API_KEY.\",\"inputSchema\":{\"type\":\"object\"}}]}";;
    *'"tools/call"'*)"#;
    let folder = tempfile::tempdir().unwrap();
    let policy = policy(folder.path(), "say fine", SECRET);
    let file = folder.path().join("server.sh");
    let script = fs::read_to_string(&file).unwrap();
    let plain = script.lines().find(|line| line.contains("\"tools/list\"")).unwrap();
    fs::write(&file, script.replace(&format!("{plain}\n"), "").replace("*'\"tools/call\"'*)", listed))
        .unwrap();
    let (host, _home) = host_with_key(&policy).await;
    let tools = host.host.current_for(Principal::nobody()).catalog().tools().to_vec();
    assert_eq!(tools.len(), 1, "{:?}", host.faults());
    let described = format!("{tools:?}");
    assert!(described.contains("Key [secret key]."), "{described}");
    assert!(!described.contains("abc-12345678"), "{described}");
}

#[test]
fn a_launcher_whose_service_has_ended_starts_nothing() {
    let launch = |parent: u32| {
        let parent = parent.to_string();
        let arguments =
            ["launch", "--memory-bytes", "1000000000", "--parent", &parent, "--", "/bin/echo", "ran"];
        Command::new(env!("CARGO_BIN_EXE_tool-compiler")).args(arguments).output().unwrap()
    };
    let own = std::process::id();
    assert_eq!(launch(own).stdout, b"ran\n");
    let orphan = launch(own + 1);
    assert_eq!(orphan.stdout, b"", "{orphan:?}");
    assert!(String::from_utf8_lossy(&orphan.stderr).contains("has ended"), "{orphan:?}");
}

#[tokio::test]
async fn a_child_is_killed_with_its_call_and_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let call = format!("/bin/sleep 1000 & echo \"$$ $!\" > {}; wait", pids.display());
    let (host, _home, _folder) = host_of(&call, "limits = { timeout-ms = 1000 }").await;
    let returned = host.call("docs_a", json!({})).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::TimedOut, "{returned:?}");
    let pids = fs::read_to_string(&pids).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    for pid in pids.split_whitespace() {
        ends(pid, until).await;
    }
}

#[tokio::test]
async fn a_child_that_misbehaves_costs_its_call_and_the_next_one_has_another() {
    // Each call says what it does by its arguments.
    let call = "case \"$line\" in
      *die*) exit 3;;
      *flood*) exec /bin/cat /dev/zero;;
      *chat*) echo 'Listening on stdio...';;
      *ask*) echo '{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"elicitation/create\",\"params\":{}}'; read -r no
        case \"$no\" in *-32601*) say refused;; *) say served;; esac;;
      *) say fine;;
    esac";
    let (host, _home, _folder) = host_of(call, "limits = { timeout-ms = 15000 }").await;
    for (what, outcome, said) in [
        ("die", ToolOutcome::Failed, "unavailable: the MCP server went away"),
        ("flood", ToolOutcome::OutputLimit, "returned more than"),
        ("chat", ToolOutcome::InvalidOutput, "does not match"),
        ("ask", ToolOutcome::Ok, "refused"),
        ("work", ToolOutcome::Ok, "fine"),
    ] {
        let returned = host.call("docs_a", json!({ "what": what })).await;
        assert_eq!(returned.receipt.outcome, outcome, "{what}: {returned:?}");
        assert!(returned.content.contains(said), "{what}: {}", returned.content);
    }
}

#[tokio::test]
async fn a_command_that_is_written_while_the_service_runs_is_not_run() {
    let (host, home, folder) = host_of("say fine", "").await;
    let ran = folder.path().join("ran");
    let command = format!(
        "[[mcp]]\nname = \"docs\"\ncommand = \"/bin/touch\"\nargs = [\"{}\"]\nallow = [\"a\"]\n",
        ran.display()
    );
    set_policy(&host, &home, &command).await;
    assert!(fault(&host).contains("cannot be reached"), "{}", fault(&host));
    let returned = host.call("docs_a", json!({})).await;
    assert_eq!(returned.receipt.outcome, ToolOutcome::Failed, "{returned:?}");
    assert!(!ran.exists());
}

#[tokio::test]
async fn what_a_child_runs_is_not_changed_through_its_variables_while_the_service_runs() {
    let lines = format!("limits = {{ memory-bytes = 900000000 }}\n{SECRET}");
    let (host, home, folder) = host_of("say \"pid $$\"", &lines).await;
    let at_start = policy(folder.path(), "say \"pid $$\"", &lines);
    let said = host.call("docs_a", json!({})).await;
    let pid = said.content.rsplit("pid ").next().unwrap().trim_end_matches('"').to_owned();
    assert!(!has_ended(&pid), "{said:?}");
    for (from, to) in [
        ("\"API_KEY\"", "\"LD_PRELOAD\""),
        ("900000000", "800000000"),
        ("env = { LANG", "env = { LD_PRELOAD"),
    ] {
        set_policy(&host, &home, &at_start.replace(from, to)).await;
        assert!(fault(&host).contains("cannot be reached"), "{to}: {}", fault(&host));
        let returned = host.call("docs_a", json!({})).await;
        assert_eq!(returned.receipt.outcome, ToolOutcome::Failed, "{to}: {returned:?}");
        ends(&pid, Instant::now() + Duration::from_secs(10)).await;
    }
    set_policy(&host, &home, &at_start).await;
    eventually(&host, |host| host.faults().is_empty()).await;
    let again = host.call("docs_a", json!({})).await;
    assert_eq!(again.receipt.outcome, ToolOutcome::Ok, "{again:?}");
}
