//! The tools.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use boxed_async::boxed_async;
use serde::Serialize;
use serde_json::Value;

use crate::agent_loop::{Approved, refusal};
use crate::words::{
    Catalog, Deciders, EnclosingCall, Grants, OnExpiry, Principal, ShownCall, ToolCall, ToolProgress,
    ToolReturn, Usage, Wait, WaitKind,
};

/// Where a run gets its tools from.
#[boxed_async]
pub trait Toolbox: Send + Sync {
    /// The tools that this caller may use, as they are at this moment. A run keeps the set it started with,
    /// whatever is swapped meanwhile. Callers who may use the same tools under the same grants get sets of
    /// the same digest, and others get others: answers are shared by it.
    ///
    /// It is asked several times for a request, so it should cost no more than a look-up.
    fn current_for(&self, caller: &Principal) -> Arc<dyn ToolSet>;

    /// The tools of one run of this caller: [`current_for`](Self::current_for), but for a share of the runs
    /// while new versions of components are tried. Then the digest is another one. The same run has the same
    /// tools on every replica that knows the same versions.
    fn for_run(&self, caller: &Principal, run_id: &str) -> Arc<dyn ToolSet> {
        let _ = run_id;
        self.current_for(caller)
    }

    /// The tools of a run that is taken up: those that its caller may use by now, in the versions that it
    /// began with as far as they can still be had. Loading one may take as long as reading it, and compiling
    /// it if that is not done yet.
    async fn pinned(&self, caller: &Principal, run_id: &str, versions: &Versions) -> Arc<dyn ToolSet> {
        let _ = versions;
        self.for_run(caller, run_id)
    }

    /// Every tool that serves, whoever may use it: for whoever looks after the service. No caller's run is
    /// made with it.
    fn everything(&self) -> Arc<dyn ToolSet>;

    /// The components that could not be loaded, and why. The others serve.
    fn faults(&self) -> Vec<ToolFault> {
        Vec::new()
    }

    /// What is still being loaded.
    fn preparing(&self) -> Preparing {
        Preparing::default()
    }

    /// Waits until everything that the service found at its start serves or is refused. From then on this
    /// returns at once.
    async fn prepared(&self) {}

    /// Why there is nothing to serve, where that is how the service was set up.
    fn no_tools(&self) -> Option<String> {
        None
    }
}

/// Versions of components: `sha256:…` of each, by name.
pub type Versions = BTreeMap<String, String>;

/// One immutable set of tools.
#[boxed_async]
pub trait ToolSet: Send + Sync {
    /// What the model is told.
    fn catalog(&self) -> &Arc<Catalog>;

    /// Which versions of components its tools are of: what a run is pinned to.
    fn versions(&self) -> Versions {
        Versions::new()
    }

    /// Whether a run with these tools may have to wait for somebody.
    fn may_wait(&self) -> bool {
        false
    }

    /// Whether a call of that tool may have to wait for somebody. False is never wrong while the policy
    /// stays.
    fn may_wait_for(&self, tool: &str) -> bool {
        let _ = tool;
        self.may_wait()
    }

    /// Whether a call of such a tool may have to wait for somebody in its middle: it asks, or calls tools
    /// that may have to wait.
    fn may_wait_within(&self, may_ask: bool, calls_tools: bool) -> bool {
        let mut callable = self.catalog().nestable().filter(|_| calls_tools);
        may_ask || callable.any(|tool| self.may_wait_for(&tool.name))
    }

    /// What has to be decided before this call is made on behalf of `caller`; nothing where it may be made at
    /// once. Of the model's arguments, not of those that somebody made of them.
    fn approval(&self, call: &ToolCall, caller: &Principal) -> Option<WaitTerms>;

    /// Calls one tool. One that has to be approved, and was not as it would be shown now, is
    /// [refused](WaitTerms::refusal). Whatever goes wrong is an answer to the model, never an error of
    /// the run. Dropping the future interrupts the tool.
    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn;
}

/// On which terms a call is made that somebody has to decide about, or answered that waits for something.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitTerms {
    /// Whether somebody is asked, or a time or an event is waited for.
    pub kind: WaitKind,
    /// What those who decide are shown.
    pub shown: ShownCall,
    /// The JSON Schema of an answer.
    pub answer: Option<Value>,
    /// Who decides, how many of them, and whether the owner may.
    pub deciders: Deciders,
    /// How long after its beginning a wait expires.
    pub within: Duration,
    /// What is decided when the wait has expired.
    pub on_expiry: OnExpiry,
}

impl WaitTerms {
    /// A wait for a call that begins now.
    pub fn wait(&self, call: WaitingCall<'_>, began_at: u64) -> Wait {
        let WaitingCall { id, times_shown, index, within: enclosing, usage } = call;
        let within = u64::try_from(self.within.as_millis()).unwrap_or(u64::MAX);
        Wait {
            id: match times_shown {
                0 => id.to_owned(),
                before => format!("{id}~{before}"),
            },
            index,
            within: enclosing.cloned(),
            kind: self.kind,
            shown: self.shown.clone(),
            answer: self.answer.clone(),
            deciders: self.deciders.clone(),
            began_at,
            expires_at: began_at.saturating_add(within),
            on_expiry: self.on_expiry,
            usage,
            child: None,
        }
    }

    /// The answer to a call that was not approved, where nobody can be asked.
    pub fn refusal(call: &ToolCall) -> ToolReturn {
        Self::not_made(call, "somebody has to approve this call, and nobody could be asked here")
    }

