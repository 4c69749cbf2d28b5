//! How long an author waits: from an edit of a tool, under `agent-tool dev`, to the first answer of a running
//! service that shows it. Beside it the same edit of another project, built by `agent-tool build` and served
//! by nobody: what of the wait is the toolchain's. `--language` says which; componentize-py and
//! componentize-js take most of a minute.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "a benchmark")]

#[path = "../measuring/mod.rs"]
mod measuring;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use acceptance::{Model, Process, Service, order, repository};
use measuring::machine;
use measuring::subject::Subject;
use serde_json::json;
use tokio::process::Command;

/// Edits of each project. The first one is not counted: it may find the disk cold.
const EDITS: usize = 7;

/// How often the service is asked whether it shows an edit.
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// How the greeting of the template begins, which each edit replaces.
const ORIGINAL: &str = "Hello,";

/// What a project is written in: as `agent-tool new` is told, and where the tool stands.
struct Language {
    name: &'static str,
    source: &'static str,
}

const LANGUAGES: [Language; 3] = [
    Language { name: "rust", source: "src/lib.rs" },
    Language { name: "python", source: "tools.py" },
    Language { name: "js", source: "tools.js" },
];

/// Languages of `BENCH_LANGUAGE`, which `--language` sets: `rust` unless it says otherwise, or `all`.
fn languages() -> Vec<&'static Language> {
    #[expect(clippy::disallowed_methods, reason = "a bench has no configuration")]
    let chosen = std::env::var("BENCH_LANGUAGE").unwrap_or_else(|_| "rust".to_owned());
    let chosen: Vec<_> =
        LANGUAGES.iter().filter(|language| chosen == "all" || chosen == language.name).collect();
    assert!(!chosen.is_empty(), "--language is rust, python, js or all");
    chosen
}

#[tokio::main]
async fn main() {
    println!("machine: {}", machine::describe());
    let model = Model::obeying().await;
    // An author and the service beside them share the compile cache of their user, as they do without any
    // setting.
    let service =
        Service::variant_a().model(&model).env("TOOLS_CACHE_DIR", Subject::ours().cache()).start().await;
    let home = tempfile::tempdir().unwrap();
    let mut authors = Vec::new();
    for language in languages() {
        for subject in Subject::all() {
            authors.push(Author::begin(subject, language, home.path(), &service).await);
        }
    }
    for edit in 0..EDITS {
        for author in &mut authors {
            author.edit(edit, home.path(), &service).await;
        }
    }
    for author in &mut authors {
        author.report();
    }
}

/// Somebody who edits one project under `agent-tool dev`, and another one that is only built.
struct Author {
    subject: Subject,
    language: &'static Language,
    served: String,
    built: String,
    to_answer: Vec<Duration>,
    to_build: Vec<Duration>,
    _dev: Process,
}

impl Author {
    async fn begin(subject: Subject, language: &'static Language, home: &Path, service: &Service) -> Self {
        let named = |kind: &str| format!("{kind}-{}-{}", language.name, subject.name);
        let (served, built) = (named("served"), named("built"));
        for project in [&served, &built] {
            let new = ["new", project, "--lang", language.name, "--example", "greeting"];
            done(&subject, home, &new).await;
            let installed = repository().join("target/test-servers/componentize-js/node_modules");
            if language.name == "js" && installed.exists() {
                symlink(installed, home.join(project).join("node_modules")).unwrap();
            }
            // Compiles what the SDK is made of, or installs the toolchain, once.
            done(&subject, home, &["build", project]).await;
        }
        let tools = service.tools_folder();
        let mut dev = command(&subject, home, &["dev", &served, tools.to_str().unwrap()]);
        let dev = Process::spawn(&mut dev);
        dev.log().line_with(&["swapped", &format!("{served}.wasm")]).await;
        Self { subject, language, served, built, to_answer: vec![], to_build: vec![], _dev: dev }
    }

    async fn edit(&mut self, edit: usize, home: &Path, service: &Service) {
        let edited = edit_of(&home.join(&self.served).join(self.language.source), edit);
        while !greeting(service, &self.served).await.contains(&format!("Welcome {edit}, Ada!")) {
            tokio::time::sleep(ASKED_EVERY).await;
        }
        self.to_answer.push(edited.elapsed());
        let edited = edit_of(&home.join(&self.built).join(self.language.source), edit);
        done(&self.subject, home, &["build", &self.built]).await;
        self.to_build.push(edited.elapsed());
    }

    fn report(&mut self) {
        let (to_answer, to_build) = (median(&mut self.to_answer[1..]), median(&mut self.to_build[1..]));
        let (name, language, edits) = (self.subject.name, self.language.name, EDITS - 1);
        // The aim of the others is for what is not their toolchain's.
        let (aim, rest) = (3, to_answer - to_build);
        let of_whole = if language == "rust" { format!(" (aim: {aim})") } else { String::new() };
        println!(
            "edit to answer, `agent-tool dev` of {name}, {language}: median of {edits} edits {to_answer:.2} \
             s{of_whole}"
        );
        println!("  of that the toolchain, as `agent-tool build` of the same edit: {to_build:.2} s");
        println!("  all else: {rest:.2} s (aim: {aim})");
    }
}

/// The author's program, in an environment that keeps what the SDK is made of.
fn command(subject: &Subject, folder: &Path, arguments: &[&str]) -> Command {
    let mut command: Command = subject.author().into();
    let kept = repository().join("target/tmp");
    command.args(arguments).current_dir(folder).env("CARGO_TARGET_DIR", kept.join("tool-projects"));
    command
}

async fn done(subject: &Subject, folder: &Path, arguments: &[&str]) {
    let output = command(subject, folder, arguments).output().await.unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Edits a source, and says when.
fn edit_of(source: &Path, edit: usize) -> Instant {
    let text = fs::read_to_string(source).unwrap();
    let former = if edit == 0 { ORIGINAL.to_owned() } else { format!("Welcome {},", edit - 1) };
    let edited = text.replace(&former, &format!("Welcome {edit},"));
    assert_ne!(text, edited, "there is something to replace");
    let now = Instant::now();
    fs::write(source, edited).unwrap();
    now
}

async fn greeting(service: &Service, tool: &str) -> String {
    let result = service.result_of(&order(&tool.replace('-', "_"), &json!({ "name": "Ada" }))).await;
    result["output"].as_str().unwrap_or_default().to_owned()
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}
