//! `agent-tool build`: from a tool's sources to its component.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use host_setup::output::{json_line, print};
use host_setup::program::Exit;
use host_setup::settings::{EnvVars as _, ProcessEnv};
use serde_json::{Value, json};
use tool_build::{Built, Placed, Progress, Project, Surroundings};

/// What to build.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder with the tool's sources
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// The file to write, or a folder for it; without it NAME.wasm in the tool's folder
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let project = Project::open(&arguments.folder)?;
    let built = project.build(&surroundings(), &Terminal)?;
    let file = format!("{}.wasm", built.name);
    let target = match &arguments.out {
        None => project.folder.join(file),
        Some(out) if out.is_dir() || out.as_os_str().as_encoded_bytes().ends_with(b"/") => out.join(file),
        Some(out) => out.clone(),
    };
    let placed = tool_build::place(&built.bytes, &target)?;
    if let Some(text) = outdated_signature(&target, placed) {
        Terminal.step(&text);
    }
    print(&if json {
        json_line(&as_json(&built, &target, placed))
    } else {
        describe(&built, &target, placed)
    })?;
    Ok(Exit::Success)
}

/// What a build takes from the environment.
pub(crate) fn surroundings() -> Surroundings {
    let named = ProcessEnv.get("CARGO_HOME").map(PathBuf::from);
    Surroundings { cargo_home: named.or_else(|| Some(std::env::home_dir()?.join(".cargo"))) }
}

/// Tells somebody at a terminal how far a build has got.
pub(crate) struct Terminal;

impl Progress for Terminal {
    fn step(&self, text: &str) {
        // Nobody to tell is no reason not to build.
        let _ = writeln!(io::stderr(), "agent-tool: {text}");
    }

    fn line(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// What was built, a line each.
fn describe(built: &Built, target: &Path, placed: Placed) -> String {
    let mut lines = vec![
        ("component", target.display().to_string()),
        ("size", size(built.bytes.len())),
        ("digest", built.digest.clone()),
        ("took", format!("{:.1} s", built.took.as_secs_f64())),
    ];
    if placed == Placed::Same {
        lines.push(("unchanged", "the file had these bytes already".to_owned()));
    }
    let grants = built.outside.grants();
    if !grants.is_empty() {
        let needed = format!(
            "{}: it serves once the operator's policy has the lines of policy.toml",
            grants.join(", ")
        );
        lines.push(("needs", needed));
    }
    lines.into_iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}

/// The same for programs.
pub(crate) fn as_json(built: &Built, target: &Path, placed: Placed) -> Value {
    json!({
        "component": target, "bytes": built.bytes.len(), "digest": built.digest, "seconds": built.took.as_secs_f64(),
        "toolchain": built.toolchain, "toolchainSeconds": built.toolchain_took.as_secs_f64(),
        "isChanged": placed == Placed::New, "needsGrants": built.outside.grants(),
    })
}

/// What to do about the signature beside a component, if that is of what was in its place before: hosts whose
/// policy wants one refuse the two, and `publish` sends it along.
pub(crate) fn outdated_signature(target: &Path, placed: Placed) -> Option<String> {
    let signature = target.with_added_extension("sig");
    (placed == Placed::New && signature.exists()).then(|| {
        format!("{} is of another component: sign this one with `agent-tool sign`", signature.display())
    })
}

/// Bytes as people read them.
pub(crate) fn size(bytes: usize) -> String {
    let kibibytes = bytes as f64 / 1024.0;
    if kibibytes < 1024.0 { format!("{kibibytes:.1} KiB") } else { format!("{:.1} MiB", kibibytes / 1024.0) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_signature_of_what_was_there_before_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("adder.wasm");
        assert_eq!(outdated_signature(&target, Placed::New), None);
        fs::write(folder.path().join("adder.wasm.sig"), "").unwrap();
        assert_eq!(outdated_signature(&target, Placed::Same), None);
        let said = outdated_signature(&target, Placed::New).unwrap();
        assert!(said.contains("adder.wasm.sig is of another component"), "{said}");
    }
}
