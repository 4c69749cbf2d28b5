//! From a core module to a component in its place, and what a component imports and exports.

use std::fs;
use std::path::Path;
use std::time::Duration;

use wasmparser::{Parser, Payload};
use wit_component::ComponentEncoder;

use crate::files::{replace_both, replace_file};
use crate::{Error, Result};

/// What a tool exports, of whatever version.
const EXPORT: &str = "agent:tool/tool@";

/// What a tool that we ship may import: interfaces of the contract, and nothing else.
const CONTRACT: &str = "agent:tool/";

/// Of the contract, what is served only under a grant.
const GRANTED_OF_CONTRACT: [&str; 3] = ["agent:tool/key-value@", "agent:tool/toolbox@", "agent:tool/ask@"];

/// What is served under a grant besides.
const GRANTED: [&str; 3] = ["wasi:http/", "wasi:io/", "wasi:clocks/"];

/// Whether a component has to be granted what it imports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The component has to be granted its imports, and its crate has an example of the policy that grants
    /// them.
    Grant,
    /// The component must not be granted anything.
    NoGrant,
    /// Either.
    Any,
}

/// Whether placing a component changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// The file is new, or its content is.
    New,
    /// The file had this content already and was not touched.
    Same,
}

/// A component that a toolchain made.
pub(crate) struct Made {
    pub(crate) bytes: Vec<u8>,
    /// How long the toolchain took.
    pub(crate) took: Duration,
}

/// Makes a component of a core module that carries its component type, as `wit-bindgen` leaves it.
///
/// # Errors
/// When it cannot be read, is no such module, or imports what its author did not say it does.
pub fn encode(module: &Path, need: Need) -> Result<Vec<u8>> {
    let bytes = fs::read(module).map_err(|error| Error::file("reading what cargo built", module, &error))?;
    let encoded = ComponentEncoder::default().validate(true).module(&bytes);
    let component = encoded.and_then(|mut encoder| encoder.encode()).map_err(|error| {
        Error::new("cargo built a module that no component can be made of")
            .at(module)
            .why(format!("{error:#}"))
            .mend("export tools with the SDK's `export!`, and import nothing but by the SDK: `extern` blocks are for other targets")
    })?;
    let outside = read_outside(&component)?;
    // Of a component with functions of its own, interfaces of types alone are imports too: its host says
    // which.
    if need != Need::Any || outside.is_tool() {
        check_imports(&outside.imports, need)?;
    }
    Ok(component)
}

/// What a component shows to the outside.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Outside {
    /// What it imports, but for what components within it do.
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

impl Outside {
    /// Whether it exports our contract.
    #[must_use]
    pub fn is_tool(&self) -> bool {
        self.exports.iter().any(|name| name.starts_with(EXPORT))
    }

    /// Tells if functions of its own are exported, which are tools of a host too.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        !self.is_tool() && self.exports.iter().any(|name| !name.starts_with("wasi:"))
    }

    /// What an operator has to grant before it serves: `key-value`, `toolbox`, `ask`, `http`.
    #[must_use]
    pub fn grants(&self) -> Vec<&'static str> {
        let kinds = [
            ("key-value", GRANTED_OF_CONTRACT[0]),
            ("toolbox", GRANTED_OF_CONTRACT[1]),
            ("ask", GRANTED_OF_CONTRACT[2]),
            ("http", GRANTED[0]),
        ];
        let wanted =
            kinds.into_iter().filter(|(_, start)| self.imports.iter().any(|name| name.starts_with(start)));
        wanted.map(|(word, _)| word).collect()
    }
}

/// A tool is sandboxed by what it cannot name, so one that imports more than the contract is not written at
/// all, and one that needs a grant only where that is said.
fn check_imports(imports: &[String], need: Need) -> Result<()> {
    let begins = |name: &str, list: &[&str]| list.iter().any(|beginning| name.starts_with(beginning));
    let granted = imports.iter().find(|name| begins(name, &GRANTED_OF_CONTRACT) || begins(name, &GRANTED));
    match (need, granted) {
        (Need::NoGrant, Some(name)) => {
            return Err(Error::new(format!("it imports `{name}`, which an operator has to grant")).mend(
                "put an example of the lines that do into policy.toml beside its Cargo.toml, and it is written to another \
                 folder",
            ));
        }
        (Need::Grant, None) => {
            return Err(
                Error::new("it imports nothing that has to be granted").mend("remove its policy.toml")
            );
        }
        _ => {}
    }
    match imports.iter().find(|name| !name.starts_with(CONTRACT) && !begins(name, &GRANTED)) {
        Some(name) => Err(Error::new(format!("it imports `{name}`; a tool may import nothing but {CONTRACT}*"))
            .mend("leave out what needs it: files, sockets, threads and the system's clock are not there in a sandbox")),
        None => Ok(()),
    }
}

