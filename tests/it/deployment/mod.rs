//! What stands in host/deploy/ is true of the service, and is accepted by whatever is to read it. One file
//! per claim: `alerts` (rules, cases, runbook), `metrics` (what rules and dashboard ask for is there),
//! `manifests` (Kubernetes, systemd, compose), `settings` (the variables exist and their values are valid).
//!
//! promtool and systemd-analyze are Debian's; the validator of manifests and the reader of YAML are Python's,
//! in a virtual environment below target/. `cargo xtask test` installs them.

mod alerts;
mod manifests;
mod metrics;
mod settings;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use acceptance::repository;
use serde_json::Value;

/// Where `cargo xtask test` puts what these tests need of Python.
const PYTHON: &str = "target/test-servers/kubernetes-validate/bin/python3";

/// The folder of the manifests, seen from host/deploy/.
const KUBERNETES: &str = "kubernetes";

/// A file or folder of host/deploy/.
fn place(name: impl AsRef<Path>) -> PathBuf {
    repository().join("host/deploy").join(name)
}

fn text(file: impl AsRef<Path>) -> String {
    let file = place(file);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The documents of a YAML file.
fn yaml(file: impl AsRef<Path>) -> Vec<Value> {
    const PROGRAM: &str = "import json, sys, yaml\n\
        json.dump(list(yaml.safe_load_all(open(sys.argv[1], encoding='utf-8'))), sys.stdout)";
    let output = run(python().args(["-c", PROGRAM]).arg(place(&file)));
    assert!(output.status.success(), "{}: {}", file.as_ref().display(), shown(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every manifest, and the file that it is in.
fn manifests() -> Vec<(String, Value)> {
    let entries = fs::read_dir(place(KUBERNETES)).unwrap();
    let files = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let documents = |file: String| {
        let documents = yaml(Path::new(KUBERNETES).join(&file));
        documents.into_iter().map(move |document| (file.clone(), document))
    };
    files.flat_map(documents).collect()
}

/// The only manifest of that kind.
fn manifest(kind: &str) -> Value {
    let mut found: Vec<_> =
        manifests().into_iter().filter(|(_, document)| document["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind}");
    found.remove(0).1
}

fn python() -> Command {
    let python = repository().join(PYTHON);
    assert!(python.exists(), "there is no {PYTHON}: `cargo xtask test` installs it");
    Command::new(python)
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: `cargo xtask test` installs it"))
}

fn shown(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

/// What a text of a value is; it has to be one.
fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The elements of a list; it has to be one.
fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}
