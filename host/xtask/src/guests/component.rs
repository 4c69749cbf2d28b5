//! From a core module to a component in its place.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use wasmparser::{Parser, Payload};
use wit_component::ComponentEncoder;

/// What a tool that we ship may import: interfaces of the contract, and nothing else.
const CONTRACT: &str = "agent:tool/";

/// What one may import besides that is served only under a grant.
const GRANTED: [&str; 3] = ["wasi:http/", "wasi:io/", "wasi:clocks/"];

/// Whether placing a component changed anything.
pub(super) enum Placed {
    /// The file is new, or its content is.
    New,
    /// The file had this content already and was not touched.
    Same,
}

/// Makes a component of a core module that carries its component type, as `wit-bindgen` leaves it.
pub(super) fn encode(module: &Path, is_granted: bool) -> anyhow::Result<Vec<u8>> {
    let module = fs::read(module).with_context(|| format!("reading {}", module.display()))?;
    let component = ComponentEncoder::default().validate(true).module(&module)?.encode()?;
    refuse_foreign_imports(&component, is_granted)?;
    Ok(component)
}

/// A tool is sandboxed by what it cannot name, so one that imports more than the contract is not written at
/// all.
fn refuse_foreign_imports(component: &[u8], is_granted: bool) -> anyhow::Result<()> {
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(imports) if depth == 0 => {
                for import in imports {
                    let name = import?.name.name;
                    let may = is_granted && GRANTED.iter().any(|package| name.starts_with(package));
                    if !name.starts_with(CONTRACT) && !may {
                        bail!("it imports `{name}`; a tool may import nothing but {CONTRACT}*");
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
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
