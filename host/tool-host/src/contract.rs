//! What a component says of itself before anything is compiled: is it a component, which version of the
//! contract it was built for, and what it wants from the host.

use wasmparser::{Encoding, Parser, Payload};

use crate::error::LoadError;
use crate::state::printable;

/// The interface every tool exports, without its version.
const TOOL_INTERFACE: &str = "agent:tool/tool@";

/// Versions of `agent:tool` that this host serves.
const SERVED: &[&str] = &["0.1.0"];

/// [`SERVED`] in words.
const SERVED_TEXT: &str = "agent:tool@0.1.0";

/// Interfaces of the contract that every tool may import.
const OPEN_INTERFACES: &[&str] = &["context", "log", "clock"];

/// Packages of WASI 0.2 that are linked closed: the standard libraries of several languages import them
/// always, and get no files, no sockets, no environment and no arguments from them.
const CLOSED_WASI: &[&str] =
    &["wasi:cli", "wasi:clocks", "wasi:filesystem", "wasi:io", "wasi:random", "wasi:sockets"];

/// Most imports or exports that an error names, and most bytes of each.
const NAMED: usize = 5;
const NAME_BYTES: usize = 100;

/// What a component wants from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wants {
    /// Whether it imports WASI.
    pub(crate) wasi: bool,
}

/// Reads a component's exports and imports.
pub(crate) fn inspect(bytes: &[u8]) -> Result<Wants, LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    let (exports, imports) = outer_names(bytes)?;
    check_version(&exports)?;
    let refused: Vec<_> = imports.iter().filter(|name| !is_granted(name)).cloned().collect();
    if !refused.is_empty() {
        return Err(LoadError::Ungranted(name_some(&refused)));
    }
    Ok(Wants { wasi: imports.iter().any(|name| name.starts_with("wasi:")) })
}

/// Names of the exports and imports of the outermost component.
fn outer_names(bytes: &[u8]) -> Result<(Vec<String>, Vec<String>), LoadError> {
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

fn check_version(exports: &[String]) -> Result<(), LoadError> {
    let Some(found) = exports.iter().find_map(|name| name.strip_prefix(TOOL_INTERFACE)) else {
        return Err(LoadError::NotATool(name_some(exports)));
    };
    if SERVED.contains(&found) {
        return Ok(());
    }
    Err(LoadError::UnknownVersion { found: found.to_owned(), served: SERVED_TEXT })
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

fn is_granted(import: &str) -> bool {
    let Some((package, rest)) = import.split_once('/') else { return false };
    let Some((interface, version)) = rest.split_once('@') else { return false };
    match package {
        "agent:tool" => OPEN_INTERFACES.contains(&interface) && SERVED.contains(&version),
        wasi => CLOSED_WASI.contains(&wasi) && version.starts_with("0.2."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspect_text(text: &str) -> Result<Wants, String> {
        inspect(&wat::parse_str(text).unwrap()).map_err(|error| error.to_string())
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
        assert!(of(b"#!/bin/sh\n").starts_with("is not a whole WebAssembly file"));
    }

    #[test]
    fn an_unknown_version_is_refused_by_name() {
        insta::assert_snapshot!(inspect_text(&exporting("agent:tool/tool@7.0.0")).unwrap_err(),
            @"is built for agent:tool@7.0.0; this host serves agent:tool@0.1.0: rebuild it against one of those");
        insta::assert_snapshot!(inspect_text(&exporting("wasi:http/incoming-handler@0.2.0")).unwrap_err(),
            @"does not export agent:tool/tool, so it is not a tool; it exports wasi:http/incoming-handler@0.2.0");
    }

    #[test]
    fn only_what_is_granted_may_be_imported() {
        assert_eq!(inspect_text(&importing("agent:tool/log@0.1.0")), Ok(Wants { wasi: false }));
        assert_eq!(inspect_text(&importing("wasi:cli/environment@0.2.3")), Ok(Wants { wasi: true }));
        for refused in [
            "wasi:http/outgoing-handler@0.2.3",
            "wasi:cli/environment@0.3.0",
            "agent:tool/secrets@0.1.0",
            "agent:tool/log@0.2.0",
            "env",
        ] {
            let error = inspect_text(&importing(refused)).unwrap_err();
            assert_eq!(error, format!("imports {refused}, which this host does not grant to tools"));
        }
    }
}
