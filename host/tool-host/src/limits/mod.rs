//! What one tool call may use up. `memory_limiter.rs` denies memory beyond that, `epoch_interruption.rs`
//! stops a call whose time is over, `progress.rs` has what a call has used up until now.

pub(crate) mod epoch_interruption;
pub(crate) mod memory_limiter;
pub(crate) mod progress;

use std::time::Duration;

use tool_policy::HostLimits;
use tool_policy::effective::ResolvedLimits;

/// What one tool call may use up.
#[derive(Debug, Clone)]
pub struct ToolLimits {
    /// Longest a call may take, host functions included. A tool's `timeout-ms` hint can shorten it.
    pub timeout: Duration,
    /// Most bytes of all linear memories of the component together.
    pub memory_bytes: usize,
    /// Most bytes a tool may return.
    pub output_bytes: usize,
    /// Most log lines of one call; further ones are counted and dropped.
    pub log_lines: u32,
    /// Most bytes of one log line; the rest of it is cut off.
    pub log_line_bytes: usize,
    /// Most calls that hold an instance at the same time; further ones wait their turn within their deadline.
    pub concurrency: u32,
    /// Most calls of one component that do so. A component that hangs keeps the others no slot from theirs
    /// but these.
    pub component_concurrency: u32,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            memory_bytes: 64 << 20,
            output_bytes: 1 << 20,
            log_lines: 100,
            log_line_bytes: 1 << 10,
            concurrency: 128,
            // A quarter of the slots: one component that hangs leaves three.
            component_concurrency: 32,
        }
    }
}

impl ToolLimits {
    /// The host's limits with what the policy says of them. Memory only shrinks: what is reserved for
    /// instances does not grow.
    pub(crate) fn narrowed(&self, granted: ResolvedLimits) -> Self {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            timeout: granted.timeout,
            memory_bytes: bytes(granted.memory_bytes).min(self.memory_bytes),
            output_bytes: bytes(granted.output_bytes),
            ..self.clone()
        }
    }

    /// What applies where the lines of a policy say nothing.
    pub(crate) fn of_policy(&self) -> HostLimits {
        HostLimits {
            timeout: self.timeout,
            memory_bytes: self.memory_bytes as u64,
            output_bytes: self.output_bytes as u64,
        }
    }
}

/// Largest component, in bytes: room for one that carries a Python interpreter.
pub const MOST_COMPONENT_BYTES: u64 = 64 << 20;

/// Most core instances of one component. Components made of Rust have three; those that carry an interpreter
/// have a dozen.
pub(crate) const INSTANCES: u32 = 32;

/// Most linear memories of one component. Nearly every component has one; composed ones have one each.
pub(crate) const MEMORIES: u32 = 8;

/// Most tables of one component, likewise two.
pub(crate) const TABLES: u32 = 16;

/// Components that may describe themselves at the same time. They have instances of their own, so that they
/// neither wait for calls nor take theirs.
pub(crate) const DESCRIBE_SLOTS: u32 = 2;

/// Calls that may call tools, at the same time. They have instances of their own, so that they never hold
/// what the calls wait for that they make: those cannot call further.
pub(crate) const CALLING_SLOTS: u32 = 32;

/// How many of them one component may hold, so that one whose calls hang leaves some to others.
pub(crate) const CALLING_SHARE: u32 = 24;

/// What a guest may move to the host at once beyond its output: the lists and records around it.
const OUTPUT_SLACK_BYTES: usize = 64 << 10;

/// What a guest may move to the host as typed values: each element of a list takes some 40 bytes until it is
/// JSON.
const VALUE_BYTES: usize = 4 << 20;

/// What a guest may move to the host as typed values with flags among them: wasmtime counts the bytes of the
/// flags' names, and each becomes a text.
const FLAG_BYTES: usize = 512 << 10;

/// Most elements of all tables of a component together, and so of each: components that carry an interpreter
/// have some ten thousand.
pub(crate) const TABLE_ELEMENTS: usize = 100_000;

/// How values get from a guest to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// As one text.
    Text,
    /// One by one.
    Values,
    /// One by one, and flags among them.
    Flags,
}

impl Transfer {
    /// What a guest may move to the host at once. Typed values take more room on their way than their text.
    pub(crate) fn most_at_once(self, limits: &ToolLimits) -> usize {
        match self {
            Self::Text => limits.output_bytes.saturating_add(OUTPUT_SLACK_BYTES),
            Self::Values => VALUE_BYTES,
            Self::Flags => FLAG_BYTES,
        }
    }
}
