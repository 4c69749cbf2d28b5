//! A component that can be called, and how it describes itself.
//!
//! `definition.rs` checks what it says of a tool (`mends.rs` says how to write it), `call_interface.rs` calls
//! it, `bulkhead.rs` bounds its calls, `component_facts.rs` is what operators are shown of it.

pub(crate) mod bulkhead;
pub(crate) mod call_interface;
pub(crate) mod component_facts;
pub(crate) mod definition;
mod mends;
mod moving_average;

use std::sync::{Arc, OnceLock};

use json_schema::SchemaBudget;
use tool_policy::Identity;
use tool_policy::Want;
use tool_policy::signature::VerifiedSigner;

use crate::bindings::exports::agent::tool::tool::ToolDef;
use crate::error::LoadError;
use bulkhead::Bulkhead;
use call_interface::CallInterface;
use definition::Definition;

const MOST_TOOLS: usize = 64;

/// Most bytes that the tools of one component may add to every model call: about half of the default token
/// budget, so that no component can crowd out the conversation.
const PROMPT_BYTES: usize = 16 << 10;

pub(crate) struct Component {
    /// The file's name without `.wasm`.
    pub(crate) name: Arc<str>,
    /// `sha256:…` of its bytes.
    pub(crate) digest: String,
    /// `name@sha256:…`, as receipts have it.
    pub(crate) id: String,
    /// Linked and ready to be instantiated.
    pub(crate) call_interface: CallInterface,
    pub(crate) tools: Vec<Arc<Definition>>,
    /// The file that lies beside it as its signature, whatever that is.
    pub(crate) signature: Option<Vec<u8>>,
    /// Who signed it, of those that the policy trusted when it was loaded.
    pub(crate) signer: Option<VerifiedSigner>,
    /// What it imports that only the policy gives: it is called only while it is granted all of it.
    pub(crate) wants: Vec<Want>,
    /// The interfaces that it imports: what the host answers first, each part sorted.
    pub(crate) imports: Vec<String>,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Whether it imports nothing but the log, so that its answers depend on its arguments alone.
    pub(crate) computes_only: bool,
    /// Whether it is told who the user is.
    pub(crate) tells_users_apart: bool,
    /// What its calls share.
    pub(crate) bulkhead: Bulkhead,
    /// The digest of its facts, once somebody asked for it.
    pub(crate) facts_digest: OnceLock<String>,
}

impl Component {
    /// What the policy knows it by.
    pub(crate) fn identity(&self) -> Identity<'_> {
        Identity { name: &self.name, digest: &self.digest, signer: self.signer.as_ref() }
    }

    /// True for the list of tools of an MCP server.
    pub(crate) fn is_mcp(&self) -> bool {
        matches!(self.call_interface, CallInterface::Mcp { .. })
    }

    /// Whether the other one is the same, looked at under the same signature.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.id == other.id && self.signer == other.signer && self.facts_digest() == other.facts_digest()
    }
}

/// Checks how a component describes itself, which wants these of the policy.
pub(crate) fn define(
    described: Vec<ToolDef>,
    wants: &[Want],
    budget: &mut SchemaBudget,
) -> Result<Vec<Arc<Definition>>, LoadError> {
    if described.is_empty() {
        return Err(LoadError::Listing(
            "it describes no tool: return at least one (in Rust, list the functions in agent_tool_sdk::export!)"
                .into(),
        ));
    }
    if described.len() > MOST_TOOLS {
        return Err(LoadError::Listing(format!(
            "it describes more than {MOST_TOOLS} tools: make several components of it"
        )));
    }
    let mut tools: Vec<Arc<Definition>> = Vec::with_capacity(described.len());
    for one in described {
        let mut tool = Definition::new(one, budget)?;
        tool.reaches_out(wants.contains(&Want::Http));
        if wants.contains(&Want::Toolbox) {
            tool.calls_tools();
        }
        if wants.contains(&Want::Ask) {
            tool.asks();
        }
        if wants.iter().all(|want| matches!(want, Want::Toolbox | Want::Ask)) {
            tool.is_replayable();
        }
        if tools.iter().any(|other| other.spec.name == tool.spec.name) {
            let problem = "it describes two tools of that name: rename one of them".into();
            return Err(LoadError::Definition { tool: tool.spec.name, problem });
        }
        tools.push(Arc::new(tool));
    }
    let bytes = tools.iter().map(|tool| tool.spec.prompt_bytes()).sum::<usize>();
    if bytes > PROMPT_BYTES {
        return Err(LoadError::Listing(format!(
            "its descriptions and input schemas have {bytes} bytes; they may have {PROMPT_BYTES}, because every model call carries them: shorten them, or make several components of it"
        )));
    }
    Ok(tools)
}
