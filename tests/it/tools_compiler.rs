//! Compiling a stranger's component: in a process of its own, while the service serves.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use acceptance::{Component, Model, Service, Task, Token, agent_host, eventually, order};
use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

/// A folder for compiled tools that no other test has filled.
fn own_cache() -> TempDir {
    let cache = tempfile::tempdir().unwrap();
    fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o700)).unwrap();
    cache
}

/// `agent-host compile`, waiting for its component.
fn compiler(arguments: &str, redirection: &str) -> Child {
    // Whoever runs the tests may have left descriptors open to them.
    let close =
        "for fd in /proc/$$/fd/*; do fd=${fd##*/}; if [ $fd -gt 2 ]; then eval \"exec $fd>&-\"; fi; done";
    let text = format!("{close}; exec {} compile {arguments} {redirection}", agent_host().display());
    let mut command = Command::new("/bin/bash");
    command.args(["-c", &text]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A service starts it without an environment. The allocator would set a gigabyte aside, which counts as
    // used: within less no thread could be started, and nothing would be compiled.
    command.env_clear().env("MIMALLOC_ARENA_RESERVE", "0");
    command.spawn().unwrap()
}

const LIMITS: &str = "--memory-bytes 1073741824 --cpu-seconds 7";

#[tokio::test]
async fn a_compiler_limits_itself_before_it_reads() {
    let mut compiler = compiler(LIMITS, "");
    let limits = format!("/proc/{}/limits", compiler.id());
    let limits = eventually("the limits", async || {
        let limits = fs::read_to_string(&limits).unwrap();
        limits.lines().any(|line| line.starts_with("Max cpu time") && line.contains(" 7 ")).then_some(limits)
    })
    .await;
    let of = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line.trim_start_matches(name).split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(of("Max core file size"), "0");
    assert_eq!(of("Max data size"), "1073741824");
    assert_eq!(of("Max address space"), "4294967296");
    assert_eq!(of("Max file size"), (512 << 20).to_string());
    assert_eq!(of("Max open files"), "16");
    drop(compiler.stdin.take());
    assert!(!compiler.wait().unwrap().success(), "nothing is no component");
}

#[tokio::test]
async fn a_compiler_does_not_run_beside_a_descriptor_that_was_left_open_to_it() {
    let ended = compiler(LIMITS, "9</dev/null").wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(75));
    assert!(complaint.contains("it was started with descriptor 9 open"), "{complaint}");
    assert!(ended.stdout.is_empty());
}

#[tokio::test]
async fn a_compiler_that_uses_up_its_memory_ends_and_writes_nothing() {
    let mut compiler = compiler("--memory-bytes 50331648 --cpu-seconds 60", "");
    let mut stdin = compiler.stdin.take().unwrap();
    // The compiler may end before it has read all.
    let _ = stdin.write_all(&Component::slow_to_compile("slow").bytes);
    drop(stdin);
    let ended = compiler.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(complaint.contains("memory allocation of "), "{:?}: {complaint}", ended.status);
    assert!(!ended.status.success() && ended.stdout.is_empty(), "{complaint}");
}

