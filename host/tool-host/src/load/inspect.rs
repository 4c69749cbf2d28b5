//! What a component is, read from its bytes alone: for its author, before anything loads it and also when
//! nothing would.
//!
//! Nothing is compiled or run. What its tools are is known when a [`ToolHost`](crate::ToolHost) has loaded
//! it.

use json_schema::text_sanitizer::printable;
use tool_grants::{PolicyFile, PolicyStore};
use tool_policy::signature::{self, Signed};
use tool_policy::{Identity, Policy, Want, sha256, suggest};

use super::contract::{self, TOOL_INTERFACE, outer_names};
use crate::capability::CapabilitySet;
use crate::capability::imports::SERVED;

/// Most imports that are listed, and most bytes of the name of one: a stranger's file may have a million.
const MOST_IMPORTS: usize = 200;
const NAME_BYTES: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// `sha256:…` of its bytes.
    pub digest: String,
    /// How its tools are called; absent when it exports none.
    pub kind: Option<ComponentKind>,
    /// What it imports, in its own order.
    pub imports: Vec<Import>,
    /// Whether it sends requests, keeps values, calls other tools, asks people.
    pub wants: NeededGrants,
    /// The lines of a policy to add, as a refusal prints them; absent when it needs none.
    pub lines: Option<String>,
    /// Whose signature lies beside it, of those that the policy trusts, or why it is of no use; absent
    /// without one.
    pub signer: Option<Result<String, String>>,
    /// Why it is refused before it is even compiled.
    pub refusal: Option<String>,
}

/// How the tools of a component are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComponentKind {
    /// By the contract, of this version.
    Contract(String),
    /// By functions of its own types.
    Typed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// `package/interface@version`.
    pub name: String,
    pub need: Need,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: every tool has it.
    Nothing,
    /// Nothing, and there is nothing behind it: no files, no sockets, no environment.
    Closed,
    /// Lines in the policy.
    Grant,
    /// No host of this version answers it. It may have types only, which nobody has to answer.
    Unknown,
}

/// What a component wants that only a policy gives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NeededGrants {
    /// To send requests.
    pub http: bool,
    /// To keep values.
    pub key_value: bool,
    /// To call other tools.
    pub toolbox: bool,
    /// To ask people in the middle of a call.
    pub ask: bool,
}

/// Interfaces of WASI that are there and closed.
const CLOSED: [&str; 4] = ["wasi:filesystem/", "wasi:sockets/", "wasi:cli/environment@", "wasi:cli/stdin@"];

/// Reads a component. `name` is its file's name without `.wasm`. Blocks: the policy is a file.
pub fn inspect(name: &str, bytes: &[u8], signature: Option<&[u8]>, policy: &PolicyFile) -> Inspection {
    let digest = sha256(bytes);
    let refusal = contract::inspect(bytes).err().map(|error| error.to_string());
    let names = outer_names(bytes).unwrap_or_default();
    let wanted = CapabilitySet::answering(&names.imports).0.granted_by_policy();
    let policy = in_force(policy);
    let trusted = || policy.signers(name);
    let signed = Signed { name, component: bytes, manifest: &[] };
    let signer = signature.map(|signature| {
        if trusted().next().is_none() {
            return Err("the policy trusts no key for this name".to_owned());
        }
        let verified = signature::verify(&signed, signature, trusted());
        verified.map(|signer| signer.key().to_string()).map_err(|error| error.to_string())
    });
    let verified = signature.and_then(|signature| signature::verify(&signed, signature, trusted()).ok());
    let component = Identity { name, digest: &digest, signer: verified.as_ref() };
    let lines = || suggest::lines(&policy, component, &wanted);
    Inspection {
        kind: kind_of(&names.exports),
        imports: names.imports.iter().take(MOST_IMPORTS).map(|import| read_import(import)).collect(),
        wants: NeededGrants {
            http: wanted.contains(&Want::Http),
            key_value: wanted.contains(&Want::KeyValue),
            toolbox: wanted.contains(&Want::Toolbox),
            ask: wanted.contains(&Want::Ask),
        },
        lines: (!wanted.is_empty()).then(lines),
        signer,
        refusal,
        digest,
    }
}

/// The policy, or the empty one where it cannot be read: loading says why.
fn in_force(file: &PolicyFile) -> std::sync::Arc<Policy> {
    let location = file.location().ok().and_then(|(path, absence)| Some((path?, absence)));
    let store = location.and_then(|(path, absence)| PolicyStore::open(path, absence).ok());
    store.map_or_else(|| std::sync::Arc::new(Policy::empty()), |store| store.current())
}

fn kind_of(exports: &[&str]) -> Option<ComponentKind> {
    let mut versions: Vec<_> = exports.iter().filter_map(|name| name.strip_prefix(TOOL_INTERFACE)).collect();
    // What is served stands for the component, whatever else it offers.
    versions.sort_by_key(|version| SERVED.contains(version));
    match versions.last() {
        Some(version) => Some(ComponentKind::Contract(printable(version, NAME_BYTES))),
        None => exports.iter().any(|name| !name.starts_with("wasi:")).then_some(ComponentKind::Typed),
    }
}

fn read_import(name: &str) -> Import {
    let (set, unanswered) = CapabilitySet::answering(&[name]);
    let need = if !unanswered.is_empty() {
        Need::Unknown
    } else if !set.granted_by_policy().is_empty() {
        Need::Grant
    } else if CLOSED.iter().any(|closed| name.starts_with(closed)) {
        Need::Closed
    } else {
        Need::Nothing
    };
    Import { name: printable(name, NAME_BYTES), need }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspected(text: &str) -> Inspection {
        inspect("text", &wat::parse_str(text).unwrap(), None, &PolicyFile::None)
    }

    #[test]
    fn what_a_component_imports_is_told_with_what_it_needs() {
        let component = inspected(
            r#"(component
                (import "agent:tool/log@0.1.1" (instance))
                (import "wasi:filesystem/preopens@0.2.3" (instance))
                (import "wasi:http/types@0.2.6" (instance))
                (import "acme:things/store@1.0.0" (instance))
                (instance $i) (export "agent:tool/tool@0.1.0" (instance $i)))"#,
        );
        let needs: Vec<_> = component.imports.iter().map(|import| import.need).collect();
        assert_eq!(needs, [Need::Nothing, Need::Closed, Need::Grant, Need::Unknown]);
        assert_eq!(component.kind, Some(ComponentKind::Contract("0.1.0".into())));
        assert!(component.wants.http && !component.wants.key_value);
        assert!(component.refusal.unwrap().contains("acme:things/store@1.0.0"));
        let lines = component.lines.unwrap();
        assert!(lines.contains("[[component.http]]") && lines.contains(&component.digest), "{lines}");
    }

    #[test]
    fn what_is_no_component_has_a_refusal_and_a_digest_all_the_same() {
        let found = inspect("text", b"\x7fELF", None, &PolicyFile::None);
        assert!(found.refusal.unwrap().contains("ELF"));
        assert_eq!((found.kind, found.imports, found.lines), (None, vec![], None));
        assert!(found.digest.starts_with("sha256:"));
    }

    #[test]
    fn functions_of_its_own_make_it_typed() {
        let text = r#"(component (instance $i) (export "acme:things/api@1.0.0" (instance $i)))"#;
        assert_eq!(inspected(text).kind, Some(ComponentKind::Typed));
        assert_eq!(inspected("(component)").kind, None);
    }
}