/// Reads what a component imports and exports.
///
/// # Errors
/// When it is no component.
pub fn read_outside(component: &[u8]) -> Result<Outside> {
    let garbled = |error: wasmparser::BinaryReaderError| {
        Error::new("what was built is no component")
            .why(error)
            .mend("build it anew; if that does not help, tell us")
    };
    let mut depth = 0_u32;
    let mut outside = Outside::default();
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(garbled)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(imports) if depth == 0 => {
                for import in imports {
                    outside.imports.push(import.map_err(garbled)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(exports) if depth == 0 => {
                for export in exports {
                    outside.exports.push(export.map_err(garbled)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(outside)
}

/// Puts a component in its place, written aside and renamed, so that a host that watches the folder never
/// reads half of it; and not at all when it is there already.
///
/// # Errors
/// When it cannot be written, or something is there that is no file. What was there stays.
pub fn place(component: &[u8], target: &Path) -> Result<Placed> {
    refuse_devices(target)?;
    if fs::read(target).is_ok_and(|present| present == component) {
        return Ok(Placed::Same);
    }
    let folder = target.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(|error| Error::file("making the folder", folder, &error))?;
    let written = replace_file(target, component);
    written.map_err(|error| Error::file("writing the component", target, &error))?;
    Ok(Placed::New)
}

/// Puts a component in its place as [`place`] does, and its signature beside it, as `NAME.wasm.sig`.
///
/// # Errors
/// When one of them cannot be written, or something is there that is no file. What was there of both stays.
pub fn place_signed(component: &[u8], signature: &[u8], target: &Path) -> Result<Placed> {
    refuse_devices(target)?;
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".sig");
    let beside = target.with_file_name(name);
    if fs::read(target).is_ok_and(|present| present == component) {
        if !fs::read(&beside).is_ok_and(|present| present == signature) {
            let written = replace_file(&beside, signature);
            written.map_err(|error| Error::file("writing the signature", &beside, &error))?;
        }
        return Ok(Placed::Same);
    }
    let folder = target.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(|error| Error::file("making the folder", folder, &error))?;
    let written = replace_both((&beside, signature), (target, component));
    written.map_err(|error| Error::file("writing the component and its signature", target, &error))?;
    Ok(Placed::New)
}

/// Refuses a device, a pipe or a folder in the component's place: a device may be read without end, and the
/// rename would put a file in the place of `/dev/null`.
fn refuse_devices(target: &Path) -> Result<()> {
    if fs::metadata(target).is_ok_and(|found| !found.is_file()) {
        return Err(Error::new("something that is no file is in the component's place")
            .at(target)
            .mend("name another file; to see only whether it builds, name one in a temporary folder"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::{Need, Placed, check_imports, place, place_signed};

    #[test]
    fn a_device_or_a_folder_is_not_replaced_by_a_component() {
        let home = tempfile::tempdir().unwrap();
        let [folder, socket, link] = ["folder", "socket", "link"].map(|name| home.path().join(name));
        fs::create_dir(&folder).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        symlink(&socket, &link).unwrap();
        for target in [&folder, &socket, &link] {
            let said =
                [place(b"a component", target), place_signed(b"a component", b"its signature", target)];
            for said in said.map(|placed| placed.unwrap_err().to_string()) {
                assert!(said.contains("no file") && said.contains("\n  mend   name another file"), "{said}");
            }
        }
        assert_eq!(fs::read_link(&link).unwrap(), socket);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 3, "nor is a signature written");
        let target = home.path().join("made/adder.wasm");
        assert_eq!(place(b"a component", &target), Ok(Placed::New));
        assert_eq!(place(b"a component", &target), Ok(Placed::Same));
    }

    #[test]
    fn what_needs_a_grant_is_told_from_what_does_not() {
        let imports = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let plain = imports(&["agent:tool/log@0.1.1", "agent:tool/types@0.1.1", "agent:tool/config@0.1.1"]);
        for granted in [
            "agent:tool/key-value@0.1.1",
            "agent:tool/toolbox@0.1.1",
            "agent:tool/ask@0.1.2",
            "wasi:http/types@0.2.12",
        ] {
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
