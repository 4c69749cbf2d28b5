//! What the core needs from the outside: one trait and its error per file.
//!
//! Every method takes `&self`, so that an implementation is shared behind an `Arc<dyn …>`.

pub mod cache;
pub mod cluster;
pub mod conversations;
pub mod http_recordings;
pub mod idempotency;
pub mod journal;
pub mod key_value;
pub mod lease;
pub mod model;
pub mod observer;
pub mod probe;
pub mod queue;
pub mod rates;
pub mod retention;
pub mod runs;
pub mod spawn;
pub mod store_check;
mod store_findings;
pub mod tool_admin;
pub mod tool_versions;
pub mod toolbox;
pub mod webhooks;

pub use cache::{CacheError, ResultCache};
pub use cluster::{Cluster, ClusterAnswer, ClusterError, Forwarded};
pub use conversations::{
    ClaimResult, ClaimTerms, ConversationClaim, ConversationError, ConversationStore, Deletion, TurnsResult,
};
pub use http_recordings::{HttpRecording, HttpRecordings, HttpRecordingsError};
pub use idempotency::{
    IdempotencyError, IdempotencyKey, IdempotencyStore, KeyBounds, KeyClaim, KeyResult, KeyTerms,
};
pub use journal::{Appended, Epoch, Journal, JournalError, JournalResult};
pub use key_value::{KeyValueError, KeyValueStore, Space};
pub use lease::{ClaimTime, LeaseError, LeaseResult, Leases, Renewal};
pub use model::{Deltas, Model, ModelError, ModelRequest, ToolChoice};
pub use observer::{AttemptOutcome, CacheUse, Observer, Unobserved, WaitDecided};
pub use probe::{Probe, ProbeError};
pub use queue::{
    AttemptEnd, ChangedJobs, Claim, ClaimedJob, EarlierClaims, JobChanges, JobQueue, QueueError,
};
pub use rates::{Hits, RateError, RateWindows, Window, WindowKind};
pub use retention::{
    DropStep, EndedItem, EndedPage, PageResult, RetainedKind, Retention, RetentionBounds, RetentionError,
    RetentionResult, UNDER_WAY_FOR,
};
pub use runs::RunStore;
pub use spawn::Spawn;
pub use store_check::{StoreCheck, StoreCheckError, StoreWarning};
pub use store_findings::StoreFindings;
pub use tool_admin::{
    AdminAction, AdminError, AdminResult, ComponentView, Operator, ToolAdmin, TrialOptions, TrialRequest,
    Upload,
};
pub use tool_versions::{KeptComponent, Records, ToolVersions, Versioned, VersionsError, VersionsResult};
pub use toolbox::{
    CallEnds, DENIED, LIMIT_EXCEEDED, NestedTools, Preparing, ProgressSink, Question, REJECTED,
    RecordedWorld, ToolFault, ToolRequest, ToolSet, Toolbox, Versions, WaitTerms, WaitingCall,
};
pub use webhooks::{WebhookError, WebhookOutbox, WebhookResult, WebhookSender};
