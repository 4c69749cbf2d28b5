//! What a component says of itself before anything is compiled: is it a component, which version of the
//! contract it was built for, and which capabilities it wants. A pure reader of bytes: what may be imported
//! is the table of `capability/`.

use std::collections::BTreeSet;

use json_schema::text_sanitizer::printable;
use wasmparser::{Encoding, Parser, Payload};

use crate::capability::imports::SERVED;
use crate::capability::{self, CapabilitySet};
use crate::error::LoadError;

/// The interface every tool exports, without its version.
pub(crate) const TOOL_INTERFACE: &str = "agent:tool/tool@";

/// [`SERVED`] in words.
const SERVED_TEXT: &str = "agent:tool@0.1.1 and agent:tool@0.1.0";

/// How every WebAssembly file begins.
const WASM_MAGIC: &[u8] = b"\0asm";

/// Most imports or exports that an error names, and most bytes of each.
const NAMED: usize = 5;
const NAME_BYTES: usize = 100;

/// Most exports and imports of the outermost component, most bytes of all their names, and how deep
/// components and modules may stand in one another. A file is read here, in the process that serves, before
/// anybody has approved it: five bytes of it are a name.
const MOST_NAMES: usize = 10_000;
const MOST_NAME_BYTES: usize = 1 << 20;
const MOST_LEVELS: u32 = 100;

/// Most imports of a component: operators are shown all of them. Those of one with the whole of WASI are some
/// forty.
const MOST_IMPORTS: usize = 200;

/// What a component wants of its host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ComponentImports {
    /// Whether it exports the contract; else functions of its own, which may be tools.
    pub(crate) is_of_contract: bool,
    pub(crate) capabilities: CapabilitySet,
    /// The names of everything that it imports: what the host answers, then the rest, each sorted.
    pub(crate) imports: Vec<String>,
}

/// The names of the exports and imports of the outermost component, as they stand in its bytes.
#[derive(Debug, Default)]
pub(crate) struct OuterNames<'a> {
    pub(crate) exports: Vec<&'a str>,
    pub(crate) imports: Vec<&'a str>,
    bytes: usize,
}

impl<'a> OuterNames<'a> {
    /// Counts a name before it is kept.
    fn count(&mut self, name: &'a str) -> Result<&'a str, LoadError> {
        self.bytes = self.bytes.saturating_add(name.len());
        if self.exports.len() + self.imports.len() >= MOST_NAMES {
            return Err(LoadError::TooManyNames("more than 10,000 imports and exports"));
        }
        if self.bytes > MOST_NAME_BYTES {
            return Err(LoadError::TooManyNames("more than 1 MiB of names of imports and exports"));
        }
        Ok(name)
    }
}

/// Refuses imports that no capability answers, but for these interfaces of types, which nobody has to answer.
/// Which ones a component with functions of its own has is known when it has been compiled; until then no
/// name is kept.
pub(crate) fn refuse_unanswered(
    bytes: &[u8],
    types: impl FnOnce() -> BTreeSet<String>,
) -> Result<(), LoadError> {
    let names = outer_names(bytes)?;
    let (_, mut unanswered) = CapabilitySet::answering(&names.imports);
    if unanswered.is_empty() {
        return Ok(());
    }
    let types = types();
    unanswered.retain(|name| !types.contains(*name));
    if unanswered.is_empty() { Ok(()) } else { Err(LoadError::Ungranted(name_some(&unanswered))) }
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
    let names = outer_names(bytes)?;
    let is_of_contract = exports_contract(&names.exports)?;
    if names.imports.len() > MOST_IMPORTS {
        return Err(LoadError::TooManyImports { found: names.imports.len(), most: MOST_IMPORTS });
    }
    let (capabilities, unanswered) = CapabilitySet::answering(&names.imports);
    if is_of_contract && !unanswered.is_empty() {
        return Err(LoadError::Ungranted(name_some(&unanswered)));
    }
    let mut shown = names.imports;
    shown.sort_unstable_by_key(|name| (!capability::answers(name), *name));
    let shown = shown.iter().map(|name| printable(name, NAME_BYTES)).collect();
    Ok(ComponentImports { is_of_contract, capabilities, imports: shown })
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

/// Names of the exports and imports of the outermost component, if there are not too many.
pub(crate) fn outer_names(bytes: &[u8]) -> Result<OuterNames<'_>, LoadError> {
    let broken = |error: wasmparser::BinaryReaderError| {
        // An error of wasmparser goes on over many lines of hexadecimal digits.
        let text = error.to_string();
        LoadError::NotWasm(printable(text.lines().next().unwrap_or_default(), NAME_BYTES))
    };
    let (mut names, mut depth) = (OuterNames::default(), 0_u32);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(broken)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(LoadError::CoreModule);
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                depth += 1;
                if depth > MOST_LEVELS {
                    return Err(LoadError::TooManyNames("more than 100 components in one another"));
                }
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let name = names.count(export.map_err(broken)?.name.name)?;
                    names.exports.push(name);
                }
            }
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let name = names.count(import.map_err(broken)?.name.name)?;
                    names.imports.push(name);
                }
            }
            _ => {}
        }
    }
    Ok(names)
}

