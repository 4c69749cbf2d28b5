//! What a component says of itself before anything is compiled: is it a component, which version of the contract it was
//! built for, and which capabilities it wants. A pure reader of bytes: what may be imported is the table of
//! `capability/`.

use std::collections::BTreeSet;

use wasmparser::{Encoding, Parser, Payload};

use crate::capability::CapabilitySet;
use crate::capability::imports::SERVED;
use crate::error::LoadError;
use crate::untrusted_text::printable;

/// The interface every tool exports, without its version.
pub(crate) const TOOL_INTERFACE: &str = "agent:tool/tool@";

/// [`SERVED`] in words.
const SERVED_TEXT: &str = "agent:tool@0.1.1 and agent:tool@0.1.0";

/// How every WebAssembly file begins.
const WASM_MAGIC: &[u8] = b"\0asm";

/// Most imports or exports that an error names, and most bytes of each.
const NAMED: usize = 5;
const NAME_BYTES: usize = 100;

/// Most imports that operators are shown: those of a component with the whole of WASI are some forty.
const MOST_SHOWN: usize = 200;

/// What a component wants of its host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ComponentImports {
    /// Whether it exports the contract; else functions of its own, which may be tools.
    pub(crate) is_of_contract: bool,
    pub(crate) capabilities: CapabilitySet,
    /// The names of everything that it imports, sorted, as far as they are worth showing.
    pub(crate) imports: Vec<String>,
    /// Imports that no capability answers. Of a component with functions of its own they may be interfaces of types alone,
    /// which nobody has to answer: that is known when it has been compiled.
    unanswered: Vec<String>,
}

impl ComponentImports {
    /// Refuses what is imported and not answered, but for these interfaces of types.
    pub(crate) fn refuse_unanswered(
        &self,
        types: impl FnOnce() -> BTreeSet<String>,
    ) -> Result<(), LoadError> {
        if self.unanswered.is_empty() {
            return Ok(());
        }
        let types = types();
        let refused: Vec<_> = self.unanswered.iter().filter(|name| !types.contains(*name)).cloned().collect();
        if refused.is_empty() { Ok(()) } else { Err(LoadError::Ungranted(name_some(&refused))) }
    }
}

/// Reads a component's exports and imports. Says what it wants; whether it may have that is the policy's.
pub(crate) fn inspect(bytes: &[u8]) -> Result<ComponentImports, LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    if !bytes.starts_with(WASM_MAGIC)
        && let Some(found) = recognize(bytes)
    {
        return Err(LoadError::SomethingElse(found));
    }
    let (exports, imports) = outer_names(bytes)?;
    let is_of_contract = exports_contract(&exports)?;
    let (capabilities, unanswered) = CapabilitySet::answering(&imports);
    let mut shown: Vec<_> = imports.iter().take(MOST_SHOWN).map(|name| printable(name, NAME_BYTES)).collect();
    shown.sort_unstable();
    let wants = ComponentImports { is_of_contract, capabilities, imports: shown, unanswered };
    if is_of_contract {
        wants.refuse_unanswered(BTreeSet::new)?;
    }
    Ok(wants)
}

/// What a file is that people put here by mistake, by how it begins.
fn recognize(bytes: &[u8]) -> Option<&'static str> {
    const KNOWN: &[(&[u8], &str)] = &[
        (b"\x7fELF", "an ELF binary, so a native program or library: build for a WebAssembly target"),
        (b"MZ", "a Windows program or library: build for a WebAssembly target"),
        (
            b"\xcf\xfa\xed\xfe",
            "a Mach-O binary, so a native program or library: build for a WebAssembly target",
        ),
        (b"\x1f\x8b", "compressed with gzip: unpack it"),
        (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it"),
        (b"PK\x03\x04", "a zip archive: unpack it"),
        (b"!<arch>", "an archive of object files: link it as a `cdylib`"),
        (b"#!", "a script: a toolchain has to make a component of it"),
        (b"(module", "WebAssembly in its text form: `wasm-tools parse` makes a binary of it"),
        (b"(component", "WebAssembly in its text form: `wasm-tools parse` makes a binary of it"),
        (
            b"{",
            "JSON, perhaps an error of where it was downloaded from: read it, then download the component again",
        ),
        (b"version https://git-lfs", "a pointer of Git LFS: fetch the file itself with `git lfs pull`"),
    ];
    let text = bytes.trim_ascii_start();
    let known = KNOWN.iter().find(|(start, _)| bytes.starts_with(start) || text.starts_with(start));
    if let Some((_, found)) = known {
        return Some(found);
    }
    let start: String = text.iter().take(16).map(|byte| char::from(byte.to_ascii_lowercase())).collect();
    let html = ["<!doctype html", "<html", "<head", "<?xml"].iter().any(|tag| start.starts_with(tag));
    html.then_some("an HTML or XML page, perhaps an error page of where it was downloaded from: read it, then download the component again")
}

/// Names of the exports and imports of the outermost component.
pub(crate) fn outer_names(bytes: &[u8]) -> Result<(Vec<String>, Vec<String>), LoadError> {
    let broken = |error: wasmparser::BinaryReaderError| {
        // Its text goes on over many lines of hexadecimal digits.
        let text = error.to_string();
        LoadError::NotWasm(printable(text.lines().next().unwrap_or_default(), NAME_BYTES))
    };
    let (mut exports, mut imports, mut depth) = (Vec::new(), Vec::new(), 0_u32);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(broken)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(LoadError::CoreModule);
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports.push(export.map_err(broken)?.name.name.to_owned());
                }
            }
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.push(import.map_err(broken)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok((exports, imports))
}

