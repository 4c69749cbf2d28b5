//! Components in OCI registries: [`pull()`] and [`push()`].
//!
//! In reading order:
//! - `digest`, `reference`: how registries name things. `error`: what can go wrong, and what to do about it.
//! - `manifest`: what an artifact is made of, as values. `component_names`: what a component imports and
//!   exports.
//! - `credentials`: who is told a password. `session`: one exchange with a registry. In its folder: the
//!   client, what a registry asks of who wants in, and the limits of time and size.
//! - `pull`, `push`: what it is all for.
//!
//! The form of an artifact is that of the WebAssembly OCI artifact layout, which `wkg` and others use: one
//! layer of `application/wasm`, a config of `application/vnd.wasm.config.v0+json`. A signature travels in
//! annotations of the manifest (`manifest`): readers of that layout allow exactly one layer and skip
//! annotations they do not know.
//!
//! The invariant: nothing is handed out whose bytes were not checked against a digest, and nothing is read
//! without a limit. A tag is asked for once; what it named then is what the pull is about.
//!
//! Why not `oci-client` 0.18, which the field uses: it reads manifests, tokens and errors into memory without
//! a limit, follows redirects by reqwest's default (to any address, from https to http) and takes no client
//! that would do otherwise, has no limit for the time of a whole pull, and shows a password to whichever
//! registry or token service asks. What is left to write without it is the exchange of half a dozen requests.
//!
//! What does not belong here: whether a component may be trusted or called, files, the environment.

mod component_names;
mod credentials;
mod digest;
mod error;
mod manifest;
mod pull;
mod push;
mod reference;
mod session;
#[cfg(feature = "testing")]
pub mod testing;

pub use credentials::Credentials;
pub use digest::Digest;
pub use error::{Error, RedirectProblem};
pub use manifest::ManifestError;
pub use pull::{Pulled, pull};
pub use push::{Publication, Pushed, push};
pub use reference::{Reference, ReferenceError};
pub use session::client::{Client, Limits, Options};