/// Whether a component exports the contract in a version that is served.
fn exports_contract(exports: &[&str]) -> Result<bool, LoadError> {
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

/// The first few names: a stranger's file may have thousands of them, each as long as it likes.
fn name_some(names: &[&str]) -> String {
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
pub(crate) mod tests {
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
        insta::assert_snapshot!(of(b""), @"is empty: send all of it, or write it aside and rename it into the folder");
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

    /// A component of one section of imports, each of five bytes.
    fn with_imports(count: usize, name: &str) -> Vec<u8> {
        let import = [&[0][..], &leb128(name.len()), name.as_bytes(), &[3, 1]].concat();
        let section = [leb128(count), import.repeat(count)].concat();
        [b"\0asm\x0d\0\x01\0\x0a".as_slice(), &leb128(section.len()), &section].concat()
    }

    /// A number as WebAssembly has lengths.
    pub(crate) fn leb128(mut number: usize) -> Vec<u8> {
        let mut bytes = vec![];
        while number >= 0x80 {
            bytes.push(number as u8 & 0x7f | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }

    #[test]
    fn a_file_of_too_many_names_is_refused_before_they_are_kept() {
        let of = |bytes: &[u8]| inspect(bytes).unwrap_err().to_string();
        assert_eq!(outer_names(&with_imports(MOST_NAMES, "a")).unwrap().imports.len(), MOST_NAMES);
        insta::assert_snapshot!(of(&with_imports(MOST_NAMES + 1, "a")), @"has more than 10,000 imports and exports: no tool needs as much, so it is not read");
        // All that a file may hold: it took a gigabyte.
        insta::assert_snapshot!(of(&with_imports(13_000_000, "a")), @"has more than 10,000 imports and exports: no tool needs as much, so it is not read");
        insta::assert_snapshot!(of(&with_imports(100, &"a".repeat(20_000))), @"has more than 1 MiB of names of imports and exports: no tool needs as much, so it is not read");
        let nested = |levels: usize| {
            let inner = (0..levels).fold(vec![], |inner: Vec<u8>, _| {
                let inner = [b"\0asm\x0d\0\x01\0".as_slice(), &inner].concat();
                [vec![4], leb128(inner.len()), inner].concat()
            });
            [b"\0asm\x0d\0\x01\0".as_slice(), &inner].concat()
        };
        assert!(outer_names(&nested(100)).is_ok());
        insta::assert_snapshot!(of(&nested(101)), @"has more than 100 components in one another: no tool needs as much, so it is not read");
    }

    #[test]
    fn every_import_is_shown_what_the_host_answers_first_and_too_many_are_refused() {
        let importing = |types: usize| {
            let types: String = (0..types).map(|n| format!(r#"(import "a:b/t{n:03}" (instance))"#)).collect();
            let text = format!(
                r#"(component {types} (import "wasi:random/random@0.2.0" (instance))
                    (instance $i) (export "my:own/tools" (instance $i)))"#
            );
            inspect(&wat::parse_str(text).unwrap()).map(|wants| wants.imports)
        };
        let shown = importing(MOST_IMPORTS - 1).unwrap();
        assert_eq!((shown.len(), shown[0].as_str()), (MOST_IMPORTS, "wasi:random/random@0.2.0"));
        assert!(shown[1..].is_sorted());
        insta::assert_snapshot!(importing(MOST_IMPORTS).unwrap_err(),
            @"has 201 imports; it may have 200, because operators are shown all of them: build it without those that it does not need");
    }

    #[test]
    fn only_what_is_granted_may_be_imported() {
        for granted in ["agent:tool/log@0.1.0", "wasi:cli/environment@0.2.3"] {
            let (expected, _) = CapabilitySet::answering(&[granted]);
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
