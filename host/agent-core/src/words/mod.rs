//! The vocabulary: plain data that everybody uses, below the ports and the run.
//!
//! Nothing here has behaviour beyond reading itself, and nothing here imports anything else of the core. What is
//! written to journals and records keeps its JSON form for ever: new fields are optional, and a new kind of
//! [`Event`] raises the journal's version.

mod catalog;
mod event;
mod job;
mod message;
mod principal;
mod receipt;
mod record;
mod reply;
mod result;
mod task;
mod tool;
mod usage;

pub(crate) use catalog::BYTES_PER_TOKEN;
pub use catalog::{Catalog, ToolSpec, prompt_tokens};
pub use event::Event;
pub use job::{CancelOutcome, Depth, Job, JobData, JobPage, JobQuery, JobStatus};
pub use message::{Message, ToolCall};
pub use principal::{Grants, Principal};
pub(crate) use receipt::cut;
pub use receipt::{Exchange, ReceiptDetail, ToolReceipt, ToolReturn};
pub use record::{RunOutcome, RunRecord};
pub use reply::{Finish, ModelReply};
pub use result::{AgentResult, StopReason};
pub use task::{DEFAULT_TOKEN_BUDGET, Limit, Limits, MAX_ITERATIONS, MOST_CHOSEN_TOOLS, Options, Task};
pub use tool::ToolOutcome;
pub use usage::Usage;
