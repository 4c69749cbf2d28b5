//! `agent-tool new`, `build` and `dev`, as authors use them: outside of the repository, in a folder whose
//! path has spaces, with the real toolchains. `cargo xtask test` installs what these need once.

mod dev;
mod languages;
mod refusals;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use acceptance::{agent_host, agent_tool, repository};
use tempfile::TempDir;
use tool_host::Precompiler;

/// Where authors have their tools.
struct Desk {
    home: TempDir,
    /// Compiles what components of this desk have in common once.
    precompiler: Option<Precompiler>,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { home: tempfile::tempdir().unwrap(), precompiler: None };
        fs::create_dir(desk.path()).unwrap();
        desk
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("tools of mine")
    }

    /// The author's program here, in the environment of these tests: the toolchains need theirs.
    fn command(&self, arguments: &[&str]) -> Command {
        self.program(&agent_tool(), arguments)
    }

    fn program(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.path())
            .env("CARGO_TARGET_DIR", cargo_folder())
            .env("TOOLS_CACHE_DIR", compile_cache());
        command
    }

    /// Makes a project and returns its folder. The packages of npm are those that `cargo xtask test`
    /// installed.
    fn new_project(&self, name: &str, language: &str, example: &str) -> PathBuf {
        let made = run(&mut self.command(&["new", name, "--lang", language, "--example", example]));
        assert!(made.stdout.starts_with("a tool in "), "{made:?}");
        let folder = self.path().join(name);
        if language == "js" {
            symlink(
                repository().join("target/test-servers/componentize-js/node_modules"),
                folder.join("node_modules"),
            )
            .unwrap();
        }
        folder
    }

    /// Builds a project, and compiles what came of it if components of this desk share functions.
    fn build(&self, project: &str) -> Done {
        let built = run(&mut self.command(&["build", project]));
        if let Some(precompiler) = self.precompiler.as_ref().filter(|_| built.succeeded) {
            let component = self.path().join(project).join(format!("{project}.wasm"));
            precompiler.compile(&fs::read(component).unwrap()).unwrap();
        }
        built
    }

    /// Calls a tool of the components in a folder.
    fn call(&self, folder: &Path, tool: &str, arguments: &str) -> Command {
        let mut command = self.program(&agent_host(), &["tools", "call", tool, arguments]);
        command.env("TOOLS_DIR", folder);
        command
    }
}

/// Compiled components of these tests.
fn compile_cache() -> PathBuf {
    repository().join("target/tmp/tool-projects-compiled")
}

/// Where `cargo xtask guests` has compiled what the SDK is made of, which takes minutes: cargo takes it from
/// there.
fn cargo_folder() -> PathBuf {
    repository().join("guest-tools/target")
}

/// What a command came to.
#[derive(Debug)]
struct Done {
    succeeded: bool,
    stdout: String,
    stderr: String,
}

/// Runs a command to its end.
fn run(command: &mut Command) -> Done {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Done { succeeded: status.success(), stdout: text(stdout), stderr: text(stderr) }
}
