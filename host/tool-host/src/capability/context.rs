//! `agent:tool/context`: for which request and run the call is made, how long it may take, and whether
//! anybody still waits.

use std::sync::Arc;
use std::time::Instant;

use agent_core::trace::TraceContext;

use super::imports::Imports;
use super::nondeterminism::Nondeterminism;
use crate::bindings::agent::tool::context::Host;
use crate::limits::progress::Progress;

pub(super) const IMPORTS: Imports = Imports::Contract("context");

/// Request, run and call: three texts in one allocation, of which clones share it.
#[derive(Debug, Clone)]
pub(crate) struct CallIds {
    text: Arc<str>,
    run_at: usize,
    call_at: usize,
}

impl CallIds {
    pub(crate) fn new(request: &str, run: &str, call: &str) -> Self {
        let run_at = request.len();
        Self { text: [request, run, call].concat().into(), run_at, call_at: run_at + run.len() }
    }

    pub(crate) fn request(&self) -> &str {
        self.text.get(..self.run_at).unwrap_or_default()
    }

    fn run(&self) -> &str {
        self.text.get(self.run_at..self.call_at).unwrap_or_default()
    }

    fn call(&self) -> &str {
        self.text.get(self.call_at..).unwrap_or_default()
    }
}

/// What the call is told of itself, and the host goes by.
#[derive(Debug)]
pub(crate) struct ContextState {
    pub(crate) ids: CallIds,
    pub(crate) attempt: u32,
    /// The user as this component may know it.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) deadline: Instant,
    pub(crate) nondeterminism: Nondeterminism,
    pub(crate) progress: Arc<Progress>,
}

impl Host for ContextState {
    fn request_id(&mut self) -> String {
        self.ids.request().to_owned()
    }

    fn remaining_ms(&mut self) -> u64 {
        let left = self.nondeterminism.remaining(self.deadline);
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    fn cancelled(&mut self) -> bool {
        self.progress.is_cancelled()
    }

    fn run_id(&mut self) -> String {
        self.ids.run().to_owned()
    }

    fn call_id(&mut self) -> String {
        self.ids.call().to_owned()
    }

    fn attempt(&mut self) -> u32 {
        self.attempt
    }

    fn get(&mut self, key: String) -> Option<String> {
        match key.as_str() {
            "traceparent" => self.trace.map(|trace| trace.to_string()),
            _ => None,
        }
    }

    fn user(&mut self) -> Option<String> {
        self.user.as_deref().map(str::to_owned)
    }
}
