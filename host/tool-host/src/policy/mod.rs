//! What an operator grants to components: one TOML file beside the tools folder, never in it.
//!
//! Nothing is granted by default, and never to a name alone: an entry is bound to digests or signers. In
//! reading order:
//!
//! - `model`: the grants as plain values. `host`, `path`: the canonical forms that they are made of.
//! - `entries`: all of them together, found by what a component is, with digests.
//! - `file`: the text of the file as a `Policy`, or everything that is wrong with it. `render`: a policy as
//!   text.
//! - `audience`: who may use a component. `rules`: whether a request is allowed. `effective`: what a run may
//!   do while the policy changes under it.
//! - `change`: what one policy takes away from another or adds to it. `suggest`: the lines that a component
//!   lacks.
//! - `store`: the policy in force. `secrets`: the values of secrets. `signature`: who signed a component.
//!   `bounded_file`, `text`: shared by these.
//!
//! The invariant: whatever is not understood is refused, in the file as in requests, and a refusal says what
//! to write.
//!
//! What does not belong here: sending anything, resolving names, watching the file, reading the environment,
//! WebAssembly.

pub(crate) mod audience;
mod bounded_file;
pub(crate) mod change;
pub(crate) mod effective;
pub(crate) mod entries;
pub(crate) mod file;
pub(crate) mod host;
mod identity;
pub(crate) mod model;
pub(crate) mod path;
pub(crate) mod render;
pub(crate) mod rules;
pub(crate) mod secrets;
pub(crate) mod signature;
pub(crate) mod store;
pub(crate) mod suggest;
#[cfg(test)]
mod testing;
mod text;

pub(crate) use effective::{EffectivePolicy, HostLimits};
pub(crate) use entries::{Entry, Lookup, Policy};
pub(crate) use identity::Identity;
pub(crate) use model::{ComponentPolicy, SecretRule, Want};
pub(crate) use rules::{RequestLine, Target};
pub(crate) use store::{Absence, PolicyStore, Reload};