    /// The answer to a call that is not made, and why.
    pub fn not_made(call: &ToolCall, why: &str) -> ToolReturn {
        refusal::not_run(call, why)
    }

    /// Approves the call on these terms, for a command whose calls reach nothing and where nobody is asked.
    pub fn approve(&self, asked: &ToolCall) -> Approved {
        Approved { digest: self.shown.digest(), asked: Arc::new(asked.clone()) }
    }

    /// Whether this is what was approved.
    pub fn are_met(&self, approved: Option<&Approved>) -> bool {
        approved.is_some_and(|approved| approved.digest == self.shown.digest())
    }
}

/// A call that is to wait.
#[derive(Debug, Clone, Copy)]
pub struct WaitingCall<'a> {
    /// Names it within all runs.
    pub id: &'a str,
    /// How often it was shown to somebody before.
    pub times_shown: u32,
    /// Which call of the reply it is, counted from 0.
    pub index: usize,
    /// The call of that index, where the one that waits is one of its nested calls or questions.
    pub within: Option<&'a EnclosingCall>,
    /// What its run has cost so far.
    pub usage: Usage,
}

/// One call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct ToolRequest<'a> {
    /// The HTTP request or job on whose behalf the call is made.
    pub request_id: &'a str,
    /// The run that makes it, `run_…`.
    pub run_id: &'a str,
    /// Names this call of this run, and stays the same over retries and resumes and on every replica: an
    /// idempotency key. [`ToolCall::id`] is the model's and is unique within one reply only.
    pub call_id: &'a str,
    /// Which attempt at the run makes it, from 1.
    pub attempt: u32,
    /// On whose behalf. Components are told an opaque id at most.
    pub principal: &'a Principal,
    /// What the run may do.
    pub grants: &'a Grants,
    /// What the model asked for, or what somebody made of it; the arguments are a JSON object.
    pub call: &'a ToolCall,
    /// What somebody approved, if anybody did.
    pub approved: Option<&'a Approved>,
    /// When the caller stops waiting. The tool's own limit may be shorter.
    pub deadline: Instant,
    /// The run's other tools and whom to ask, if the tool may call or ask
    /// ([`ToolSpec::calls_tools`](crate::words::ToolSpec), `may_ask`). Absent for calls outside of runs and
    /// for those that a tool makes: calls never nest deeper than one.
    pub nested: Option<&'a dyn NestedTools>,
    /// Where the tool's reports of its progress go; absent where nobody reads them. Shared, because a tool
    /// may go on on another thread.
    pub progress: Option<&'a Arc<dyn ProgressSink>>,
}

/// Takes what a tool reports of its progress. Nothing else depends on it.
pub trait ProgressSink: Send + Sync {
    /// A report, which replaces those before it that nobody has read. Called while the tool waits for it, so
    /// it costs a few instructions and never waits. Whoever implements it bounds how often reports are handed
    /// on.
    fn report(&self, progress: ToolProgress);
}

impl fmt::Debug for dyn ProgressSink + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSink")
    }
}

/// The run's other tools, for a tool that may call them, and its people, for one that may ask.
///
/// The calls are the run's: each is bounded in number, journaled when it was answered and given back only
/// then. They are part of the call that makes them, which is to be polled while they are under way; dropping
/// it drops them.
#[boxed_async]
pub trait NestedTools: Send + Sync {
    /// Names that can be called, sorted.
    fn names(&self) -> Vec<String>;

    /// The clock and the random numbers of the call that calls or asks, where it may be made again with the
    /// same answers. The time moves with each answer.
    fn recorded(&self) -> Option<RecordedWorld> {
        None
    }

    /// Calls one with `arguments`, which is JSON text of an object. Whatever goes wrong is an answer: that
    /// the host refuses a call is [`ToolOutcome::NotRun`](crate::words::ToolOutcome) with the code [`DENIED`]
    /// (the tool calls tools itself), [`REJECTED`] or [`LIMIT_EXCEEDED`]. Dropping the future interrupts the
    /// tool.
    async fn call(&self, name: &str, arguments: &str) -> Result<ToolReturn, CallEnds>;

    /// Asks somebody. What they answer is the content, as JSON text.
    async fn ask(&self, question: Question<'_>) -> Result<ToolReturn, CallEnds>;
}

/// What a tool asks somebody.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Whose code asks, as `component@sha256:…`.
    pub component: &'a str,
    /// The question, in the tool's words.
    pub text: &'a str,
    /// The JSON Schema of the answer, as text.
    pub schema: Option<&'a str>,
}

/// What a call sees of the world that is made again with the same answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedWorld {
    /// The time, in milliseconds since 1970.
    pub now: u64,
    /// What random numbers are made from.
    pub seed: String,
}

/// The call that calls or asks ends here, without an answer: it is to be made again when somebody has
/// decided, or cannot go on as it did before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the call ends here, to be made again")]
pub struct CallEnds;

/// Code of the receipt of a nested call or question that somebody rejected, or nobody decided in time.
pub const REJECTED: &str = "rejected";

/// Code of the receipt of a nested call whose tool calls tools itself.
pub const DENIED: &str = "denied";

/// Code of the receipt of a nested call that would be one too many.
pub const LIMIT_EXCEEDED: &str = "limit-exceeded";

impl fmt::Debug for dyn NestedTools + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NestedTools")
    }
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
            approved: None,
            deadline,
            nested: None,
            progress: None,
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
    /// Name of the component's file, without the folder.
    pub file: String,
    /// What is wrong and what to do about it.
    pub error: String,
}
