//! How long an author waits: from an edit of a tool in Rust, under `agent-host tool dev`, to the first answer of a running service
//! that shows it. Beside it the same edit of another project, built by `agent-host tool build` and served by nobody: what of the
//! wait is the compiler's.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark"
)]

#[path = "../measuring/machine.rs"]
mod machine;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use acceptance::{Model, Process, Service, agent_host, order, repository};
use serde_json::json;
use tokio::process::Command;

/// Edits of each project. The first one is not counted: it may find the disk cold.
const EDITS: usize = 7;

/// How often the service is asked whether it shows an edit.
const ASKED_EVERY: Duration = Duration::from_millis(5);

/// What the greeting of the template begins with, and each edit replaces.
const ORIGINAL: &str = "Hello, {name}!";

#[tokio::main]
async fn main() {
    println!("machine: {}", machine::describe());
    let model = Model::openai().await;
    model.obeys();
    let service = Service::variant_a().model(&model).start().await;
    let home = tempfile::tempdir().unwrap();
    for project in ["served", "built"] {
        done(home.path(), &["tool", "new", project, "--lang", "rust", "--example", "greeting"]).await;
        // Compiles what the SDK is made of, once.
        done(home.path(), &["tool", "build", project]).await;
    }
    let tools = service.tools_folder();
    let mut dev = command(home.path(), &["tool", "dev", "served", tools.to_str().unwrap()]);
    let dev = Process::spawn(&mut dev);
    dev.log().line_with(&["swapped", "served.wasm"]).await;

    let (mut to_answer, mut to_build) = (vec![], vec![]);
    for edit in 0..EDITS {
        let edited = edit_of(home.path(), "served", edit);
        while !greeting(&service).await.contains(&format!("Welcome {edit}, Ada!")) {
            tokio::time::sleep(ASKED_EVERY).await;
        }
        to_answer.push(edited.elapsed());
        let edited = edit_of(home.path(), "built", edit);
        done(home.path(), &["tool", "build", "built"]).await;
        to_build.push(edited.elapsed());
    }
    let (to_answer, to_build) = (median(&mut to_answer[1..]), median(&mut to_build[1..]));
    println!("edit to answer, `tool dev`, Rust: median of {} edits {to_answer:.2} s (aim: 5)", EDITS - 1);
    println!("  `tool build` of the same edit: {to_build:.2} s; ratio {:.2}", to_answer / to_build);
}

/// The binary, in an environment that keeps what the SDK is made of.
fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(agent_host());
    let kept = repository().join("target/tmp");
    command.args(arguments).current_dir(folder).env("CARGO_TARGET_DIR", kept.join("tool-projects"));
    command.env("TOOLS_CACHE_DIR", kept.join("tool-projects-compiled"));
    command
}

async fn done(folder: &Path, arguments: &[&str]) {
    let output = command(folder, arguments).output().await.unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Edits a project, and says when.
fn edit_of(home: &Path, project: &str, edit: usize) -> Instant {
    let source = home.join(project).join("src/lib.rs");
    let text = fs::read_to_string(&source).unwrap();
    let former = if edit == 0 { ORIGINAL.to_owned() } else { format!("Welcome {}, {{name}}!", edit - 1) };
    let edited = text.replace(&former, &format!("Welcome {edit}, {{name}}!"));
    assert_ne!(text, edited, "there is something to replace");
    let now = Instant::now();
    fs::write(source, edited).unwrap();
    now
}

async fn greeting(service: &Service) -> String {
    let result = service.result_of(&order("served", &json!({ "name": "Ada" }))).await;
    result["output"].as_str().unwrap_or_default().to_owned()
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}
