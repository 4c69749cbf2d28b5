//! The software bill of materials of what is shipped: CycloneDX 1.6 as JSON, made of what cargo itself says.
//!
//! `cargo tree` names the crates that the binaries are linked from, with the features of its own build;
//! `cargo metadata` has their licences and what depends on what; `Cargo.lock` has their checksums. There is
//! no time and no random number in it, so that two builds of one commit have the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::run::cargo;

/// The package that the document is about, and the one whose binary lies beside it.
const BINARY: &str = "agent-host";
const BESIDE: &str = "agent-tool";

/// Name and version of a crate.
type Crate = (String, String);

/// A file that is shipped: its name, and the SHA-256 of its bytes in hexadecimal.
pub(super) type Shipped = (String, String);

/// The document for the binaries of those packages, and for the tools that go with them.
pub(super) fn describe(repository: &Path, binaries: &[Shipped], tools: &[Shipped]) -> anyhow::Result<Value> {
    let linked = linked_crates(repository)?;
    let checksums =
        checksums(&fs::read_to_string(repository.join("Cargo.lock")).context("reading Cargo.lock")?);
    let metadata = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &host()?];
    let metadata: Value = serde_json::from_str(&output(&mut cargo(repository, metadata))?)?;
    let mut components = Vec::new();
    let mut root = Value::Null;
    let mut references = BTreeMap::new();
    for package in elements(&metadata["packages"]) {
        let key = (text(&package["name"]).to_owned(), text(&package["version"]).to_owned());
        if !linked.contains(&key) {
            continue;
        }
        references.insert(text(&package["id"]), reference(&key));
        let mut component = component(package, &key, checksums.get(&key));
        if let Some((_, digest)) = binaries.iter().find(|(name, _)| *name == key.0) {
            component["type"] = json!("application");
            component["hashes"] = json!([hash(digest)]);
        }
        if key.0 == BINARY { root = component } else { components.push(component) }
    }
    ensure!(components.len() + 1 == linked.len(), "cargo metadata does not know all crates of cargo tree");
    for (name, digest) in tools {
        components.push(json!({
            "type": "file", "bom-ref": format!("tool:{name}"), "name": name, "hashes": [hash(digest)],
        }));
    }
    components.sort_by(|one, other| text(&one["bom-ref"]).cmp(text(&other["bom-ref"])));
    let nodes = elements(&metadata["resolve"]["nodes"]);
    let mut dependencies: Vec<_> = nodes.iter().filter_map(|node| dependency(node, &references)).collect();
    dependencies.sort_by(|one, other| text(&one["ref"]).cmp(text(&other["ref"])));
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": root },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The crates that the binaries are linked from, themselves included: neither what only builds and tests
/// need, nor what other systems do.
fn linked_crates(repository: &Path) -> anyhow::Result<BTreeSet<Crate>> {
    let packages = ["tree", "--package", BINARY, "--package", BESIDE, "--locked"];
    let shown = ["--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let listed = output(&mut cargo(repository, packages.into_iter().chain(shown)))?;
    // `name v1.2.3`, and then where it is from, if it is no registry.
    let read = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    Ok(listed.lines().filter_map(read).collect())
}

/// The SHA-256 of every crate of a registry.
fn checksums(lock: &str) -> BTreeMap<Crate, String> {
    let package = |text: &str| {
        let value = |key: &str| {
            let mut values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            values.next().map(|value| value.trim_matches('"').to_owned())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]").filter_map(package).collect()
}

fn component(package: &Value, key: &Crate, checksum: Option<&String>) -> Value {
    let reference = reference(key);
    let mut component = json!({
        "type": "library", "bom-ref": reference, "name": key.0, "version": key.1, "purl": reference,
    });
    if let Some(checksum) = checksum {
        component["hashes"] = json!([hash(checksum)]);
    }
    if let Some(license) = package["license"].as_str() {
        // Older crates write a slash, which SPDX does not know.
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    if let Some(repository) = package["repository"].as_str() {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

/// What one crate depends on, as far as that is linked.
fn dependency(node: &Value, references: &BTreeMap<&str, String>) -> Option<Value> {
    let reference = references.get(text(&node["id"]))?;
    let is_normal = |one: &&Value| elements(&one["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
    let normal = elements(&node["deps"]).iter().filter(is_normal);
    let on: BTreeSet<_> = normal.filter_map(|one| references.get(text(&one["pkg"]))).collect();
    Some(json!({ "ref": reference, "dependsOn": on }))
}

fn reference((name, version): &Crate) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn hash(digest: &str) -> Value {
    json!({ "alg": "SHA-256", "content": digest })
}

/// The target that is built for.
pub(super) fn host() -> anyhow::Result<String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lists_what_is_linked_with_licences_and_checksums_and_nothing_else() {
        let tools = [("calculator.wasm".to_owned(), "0".repeat(64))];
        let binaries = [("agent-host".to_owned(), "1".repeat(64)), ("agent-tool".to_owned(), "2".repeat(64))];
        let document = describe(&crate::repository(), &binaries, &tools).unwrap();
        let components = elements(&document["components"]);
        let named = |name: &str| components.iter().find(|one| one["name"] == name);
        let wasmtime = named("wasmtime").unwrap();
        assert_eq!(wasmtime["licenses"][0]["expression"], "Apache-2.0 WITH LLVM-exception");
        let checksum = text(&wasmtime["hashes"][0]["content"]);
        assert!(
            checksum.len() == 64 && checksum.bytes().all(|digit| digit.is_ascii_hexdigit()),
            "{checksum}"
        );
        assert!(named("agent-core").is_some() && named("calculator.wasm").is_some());
        for of_tests in ["proptest", "insta", "acceptance", "xtask"] {
            assert!(named(of_tests).is_none(), "{of_tests} is not shipped");
        }
        assert_eq!(document["metadata"]["component"]["hashes"][0]["content"], "1".repeat(64));
        let tool = named("agent-tool").unwrap();
        assert_eq!(
            (text(&tool["type"]), text(&tool["hashes"][0]["content"])),
            ("application", &*"2".repeat(64))
        );
        let licensed = components.iter().filter(|one| one["type"] == "library");
        let without: Vec<_> =
            licensed.filter(|one| one["licenses"].is_null()).map(|one| &one["name"]).collect();
        assert_eq!(without, [] as [&Value; 0], "crates without a licence");

        let known: BTreeSet<_> = components.iter().map(|one| text(&one["bom-ref"])).collect();
        assert_eq!(known.len(), components.len(), "no two components have one reference");
        let dependencies = elements(&document["dependencies"]);
        assert!(dependencies.len() > 100);
        for on in dependencies.iter().flat_map(|one| elements(&one["dependsOn"])) {
            assert!(known.contains(text(on)), "{on} is depended on and not described");
        }
        let again = describe(&crate::repository(), &binaries, &tools).unwrap();
        assert_eq!(document, again, "it is the same each time");
    }
}
