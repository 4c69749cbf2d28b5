//! Scripted fakes that check what they are asked.

pub mod clock;
mod conversations;
mod key_value;
mod queue;
mod queue_beside;
mod queue_state;
mod stores;
mod tool_versions;
mod webhooks;
mod words;

pub use conversations::TestConversations;
pub use key_value::TestKeyValues;
pub use queue::TestQueue;
pub use queue_beside::HeldJobs;
pub use stores::{Switch, TestCache, TestRates, TestRuns};
pub use tool_versions::TestToolVersions;
pub use webhooks::TestOutbox;
pub use words::{
    answer, asks_for, ended, failed, job, receipt_detail, record, record_of_now, reply, result, says, shown,
    task, tool, user, wait,
};

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use boxed_async::boxed_async;

use crate::chosen_tools::restricted;
use crate::circuit_breaker::SharedCircuit;
use crate::ports::{
    Epoch, Journal, JournalError, JournalResult, Model, ModelError, ModelRequest, Preparing, ProgressSink,
    Spawn, ToolFault, ToolRequest, ToolSet, Toolbox, WaitTerms,
};
use crate::words::{
    Catalog, Deciders, Event, Message, ModelReply, OnExpiry, Principal, ShownCall, ToolCall, ToolHints,
    ToolOutcome, ToolProgress, ToolReceipt, ToolReturn, ToolSpec,
};

/// How long it is between two reports of a tool.
const REPORT_PAUSE: Duration = Duration::from_millis(150);

/// A model that gives scripted replies and checks that every conversation it is shown is well formed.
#[derive(Debug, Default)]
pub struct ScriptedModel {
    script: Mutex<VecDeque<Result<ModelReply, ModelError>>>,
    asked: Mutex<Vec<Vec<Message>>>,
    choices: Mutex<Vec<String>>,
    hangs: bool,
}

impl ScriptedModel {
    /// Gives these replies in this order; being asked once more is an error.
    pub fn new(script: impl IntoIterator<Item = Result<ModelReply, ModelError>>) -> Self {
        Self { script: Mutex::new(script.into_iter().collect()), ..Self::default() }
    }

    /// Never replies.
    pub fn hanging() -> Self {
        Self { hangs: true, ..Self::default() }
    }

    /// The conversations it was shown.
    pub fn asked(&self) -> Vec<Vec<Message>> {
        self.asked.lock().clone()
    }

    /// Which tools it could choose, each time it was asked: the [`ToolChoice`](crate::ports::ToolChoice) as
    /// text.
    pub fn choices(&self) -> Vec<String> {
        self.choices.lock().clone()
    }
}

#[boxed_async]
impl Model for ScriptedModel {
    fn name(&self) -> &'static str {
        "test/scripted"
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        check_conversation(request.messages);
        self.asked.lock().push(request.messages.to_vec());
        self.choices.lock().push(format!("{:?}", request.tool_choice));
        if self.hangs {
            std::future::pending::<()>().await;
        }
        self.script.lock().pop_front().unwrap_or_else(|| {
            Err(ModelError::Refused { provider: "test/scripted".into(), detail: "the script is over".into() })
        })
    }
}

/// Every tool call of a conversation is answered once, in order, before the next reply.
///
/// # Panics
/// When it is not.
pub fn check_conversation(messages: &[Message]) {
    let mut open: VecDeque<&str> = VecDeque::new();
    for message in messages {
        match message {
            Message::System { .. } | Message::User { .. } => {}
            Message::Assistant { tool_calls, .. } => {
                assert!(open.is_empty(), "unanswered calls {open:?}");
                open.extend(tool_calls.iter().map(|call| call.id.as_str()));
            }
            Message::Tool { tool_call_id, .. } => {
                assert_eq!(open.pop_front(), Some(tool_call_id.as_str()), "an answer out of turn");
            }
        }
    }
    assert!(open.is_empty(), "unanswered calls {open:?}");
}

/// Tools that answer at once with what they were asked.
#[derive(Debug, Clone)]
pub struct EchoTools {
    catalog: Arc<Catalog>,
    /// Tools that callers of one tier may use and nobody else.
    tiers: BTreeMap<String, String>,
    /// Tools that can tell users apart.
    per_user: BTreeSet<String>,
    /// Tools whose calls somebody has to approve, and the policy that says so.
    approved: BTreeSet<String>,
    policy: String,
    /// How long they may wait for that.
    within: Duration,
    faults: Vec<ToolFault>,
    preparing: Preparing,
    hang: bool,
    /// What each call reports of its progress, a while between two.
    reports: Vec<ToolProgress>,
}

