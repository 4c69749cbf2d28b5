//! What the core needs from the outside: one trait and its error per file.
//!
//! Every method takes `&self`, so that an implementation is shared behind an `Arc<dyn …>`.

pub mod journal;
pub mod model;
pub mod probe;
pub mod toolbox;

pub use journal::{Journal, JournalError};
pub use model::{Finish, Model, ModelError, ModelReply, ModelRequest};
pub use probe::{Probe, ProbeError};
pub use toolbox::{ToolFault, ToolRequest, ToolReturn, ToolSet, Toolbox};
