//! From the policy in force to what one call may do.
//!
//! In reading order: `policy_store` reads the file (`policy_place` says where it may lie), `secret_sources`
//! the secrets that it names, `granted` is what one component may do in one call, and `component_grants`
//! makes that of both. `standing` says the same to whoever installs, `learning` notes what a component wants.
//!
//! What does not belong here: what the file means (`tool-policy`), sending requests (`tool-egress`), and what
//! a guest sees of either (`tool-host/src/capability`).

mod bounded_file;
mod component_grants;
mod error;
mod granted;
mod learning;
mod policy_place;
mod policy_store;
mod secret_sources;
mod standing;
#[cfg(test)]
mod testing;

pub use component_grants::{ComponentGrants, GrantBounds, HostMeans, NoGrants, as_caller};
pub use error::GrantError;
pub use granted::Granted;
pub use learning::{Learned, Learning};
pub use policy_place::{lies_in, misplaced, seems_to_lie_in};
pub use policy_store::{Environment, PolicyError, PolicyFile, PolicyStore};
pub use standing::{NotTrusted, Standing, standing};