/// The compilers that a service has started: its children.
fn compilers_of(service: &Service) -> Vec<Pid> {
    let stat = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let children = processes.filter(|pid| {
        let parent = stat(pid).and_then(|stat| {
            let (_, rest) = stat.rsplit_once(')')?;
            rest.split_whitespace().nth(1).map(str::to_owned)
        });
        parent == Some(service.id().to_string())
    });
    children.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// A service over the calculator, which is compiled already, and a component whose compiler stands still.
/// Requests wait that many milliseconds for it.
async fn stopped_while_compiling(model: &Model, cache: &TempDir, patience: &str) -> (Service, Pid) {
    let listed =
        Service::command(&["tools"]).env("TOOLS_CACHE_DIR", cache.path()).tools(["calculator"]).run().await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let service = Service::both_variants()
        .model(model)
        .env("TOOLS_CACHE_DIR", cache.path())
        .env("ADMISSION_WAIT_MS", patience)
        .env("OPENAI_API", "on")
        .tool(Component::slow_to_compile("slow"))
        .before_tools()
        .start()
        .await;
    let found = async || compilers_of(&service).first().copied();
    let compiler = eventually("a compiler", found).await;
    kill_process(compiler, Signal::STOP).unwrap();
    (service, compiler)
}

#[tokio::test]
async fn the_service_listens_while_a_component_compiles_and_says_which() {
    let (model, cache) = (Model::openai().await, own_cache());
    model.obeys();
    let (service, compiler) = stopped_while_compiling(&model, &cache, "60000").await;
    assert_eq!(service.get("/health/live").await.status, 200);
    let caller = service.caller();
    let call = order("calculate", &json!({ "expression": "6 * 7" }));
    let run = Task::begin(async move { caller.result_of(&call).await });
    // The other one is compiled before, and is only to be written down.
    let report = eventually("the other one to serve", async || {
        let report = service.ready().await;
        (report.json()["tools"]["preparing"] == json!(["slow.wasm"])).then_some(report)
    })
    .await;
    assert_eq!(report.status, 503, "{report}");
    assert_eq!(report.json()["checks"]["tools"]["error"], "tools are being prepared: slow.wasm", "{report}");
    let report = service.get("/ready").await;
    assert_eq!((report.status, &report.json()["initialized"]), (503, &json!(false)), "{report}");
    service.log().line_with(&["compiling", "slow.wasm"]).await;
    assert_eq!(model.calls().len(), 0, "no run begins with a part of the tools");

    kill_process(compiler, Signal::CONT).unwrap();
    let result = run.ended().await;
    assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{result:#}");
    assert_eq!(model.calls()[0].tools(), ["calculate"]);
    let ready = eventually("readiness", async || {
        let report = service.ready().await;
        (report.status == 200).then_some(report)
    })
    .await;
    let failed = &ready.json()["tools"]["failed"];
    assert_eq!((&failed[0]["file"], failed.as_array().unwrap().len()), (&json!("slow.wasm"), 1), "{ready}");
    assert_eq!(service.get("/ready").await.status, 200);
    service.log().line_with(&["compiled", "slow.wasm"]).await;
}

#[tokio::test]
async fn whoever_comes_too_early_is_turned_away_and_shown_no_part_of_the_tools() {
    let (model, cache) = (Model::openai().await, own_cache());
    model.obeys();
    let (service, compiler) = stopped_while_compiling(&model, &cache, "50").await;
    let order = order("calculate", &json!({ "expression": "6 * 7" }));
    let answer = service.invoke(&order).await;
    assert_eq!(answer.status, 500, "Variant A's table has no 503: {answer}");

    let user = service.user(Token::of("ada").premium());
    let streamed = user.request(Method::POST, "/api/agent").header("accept", "text/event-stream");
    let message = |method: &str| {
        let both = "application/json, text/event-stream";
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "name": "calculate" } });
        user.request(Method::POST, "/mcp")
            .header("accept", both)
            .header("content-type", "application/json")
            .header("mcp-protocol-version", "2025-06-18")
            .body(body.to_string())
    };
    let function = json!({ "type": "function", "function": { "name": "calculate" } });
    let chat =
        json!({ "model": "agent", "messages": [{ "role": "user", "content": "hi" }], "tools": [function] });
    let chosen = json!({ "query": order, "options": { "tools": ["of_the_slow_one"] } });
    for (what, answer) in [
        ("a run", user.agent(&order).await),
        ("a tool that is chosen", user.agent_with(chosen).await),
        ("a stream", user.send(streamed.body(json!({ "query": order }).to_string())).await),
        ("a client of OpenAI", user.post("/v1/chat/completions", chat.to_string()).await),
        ("the list for MCP", user.send(message("tools/list")).await),
        ("a call by MCP", user.send(message("tools/call")).await),
    ] {
        assert_eq!(answer.status, 503, "{what}: {answer}");
        assert!(answer.header("retry-after").parse::<u32>().is_ok_and(|after| after > 0), "{what}: {answer}");
    }
    let job = user.job_for(&order).await;
    service.log().line_with(&["the tools were not prepared within"]).await;
    assert_eq!(user.job(&job).await.json()["status"], "waiting");
    assert_eq!(model.calls().len(), 0);

    kill_process(compiler, Signal::CONT).unwrap();
    let job = user.ended_job(&job).await;
    assert_eq!(job["result"]["toolCalls"][0]["outcome"], "ok", "{job:#}");
}

#[tokio::test]
async fn a_compiler_ends_with_a_service_that_is_killed() {
    let (model, cache) = (Model::openai().await, own_cache());
    let (mut service, compiler) = stopped_while_compiling(&model, &cache, "5000").await;
    service.killed().await;
    eventually("the compiler to be gone", async || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", compiler.as_raw_nonzero()));
        // Nobody may be there to collect it.
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    })
    .await;
}
