//! The record of a run: what is known of it without reading its journal.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{StopReason, Usage};

/// What is known of a run without reading its journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Id of the run, `run_…`.
    pub id: String,
    /// The HTTP request or job it was made for.
    pub request_id: String,
    /// Who asked; nobody is known in Variant A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The job it belongs to; absent for the run of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// When it began. Stores keep at least milliseconds.
    pub started_at: SystemTime,
    /// When it ended.
    pub finished_at: SystemTime,
    /// How it ended.
    pub outcome: RunOutcome,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunOutcome {
    /// With a result.
    Ended {
        /// Why it stopped.
        stop_reason: StopReason,
        /// Model calls made.
        iterations: u32,
        /// Tokens of all of them.
        usage: Usage,
        /// `provider/model` of the last reply.
        model: String,
    },
    /// Without one.
    Failed {
        /// The error with its chain. It may name a provider, never a key.
        error: String,
        /// Model calls that were answered; 0 in records of older versions.
        #[serde(default)]
        iterations: u32,
        /// Tokens of all of them.
        #[serde(default)]
        usage: Usage,
    },
}