impl EchoTools {
    /// Tools of these names.
    pub fn new(names: &[&str]) -> Self {
        Self::with_digest(names, "sha256:echo")
    }

    /// One tool, whose code has this digest.
    pub fn of_digest(digest: &str) -> Self {
        Self::with_digest(&["echo"], digest)
    }

    fn with_digest(names: &[&str], digest: &str) -> Self {
        let description = "Echoes its arguments.".to_owned();
        let spec = |name: &&str| ToolSpec { description: description.clone(), ..tool(name) };
        let catalog = Catalog::new(names.iter().map(spec).collect(), digest.into());
        Self {
            catalog: Arc::new(catalog),
            tiers: BTreeMap::new(),
            per_user: BTreeSet::new(),
            approved: BTreeSet::new(),
            policy: "sha256:policy".into(),
            within: Duration::from_secs(60),
            faults: vec![],
            preparing: Preparing::default(),
            hang: false,
            reports: vec![],
        }
    }

    /// Makes that tool one for callers of that tier only.
    #[must_use]
    pub fn only_for_tier(mut self, name: &str, tier: &str) -> Self {
        self.tiers.insert(name.into(), tier.into());
        self
    }

    /// Marks that tool as one that can tell users apart.
    #[must_use]
    pub fn telling_users_apart(mut self, name: &str) -> Self {
        self.per_user.insert(name.into());
        self
    }

    /// Makes the tools report these as their progress, 150 ms after each other, before they answer.
    #[must_use]
    pub fn reporting(mut self, reports: &[(&str, Option<f64>)]) -> Self {
        let report = |(message, fraction): &(&str, Option<f64>)| ToolProgress {
            message: (*message).into(),
            fraction: *fraction,
        };
        self.reports = reports.iter().map(report).collect();
        self
    }

    /// Adds components that could not be loaded.
    #[must_use]
    pub fn with_faults(mut self, faults: Vec<ToolFault>) -> Self {
        self.faults = faults;
        self
    }

    /// Adds components that are still being loaded beside the tools.
    #[must_use]
    pub fn with_preparing(mut self, preparing: Preparing) -> Self {
        self.preparing = preparing;
        self
    }

    /// Makes that tool one whose calls somebody has to approve, as the policy of that digest says.
    #[must_use]
    pub fn approved_by(mut self, name: &str, policy: &str) -> Self {
        self.approved.insert(name.to_owned());
        policy.clone_into(&mut self.policy);
        self
    }

    /// Sets how long calls may wait to be approved.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Marks that tool as one that may not be called twice for one purpose.
    #[must_use]
    pub fn once_only(mut self, name: &str) -> Self {
        let once = |tool: &Arc<ToolSpec>| ToolSpec {
            is_repeatable: tool.is_repeatable && tool.name != name,
            ..ToolSpec::clone(tool)
        };
        let tools = self.catalog.tools().iter().map(once).collect();
        self.catalog = Arc::new(Catalog::new(tools, self.catalog.digest().to_owned()));
        self
    }

    /// Makes the tools never answer.
    #[must_use]
    pub fn hanging(mut self) -> Self {
        self.hang = true;
        self
    }
}

#[boxed_async]
impl Toolbox for EchoTools {
    fn current_for(&self, caller: &Principal) -> Arc<dyn ToolSet> {
        let may_use =
            |name: &String| self.tiers.get(name).is_none_or(|tier| caller.tier.as_ref() == Some(tier));
        let names: Vec<_> =
            self.catalog.tools().iter().map(|tool| tool.name.clone()).filter(may_use).collect();
        restricted(Arc::new(self.clone()), &names)
    }

    fn everything(&self) -> Arc<dyn ToolSet> {
        Arc::new(self.clone())
    }

    fn faults(&self) -> Vec<ToolFault> {
        self.faults.clone()
    }

    fn preparing(&self) -> Preparing {
        self.preparing.clone()
    }
}

