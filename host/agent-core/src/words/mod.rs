//! The vocabulary: plain data that everybody uses, below the ports and the run.
//!
//! Nothing here has behaviour beyond reading itself, and nothing here imports anything else of the core. What
//! is written to journals and records keeps its JSON form for ever: new fields are optional, and a new kind
//! of [`Event`] raises the journal's version.

mod canonical_result;
mod catalog;
mod component_name;
mod conversation;
mod event;
mod image;
mod job;
mod message;
mod principal;
mod progress;
mod receipt;
mod record;
mod reply;
mod reply_rules;
mod result;
mod task;
mod tool;
mod tool_name;
mod tool_version;
mod trial_counts;
mod usage;
mod user_content;
mod wait;
mod webhook;

pub use canonical_result::CanonicalResult;
pub(crate) use catalog::BYTES_PER_TOKEN;
pub use catalog::{Catalog, ToolHints, ToolSpec, prompt_tokens};
pub use component_name::is_component_name;
pub use conversation::{
    Conversation, ConversationKey, ConversationKind, ConversationSummary, LONGEST_CONVERSATION_ID,
    MOST_CONVERSATION_BYTES, MOST_CONVERSATIONS, MOST_RESPONSES, MOST_TURNS, Turn, is_conversation_id,
};
pub use event::{Event, RecordedAnswer};
pub use image::{
    IMAGE_TYPES, Image, ImageDetail, ImageFault, ImageSource, LONGEST_IMAGE_PATH, LONGEST_IMAGE_URL,
    MOST_IMAGES,
};
pub use job::{
    CancelOutcome, Depth, Job, JobData, JobOptions, JobPage, JobQuery, JobStatus, ParkedRun, RetryOutcome,
};
pub use message::{Message, ToolCall, may_be_journaled};
pub use principal::{Grants, Principal};
pub use progress::{CallProgress, ToolProgress};
pub use receipt::{Exchange, ReceiptDetail, ToolReceipt, ToolReturn, cut};
pub use record::{FailureKind, RunOutcome, RunQuery, RunRecord};
pub use reply::{Finish, ModelReply};
pub use reply_rules::{NO_RULES, OutputFormat, ReplyRules, RequiredCall};
pub use result::{AgentResult, StopReason};
pub use task::{
    ClientFunction, DEFAULT_TOKEN_BUDGET, LONGEST_HISTORY_MESSAGE, Limit, MAX_ITERATIONS, MOST_CHOSEN_TOOLS,
    MOST_CLIENT_FUNCTIONS, MOST_HISTORY_MESSAGES, Options, RunLimits, Task,
};
pub use tool::ToolOutcome;
pub use tool_name::{TOOL_NAME_BYTES, is_tool_name};
pub use tool_version::{
    AuditLine, ComponentFacts, ComponentRecord, ComponentVersion, Finding, FoundDescription, Impact, Millis,
    Thresholds, ToolFacts, Trial, TrialKind, TrialState, VersionDiff, VersionSource, VersionStatus,
};
pub use trial_counts::{CallCounts, DURATION_BUCKETS, MOST_COUNTED_USERS, TrialCounts, UserCounts};
pub use usage::Usage;
pub use user_content::{ContentPart, UserContent};
pub use wait::{
    CallPlace, ChildRun, Deciders, Decision, EnclosingCall, OnExpiry, OpenKinds, ParentCall, ShownCall,
    Verdict, Wait, WaitDepth, WaitKind, short_run,
};
pub use webhook::{Webhook, WebhookAttempt, WebhookState};
