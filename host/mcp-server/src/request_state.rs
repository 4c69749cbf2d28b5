//! What a client carries from an answer that asks its user something to the call that it repeats then
//! (`requestState`): which wait was shown, under which digest. Nothing is kept for it here, so any replica
//! reads it.
//!
//! It is signed, and bound to the user and to the call with its arguments. It ends some minutes behind its
//! wait. That a wait is decided once is the journal's to see to.

use std::time::Duration;

use agent_core::words::Principal;
use json_schema::MemoryBudget;
use rmcp::model::{CallToolRequestParams, RequestStateCodec, SealOptions};
use run_service::waits::JobWait;
use serde::{Deserialize, Serialize};

/// What the key is derived by. Another text would be another key.
pub const PURPOSE: &str = "agent-host mcp requestState";

/// For how long behind its wait it is good: a decision may come at the last moment, and the call takes time.
const BEHIND_WAIT: Duration = Duration::from_mins(10);

/// Longest one that is read, in bytes. Ours have a few hundred.
const STATE_BYTES: usize = 2048;

/// Seals and opens them with one key.
#[derive(Clone)]
pub struct RequestStates(RequestStateCodec);

/// A wait as the client's user was shown it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShownWait {
    /// The wait, of the job that makes the call.
    pub(crate) wait: String,
    /// The digest of what the user was shown.
    pub(crate) digest: String,
}

impl ShownWait {
    pub(crate) fn of(wait: &JobWait) -> Self {
        Self { wait: wait.id.clone(), digest: wait.open.wait.shown.digest() }
    }
}

impl RequestStates {
    /// `key` is the same on every replica, and nobody else's.
    pub fn new(key: [u8; 32]) -> Self {
        Self(RequestStateCodec::new_unchecked(key))
    }

    /// Seals what this caller is shown of the call, good for so long and some minutes. No two are equal:
    /// clients take one that they know already for no progress.
    pub(crate) fn seal(
        &self,
        caller: &Principal,
        call: &CallToolRequestParams,
        shown: &ShownWait,
        for_at_least: Duration,
    ) -> String {
        let bound_to = context(caller, call);
        let options = SealOptions::new().associated_data(&bound_to).ttl(for_at_least + BEHIND_WAIT);
        // silent-ok: two texts can always be written.
        self.0.seal_with(&serde_json::to_vec(shown).unwrap_or_default(), &options)
    }

    /// What was shown to this caller of the call; nothing where the state is not ours, is over, or is of
    /// somebody else's or of another call.
    pub(crate) fn open(
        &self,
        caller: &Principal,
        call: &CallToolRequestParams,
        state: &str,
    ) -> Option<ShownWait> {
        if state.len() > STATE_BYTES {
            return None;
        }
        let opened = self.0.open_with(state, &context(caller, call)).ok()?;
        MemoryBudget::default().read_as(&opened).ok()
    }
}

/// What a state is bound to.
fn context(caller: &Principal, call: &CallToolRequestParams) -> Vec<u8> {
    // silent-ok: texts and JSON can always be written.
    serde_json::to_vec(&(&caller.user_id, "tools/call", &call.name, &call.arguments)).unwrap_or_default()
}
