//! What the core needs from the outside: one trait and its error per file.
//!
//! Every method takes `&self`, so that an implementation is shared behind an `Arc<dyn …>`.

pub mod cache;
pub mod cluster;
pub mod journal;
pub mod key_value;
pub mod model;
pub mod probe;
pub mod queue;
pub mod rates;
pub mod runs;
pub mod spawn;
pub mod toolbox;

pub use cache::{CacheError, ResultCache};
pub use cluster::{Cluster, ClusterAnswer, ClusterError, Forwarded};
pub use journal::{Epoch, Journal, JournalError};
pub use key_value::{KeyValueError, KeyValueStore, Space};
pub use model::{Model, ModelError, ModelRequest, ToolChoice};
pub use probe::{Probe, ProbeError};
pub use queue::{AttemptEnd, Claim, JobQueue, QueueError, Renewal};
pub use rates::{Hits, RateError, RateWindows, Window, WindowKind};
pub use runs::RunStore;
pub use spawn::Spawn;
pub use toolbox::{DENIED, LIMIT_EXCEEDED, NestedTools, Preparing, ToolFault, ToolRequest, ToolSet, Toolbox};
