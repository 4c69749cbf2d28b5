//! The `notes` component: the tools `read_notes` and `edit_notes`, a memory that outlives the conversation.
//!
//! The operator's policy grants it and says whose the notes are: with scope `user` (`policy.toml` beside this
//! crate) each user has their own and cannot see another's. `store` keeps notes as values, one under each
//! title; `reading` and `editing` are the tools.

mod editing;
mod reading;
mod store;

use editing::{Edit, Edited, edit_notes};
use reading::{Found, Wanted, read_notes};

agent_tool_sdk::export! {
    /// Reads the notes kept for the user from earlier conversations. Without arguments it lists their titles.
    read_notes(Wanted) -> Found, hints: [read_only, idempotent], timeout_ms: 5000;

    /// Keeps notes for the user beyond this conversation: facts, wishes and decisions they want remembered.
    edit_notes(Edit) -> Edited, hints: [destructive], timeout_ms: 5000;
}
