//! Names of tools: `interface_function`, kebab to snake case.

use agent_core::words::TOOL_NAME_BYTES;
use json_schema::text_sanitizer::printable;
use wasmtime::component::types::ComponentFunc;

use super::refusal::Refusal;

/// Longest name of a stranger that an error shows, in bytes.
const SHOWN_BYTES: usize = 100;

/// Exports that are another contract's, not functions to call: what WASI defines is called by hosts of that
/// kind (`wasi:cli/run`, `wasi:http/incoming-handler`), and `agent:tool` is our own contract.
const OTHER_CONTRACTS: [&str; 2] = ["wasi:", "agent:tool/"];

/// Which export of a component a tool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Export {
    /// The exported instance, by its full name; none where the function is exported by itself.
    pub(crate) interface: Option<String>,
    pub(crate) function: String,
}

impl Export {
    /// As people write it: `package:name/interface` without its version, and the function.
    fn shown(&self) -> String {
        match &self.interface {
            None => format!("`{}`", self.function),
            Some(interface) => format!("`{}` of `{}`", self.function, without_version(interface)),
        }
    }
}

/// Functions that a toolchain exports for itself, from the component and not only from its core module: the
/// interface, the function and its first parameter, with the place where the toolchain says so.
///
/// What toolchains export from a core module never gets here, as a component exports what its world names:
/// `cabi_realloc`, `cabi_post_*` and `_initialize` (wit-component), `wizer-initialize`, `componentize.wizer`,
/// `check_init` and `coreabi_*` (componentize-js, the exports of its `starlingmonkey_embedding.wasm`). The
/// `wasi:cli/run` and `wasi:http/incoming-handler` of that engine are [`OTHER_CONTRACTS`].
const OF_TOOLCHAINS: &[(&str, &str, &str)] = &[
    // componentize-py, wit/init.wit: its bundled interpreter is told there what it is to run, while the
    // component is made.
    ("exports", "init", "app-name"),
];

/// Tells functions that a toolchain exports for itself from tools.
pub(super) fn is_of_toolchain(export: &Export, function: &ComponentFunc) -> bool {
    let first = function.params().next().map_or("", |(name, _)| name);
    let interface = export.interface.as_deref().unwrap_or_default();
    OF_TOOLCHAINS.contains(&(interface, &export.function, first))
}

pub(super) fn is_other_contract(export: &str) -> bool {
    OTHER_CONTRACTS.iter().any(|prefix| export.starts_with(prefix))
}

/// `acme:inventory/stock` of `acme:inventory/stock@1.0.0`.
fn without_version(export: &str) -> &str {
    export.split_once('@').map_or(export, |(name, _version)| name)
}

/// `stock` of `acme:inventory/stock@1.0.0`, and an inline interface's own name.
pub(super) fn interface(export: &str) -> &str {
    let name = without_version(export);
    name.rsplit_once('/').map_or(name, |(_package, interface)| interface)
}

/// The tool's name.
pub(super) fn tool(export: &Export) -> Result<String, Refusal> {
    let name = match &export.interface {
        None => export.function.clone(),
        Some(instance) => format!("{}_{}", interface(instance), export.function),
    };
    let name = name.replace('-', "_").to_ascii_lowercase();
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.len() <= TOOL_NAME_BYTES
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(is_word)
    {
        return Ok(name);
    }
    Err(Refusal::Name { function: shown(export), name: printable(&name, SHOWN_BYTES) })
}

/// The function for an error's text: printable and bounded.
pub(super) fn shown(export: &Export) -> String {
    let bounded = |name: &str| printable(name, SHOWN_BYTES);
    let interface = export.interface.as_deref().map(bounded);
    Export { interface, function: bounded(&export.function) }.shown()
}

/// The first few names of exports.
pub(super) fn some<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const LISTED: usize = 5;
    let more = names.len().saturating_sub(LISTED);
    let mut listed: Vec<_> = names.take(LISTED).map(|name| printable(name, SHOWN_BYTES)).collect();
    if listed.is_empty() {
        return "nothing".to_owned();
    }
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    listed.join(", ")
}