/// Whether a component exports the contract in a version that is served.
fn exports_contract(exports: &[String]) -> Result<bool, LoadError> {
    // A component may offer several versions side by side; one that is served will do.
    let versions: Vec<_> = exports.iter().filter_map(|name| name.strip_prefix(TOOL_INTERFACE)).collect();
    let Some(first) = versions.first() else {
        // What is of WASI is for other hosts to call.
        if exports.iter().all(|name| name.starts_with("wasi:")) {
            return Err(LoadError::NotATool(name_some(exports)));
        }
        return Ok(false);
    };
    if versions.iter().any(|version| SERVED.contains(version)) {
        return Ok(true);
    }
    Err(LoadError::UnknownVersion { found: printable(first, NAME_BYTES), served: SERVED_TEXT })
}

/// The first few names: a stranger's file may have a million of them, each as long as it likes.
fn name_some(names: &[String]) -> String {
    let mut text: Vec<_> = names.iter().take(NAMED).map(|name| printable(name, NAME_BYTES)).collect();
    if text.is_empty() {
        return "nothing".to_owned();
    }
    if names.len() > NAMED {
        text.push(format!("and {} more", names.len() - NAMED));
    }
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspect_text(text: &str) -> Result<CapabilitySet, String> {
        let wants = inspect(&wat::parse_str(text).unwrap());
        wants.map(|wants| wants.capabilities).map_err(|error| error.to_string())
    }

    fn exporting(name: &str) -> String {
        format!(r#"(component (instance) (export "{name}" (instance 0)))"#)
    }

    fn importing(name: &str) -> String {
        format!(
            r#"(component (import "{name}" (instance))
                (instance $i) (export "agent:tool/tool@0.1.0" (instance $i)))"#
        )
    }

    #[test]
    fn what_is_no_component_is_refused_in_words() {
        let of = |bytes: &[u8]| inspect(bytes).unwrap_err().to_string();
        insta::assert_snapshot!(of(b""), @"is empty; write the file aside and rename it into the folder");
        insta::assert_snapshot!(of(&wat::parse_str("(module)").unwrap()), @"is a core module, not a component; wrap it with `wasm-tools component new` or build it as wit/README.md says");
        let whole = wat::parse_str(exporting("agent:tool/tool@0.1.0")).unwrap();
        for cut in 1..whole.len() {
            let error = inspect(&whole[..cut]).expect_err("a part of a component");
            assert!(matches!(error, LoadError::NotWasm(_) | LoadError::NotATool(_)), "{cut}: {error}");
        }
        assert!(of(b"not wasm at all").starts_with("is not a whole WebAssembly file"));
    }

    #[test]
    fn a_file_that_is_something_else_is_told_what_it_is() {
        let of = |bytes: &[u8]| inspect(bytes).unwrap_err().to_string();
        insta::assert_snapshot!(of(b"\x7fELF\x02\x01\x01"), @"is not a WebAssembly component but an ELF binary, so a native program or library: build for a WebAssembly target");
        insta::assert_snapshot!(of(b"\n<!DOCTYPE html>\n<html>"), @"is not a WebAssembly component but an HTML or XML page, perhaps an error page of where it was downloaded from: read it, then download the component again");
        insta::assert_snapshot!(of(b"{\"error\": 404}"), @"is not a WebAssembly component but JSON, perhaps an error of where it was downloaded from: read it, then download the component again");
        for (bytes, named) in [
            (&b"<html lang=en>"[..], "an HTML"),
            (b"#!/bin/sh\n", "a script"),
            (b"MZ\x90\0", "a Windows program"),
            (b"\x1f\x8b\x08", "gzip"),
            (b"PK\x03\x04", "zip"),
            (b"(component)", "text form"),
            (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        ] {
            assert!(of(bytes).contains(named), "{}", of(bytes));
        }
    }

    #[test]
    fn of_several_versions_that_are_exported_one_that_is_served_is_enough() {
        let both = |first: &str, second: &str| {
            let name = |version| format!(r#"(export "agent:tool/tool@{version}" (instance 0))"#);
            format!("(component (instance) {} {})", name(first), name(second))
        };
        assert_eq!(inspect_text(&both("7.0.0", "0.1.0")), Ok(CapabilitySet::default()));
        assert_eq!(inspect_text(&both("0.1.0", "7.0.0")), Ok(CapabilitySet::default()));
        assert!(inspect_text(&both("7.0.0", "8.0.0")).unwrap_err().contains("agent:tool@7.0.0"));
    }

    #[test]
    fn an_unknown_version_is_refused_by_name() {
        insta::assert_snapshot!(inspect_text(&exporting("agent:tool/tool@7.0.0")).unwrap_err(),
            @"is built for agent:tool@7.0.0; this host serves agent:tool@0.1.1 and agent:tool@0.1.0: rebuild it against one of those");
        insta::assert_snapshot!(inspect_text(&exporting("wasi:http/incoming-handler@0.2.0")).unwrap_err(),
            @"does not export agent:tool/tool or functions of its own, so it is not a tool; it exports wasi:http/incoming-handler@0.2.0: build it for a world of wit/tool.wit");
    }

    #[test]
    fn only_what_is_granted_may_be_imported() {
        for granted in ["agent:tool/log@0.1.0", "wasi:cli/environment@0.2.3"] {
            let (expected, _) = CapabilitySet::answering(&[granted.to_owned()]);
            assert_eq!(inspect_text(&importing(granted)), Ok(expected));
        }
        for refused in
            ["wasi:cli/environment@0.3.0", "agent:tool/toolbox@0.2.0", "agent:tool/log@0.2.0", "env"]
        {
            let error = inspect_text(&importing(refused)).unwrap_err();
            let text = format!(
                "imports {refused}, which this host does not grant to tools: build it without, for agent:tool@0.1.1, WASI 0.2 \
                 and nothing else"
            );
            assert_eq!(error, text);
        }
    }
}
