//! The tools.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use serde::Serialize;

use crate::words::{Catalog, Grants, Principal, ToolCall, ToolReturn};

/// Where a run gets its tools from.
pub trait Toolbox: Send + Sync {
    /// The tools that this caller may use, as they are at this moment. A run keeps the set it started with, whatever is
    /// swapped meanwhile. Callers who may use the same tools under the same grants get sets of the same digest, and others
    /// get others: answers are shared by it.
    ///
    /// It is asked several times for a request, so it should cost no more than a look-up.
    fn current_for(&self, caller: &Principal) -> Arc<dyn ToolSet>;

    /// Every tool that serves, whoever may use it: for whoever looks after the service. No caller's run is made with it.
    fn everything(&self) -> Arc<dyn ToolSet>;

    /// The components that could not be loaded, and why. The others serve.
    fn faults(&self) -> Vec<ToolFault>;

    /// What is still being loaded.
    fn preparing(&self) -> Preparing {
        Preparing::default()
    }
}

/// One immutable set of tools.
#[async_trait]
pub trait ToolSet: Send + Sync {
    /// What the model is told.
    fn catalog(&self) -> &Arc<Catalog>;

    /// Calls one tool. Whatever goes wrong is an answer to the model, never an error of the run. Dropping
    /// the future interrupts the tool.
    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn;
}

/// One call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct ToolRequest<'a> {
    /// The HTTP request or job on whose behalf the call is made.
    pub request_id: &'a str,
    /// The run that makes it, `run_…`.
    pub run_id: &'a str,
    /// Names this call of this run, and stays the same over retries and resumes and on every replica: an idempotency
    /// key. [`ToolCall::id`] is the model's and is unique within one reply only.
    pub call_id: &'a str,
    /// Which attempt at the run makes it, from 1.
    pub attempt: u32,
    /// On whose behalf. Components are told an opaque id at most.
    pub principal: &'a Principal,
    /// What the run may do.
    pub grants: &'a Grants,
    /// What the model asked for; the arguments are a JSON object.
    pub call: &'a ToolCall,
    /// When the caller stops waiting. The tool's own limit may be shorter.
    pub deadline: Instant,
}

impl<'a> ToolRequest<'a> {
    /// A call on behalf of nobody that belongs to no run, as the command line makes it.
    pub fn outside_of_runs(request_id: &'a str, call: &'a ToolCall, deadline: Instant) -> Self {
        Self {
            request_id,
            run_id: "",
            call_id: &call.id,
            attempt: 1,
            principal: Principal::nobody(),
            grants: Grants::none(),
            call,
            deadline,
        }
    }
}

/// What is still being loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preparing {
    /// Names of the files, without the folder.
    pub files: Vec<String>,
    /// Whether the service has just started and what it is to serve is not complete yet.
    pub first: bool,
}

/// A component that could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolFault {
    /// Its file's name, without the folder.
    pub file: String,
    /// What is wrong and what to do about it.
    pub error: String,
}
