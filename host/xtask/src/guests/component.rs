//! From a core module to a component in its place.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use wasmparser::{Parser, Payload};
use wit_component::ComponentEncoder;

/// What a tool that we ship may import: interfaces of the contract, and nothing else.
const CONTRACT: &str = "agent:tool/";

/// Of the contract, what is served only under a grant.
const GRANTED_OF_CONTRACT: [&str; 2] = ["agent:tool/key-value@", "agent:tool/toolbox@"];

/// What is served under a grant besides.
const GRANTED: [&str; 3] = ["wasi:http/", "wasi:io/", "wasi:clocks/"];

/// Whether a component has to be granted what it imports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It has to, and its crate has an example of the policy that does.
    Grant,
    /// It must not.
    NoGrant,
    /// Either.
    Any,
}

/// Whether placing a component changed anything.
pub(super) enum Placed {
    /// The file is new, or its content is.
    New,
    /// The file had this content already and was not touched.
    Same,
}

/// Makes a component of a core module that carries its component type, as `wit-bindgen` leaves it.
pub(super) fn encode(module: &Path, need: Need) -> anyhow::Result<Vec<u8>> {
    let module = fs::read(module).with_context(|| format!("reading {}", module.display()))?;
    let component = ComponentEncoder::default().validate(true).module(&module)?.encode()?;
    check_imports(&read_imports(&component)?, need)?;
    Ok(component)
}

/// A tool is sandboxed by what it cannot name, so one that imports more than the contract is not written at
/// all, and one that needs a grant only where that is said.
fn check_imports(imports: &[String], need: Need) -> anyhow::Result<()> {
    let begins = |name: &str, list: &[&str]| list.iter().any(|beginning| name.starts_with(beginning));
    let granted = imports.iter().find(|name| begins(name, &GRANTED_OF_CONTRACT) || begins(name, &GRANTED));
    match (need, granted) {
        (Need::NoGrant, Some(name)) => bail!(
            "it imports `{name}`, which an operator has to grant: put an example of the lines that do into policy.toml \
             beside its Cargo.toml, and it is written to another folder"
        ),
        (Need::Grant, None) => bail!("it imports nothing that has to be granted: remove its policy.toml"),
        _ => {}
    }
    match imports.iter().find(|name| !name.starts_with(CONTRACT) && !begins(name, &GRANTED)) {
        Some(name) => bail!("it imports `{name}`; a tool may import nothing but {CONTRACT}*"),
        None => Ok(()),
    }
}

/// What a component imports, but for what components within it do.
fn read_imports(component: &[u8]) -> anyhow::Result<Vec<String>> {
    let mut depth = 0_u32;
    let mut names = Vec::new();
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(imports) if depth == 0 => {
                for import in imports {
                    names.push(import?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(names)
}

/// Puts a component in its place, written aside and renamed, so that a host that watches the folder never
/// reads half of it; and not at all when it is there already.
pub(super) fn place(component: &[u8], target: &Path) -> anyhow::Result<Placed> {
    if fs::read(target).is_ok_and(|present| present == component) {
        return Ok(Placed::Same);
    }
    let folder = target.parent().context("a component goes into a folder")?;
    let aside = target.with_extension(format!("wasm.{}", std::process::id()));
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    fs::write(&aside, component).with_context(|| format!("writing {}", aside.display()))?;
    fs::rename(&aside, target).with_context(|| format!("writing {}", target.display()))?;
    Ok(Placed::New)
}

#[cfg(test)]
mod tests {
    use super::{Need, check_imports};

    #[test]
    fn what_needs_a_grant_is_told_from_what_does_not() {
        let imports = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let plain = imports(&["agent:tool/log@0.1.1", "agent:tool/types@0.1.1", "agent:tool/config@0.1.1"]);
        for granted in ["agent:tool/key-value@0.1.1", "agent:tool/toolbox@0.1.1", "wasi:http/types@0.2.12"] {
            let granted = imports(&["agent:tool/log@0.1.1", granted]);
            assert!(
                check_imports(&granted, Need::Grant).is_ok() && check_imports(&granted, Need::Any).is_ok()
            );
            let refusal = check_imports(&granted, Need::NoGrant).unwrap_err().to_string();
            assert!(refusal.contains("which an operator has to grant"), "{refusal}");
        }
        assert!(check_imports(&plain, Need::NoGrant).is_ok() && check_imports(&plain, Need::Any).is_ok());
        let refusal = check_imports(&plain, Need::Grant).unwrap_err().to_string();
        assert!(refusal.ends_with("remove its policy.toml"), "{refusal}");
        for need in [Need::Grant, Need::NoGrant, Need::Any] {
            let foreign = imports(&["agent:tool/key-value@0.1.1", "wasi:sockets/tcp@0.2.0"]);
            assert!(check_imports(&foreign, need).is_err(), "{need:?}");
        }
    }
}
