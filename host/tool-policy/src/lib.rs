//! What an operator grants to components: the text of one file in, decisions out. Nothing here waits, and
//! nothing reads files, the environment or the clock.
//!
//! Nothing is granted by default, and never to a name alone: an entry is bound to digests or signers. In
//! reading order:
//!
//! - [`model`]: the grants as plain values, with the canonical forms of hosts and paths.
//! - [`entries`]: all of them together, found by what a component is, with digests.
//! - [`file`](mod@file): the text of the file as a [`Policy`], or everything that is wrong with it.
//!   [`render`]: a policy as text, of which digests are made.
//! - [`audience`]: who may use a component. [`rules`]: whether a request is allowed. [`effective`]: what a
//!   run may do while the policy changes under it.
//! - [`change`]: what one policy takes away from another or adds to it. [`suggest`]: the lines that a
//!   component lacks.
//! - [`signature`]: who signed a component.
//!
//! The invariant: whatever is not understood is refused, in the file as in requests, and a refusal says what
//! to write.
//!
//! Which policy is in force, and what the secrets' values are, is in `tool-grants/src`.

pub mod audience;
pub mod change;
pub mod effective;
pub mod entries;
pub mod file;
pub mod model;
pub mod render;
pub mod rules;
pub mod signature;
pub mod suggest;
#[cfg(test)]
mod testing;
mod text;

pub use effective::{EffectivePolicy, HostLimits};
pub use entries::{Entry, Identity, Lookup, Policy, sha256};
pub use model::{ComponentPolicy, SecretRule, Want};
pub use rules::{RequestLine, Target};