#[boxed_async]
impl ToolSet for EchoTools {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn approval(&self, call: &ToolCall, _caller: &Principal) -> Option<WaitTerms> {
        self.approved.contains(&call.name).then(|| WaitTerms {
            kind: crate::words::WaitKind::Approval,
            answer: None,
            shown: ShownCall {
                tool: call.name.clone(),
                arguments: call.arguments.clone(),
                component: "echo@sha256:echo".into(),
                policy: self.policy.clone(),
                hints: ToolHints::default(),
            },
            deciders: Deciders::default(),
            within: self.within,
            on_expiry: OnExpiry::Reject,
        })
    }

    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
        let asked = request.approved.map_or(request.call, |approved| &approved.asked);
        let terms = self.approval(asked, request.principal);
        if terms.is_some_and(|terms| !terms.are_met(request.approved)) {
            return WaitTerms::refusal(request.call);
        }
        for report in &self.reports {
            if let Some(progress) = request.progress {
                progress.report(report.clone());
            }
            tokio::time::sleep(REPORT_PAUSE).await;
        }
        if self.hang {
            std::future::pending::<()>().await;
        }
        let receipt = ToolReceipt {
            component: Some("echo@sha256:echo".into()),
            duration_ms: 0.1,
            ..ToolReceipt::new(&request.call.name, ToolOutcome::Ok)
        };
        let is_per_user = self.per_user.contains(&request.call.name);
        let receipt = if is_per_user { of_one_user(receipt) } else { receipt };
        ToolReturn { content: request.call.arguments.to_string(), receipt }
    }
}

/// A toolbox whose tools a test swaps.
#[derive(Debug)]
pub struct SwappedTools(Mutex<EchoTools>);

impl SwappedTools {
    /// A toolbox with these tools for now.
    pub fn new(tools: EchoTools) -> Self {
        Self(Mutex::new(tools))
    }

    /// Has these tools from now on.
    pub fn swap(&self, tools: EchoTools) {
        *self.0.lock() = tools;
    }
}

impl Toolbox for SwappedTools {
    fn current_for(&self, caller: &Principal) -> Arc<dyn ToolSet> {
        self.0.lock().current_for(caller)
    }

    fn everything(&self) -> Arc<dyn ToolSet> {
        self.0.lock().everything()
    }
}

/// The receipt of a call to a tool that can tell users apart.
pub fn of_one_user(mut receipt: ToolReceipt) -> ToolReceipt {
    receipt.detail_mut().per_user = true;
    receipt
}

/// A journal that keeps everything, and fails on demand.
#[derive(Debug, Default)]
pub struct TestJournal {
    events: Mutex<Vec<Event>>,
    fail_at: Option<u64>,
}

impl TestJournal {
    /// A journal whose store breaks at the event of that number.
    pub fn failing_at(sequence: u64) -> Self {
        Self { events: Mutex::default(), fail_at: Some(sequence) }
    }

    /// Everything that was appended.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().clone()
    }
}

#[boxed_async]
impl Journal for TestJournal {
    async fn append(&self, run_id: &str, _epoch: Epoch, first: u64, appended: &[Event]) -> JournalResult {
        if self.fail_at.is_some_and(|number| (first..first + appended.len() as u64).contains(&number)) {
            return Err(JournalError::Store { detail: "the disk is full".into() });
        }
        let mut events = self.events.lock();
        if events.len() as u64 != first {
            return Err(JournalError::Conflict { run_id: run_id.into(), sequence: first });
        }
        events.extend_from_slice(appended);
        Ok(())
    }

    async fn read(&self, _run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        Ok(self.events().into_iter().skip(usize::try_from(from).unwrap_or(usize::MAX)).collect())
    }
}

/// Keeps the latest report of a call.
#[derive(Debug, Default)]
pub struct TestProgress(Mutex<Option<ToolProgress>>);

impl TestProgress {
    /// One as it is kept, and as it is given to a call.
    pub fn shared() -> (Arc<Self>, Arc<dyn ProgressSink>) {
        let latest = Arc::new(Self::default());
        let sink = latest.clone();
        (latest, sink)
    }

    /// The latest report, if it was not read yet.
    pub fn take(&self) -> Option<ToolProgress> {
        self.0.lock().take()
    }
}

impl ProgressSink for TestProgress {
    fn report(&self, progress: ToolProgress) {
        *self.0.lock() = Some(progress);
    }
}

/// A circuit by tokio's clock, which tests can stop.
pub fn circuit(min_volume: u64) -> SharedCircuit {
    SharedCircuit::new(min_volume, || tokio::time::Instant::now().into_std())
}

/// Spawns on the runtime of the test.
#[derive(Debug, Clone, Copy)]
pub struct TokioSpawn;

impl Spawn for TokioSpawn {
    #[expect(clippy::disallowed_methods, reason = "tests have no group of tasks")]
    fn spawn(&self, _name: &'static str, work: futures::future::BoxFuture<'static, ()>) {
        drop(tokio::spawn(work));
    }
}
