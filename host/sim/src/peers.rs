//! The provider and the tools: scripted, slow, failing, and watching what they are asked.

use std::sync::Arc;
use std::time::Duration;

use agent_core::agent_loop::{Approved, RUN_AGENT};
use agent_core::ports::{
    Model, ModelError, ModelRequest, ToolChoice, ToolRequest, ToolSet, Toolbox, Versions, WaitTerms,
};
use agent_core::testing::clock::{store_clock, wall_clock};
use agent_core::testing::says;
use agent_core::words::{
    Catalog, Deciders, Event, Finish, Message, ModelReply, OnExpiry, Principal, ShownCall, ToolCall,
    ToolHints, ToolOutcome, ToolReceipt, ToolReturn, ToolSpec, Usage, Wait, WaitKind,
};
use boxed_async::boxed_async;
use chrono::{DateTime, Utc};
use run_service::invariants::{MadeCall, acted, made, may_be_done_again, owned, pinned};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::faults::gate::{Call, Gate};
use crate::faults::mixed;
use crate::plan::Plan;
use crate::world::{ToolVersion, World};

pub const PAID_ONCE: &str = "no recorded reply is paid again";
pub const ENDS_WITH_PARENT: &str = "a run asks for nothing when the one that began it has ended";

const NAME: &str = "sim/model";

/// How long a wait lasts before it expires: some expire while things fail, and others do not before it is
/// found that nobody goes on with what was decided.
const WAIT: Duration = Duration::from_secs(60);
const LONG_WAIT: Duration = Duration::from_secs(600);

/// How long a run waits for a time.
const NAP: Duration = Duration::from_secs(7);

/// How long behind the end of its parent a run may ask for anything: an attempt takes no longer.
const LEFT_ALONE: Duration = Duration::from_secs(45);

/// A call of a run that is under way, until this is dropped.
struct UnderWay<'a> {
    gate: &'a Gate,
    run_id: &'a str,
}

impl<'a> UnderWay<'a> {
    /// Judges that no other process is at the same run.
    fn begin(gate: &'a Gate, run_id: &'a str) -> Self {
        let own = gate.process.name.clone();
        let other = {
            let mut promises = gate.world.promises.lock();
            let under_way = promises.under_way.entry(run_id.to_owned()).or_default();
            let other = under_way.iter().find(|by| **by != own).cloned();
            under_way.push(own.clone());
            other
        };
        // Whose claim was forgotten goes on until it is renewed.
        if !gate.world.are_claims_undone() {
            gate.world.check(owned(run_id, &own, other.as_deref()));
        }
        Self { gate, run_id }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut promises = self.gate.world.promises.lock();
        let Some(under_way) = promises.under_way.get_mut(self.run_id) else { return };
        if let Some(own) = under_way.iter().position(|by| *by == self.gate.process.name) {
            under_way.swap_remove(own);
        }
    }
}

/// A model that does what the plan in its conversation says.
pub struct Provider(pub Gate);

impl Provider {
    /// Judges that it is asked for the step of that number.
    fn asked(&self, run_id: &str, step: usize, has_ended: bool) {
        let world = &self.0.world;
        // What is empty is no message of the conversation: the model is asked the same once more.
        let is_empty = |reply: &ModelReply| reply.content.trim().is_empty() && reply.tool_calls.is_empty();
        let is_reply = |event: &Event| matches!(event, Event::ModelReplied { reply, .. } if !is_empty(reply));
        let recorded =
            world.runs.look(run_id, |events| events.iter().filter(|(_, event)| is_reply(event)).count());
        let is_undone = world.are_claims_undone();
        let may_be_asked = is_undone || may_be_done_again(step < recorded || has_ended, false);
        world.holds(may_be_asked, PAID_ONCE, || {
            format!("{run_id} asks for reply {step} and has {recorded}, ended: {has_ended}")
        });
    }

    /// How often that reply of the run was asked for, with this time.
    fn times_asked(&self, run_id: &str, step: usize) -> u32 {
        let mut promises = self.0.world.promises.lock();
        let asks = promises.acts.entry(format!("model {run_id} {step}")).or_default();
        *asks += 1;
        *asks
    }

    /// Judges that the run whose wait this is has not ended for long. While stores fail nobody knows.
    fn is_wanted(&self, parent: Option<&str>) {
        let world = &self.0.world;
        let job = parent.and_then(Wait::job_of).and_then(|job_id| world.queue.find(job_id));
        let Some(ended) = job.and_then(|job| job.finished_at).filter(|_| world.is_quiet()) else { return };
        let ago = store_clock().duration_since(ended).unwrap_or_default();
        world.holds(ago < LEFT_ALONE, ENDS_WITH_PARENT, || format!("{parent:?} ended {ago:?} ago"));
    }
}

#[boxed_async]
impl Model for Provider {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let world = &self.0.world;
        let Some((plan, step)) = plan_of(world.seed, request.messages) else {
            return Err(ModelError::Malformed { provider: NAME.into(), detail: "no plan".into() });
        };
        let job = world.queue.find(request.request_id);
        let run_id = match &job {
            Some(job) => job.run_id.clone(),
            // The run of a request names itself, but for one over HTTP.
            None => world.runs.run_of(request.request_id).unwrap_or_else(|| request.request_id.to_owned()),
        };
        self.asked(&run_id, step, job.as_ref().is_some_and(|job| job.status.has_ended()));
        self.is_wanted(job.as_ref().and_then(|job| job.parent.as_deref()));
        let _under_way = UnderWay::begin(&self.0, &run_id);
        let asks = self.times_asked(&run_id, step);
        let roll = |salt| mixed(world.seed ^ plan.number, 1_000 * step as u64 + 10 * u64::from(asks) + salt);
        let complete = async {
            // Sometimes longer than a start may wait, or than a lease lasts.
            let thinks = match roll(1) % 32 {
                // Longer than the lease of a conversation.
                0 if world.deployment.is_talkative && !world.is_quiet() => 21_500,
                0 => 7_500,
                1 | 2 => 1_500,
                3..=6 => 400,
                _ => roll(2) % 60,
            };
            if thinks > 5_000 {
                world.promises.lock().troubled.insert(run_id.clone());
            }
            sleep(Duration::from_millis(thinks)).await;
            // Whoever may call no tools does so all the same, or answers.
            let answers = request.tool_choice == ToolChoice::None && roll(5).is_multiple_of(2);
            let reply = reply(&plan, if answers { usize::MAX } else { step }, asks);
            let read = if world.deployment.is_tight { 200 + roll(6) % 600 } else { 10 + u64::from(asks) };
            let reply = ModelReply { usage: Some(Usage::of(read, 5)), ..spoiled(reply, roll(7)) };
            if let Some(deltas) = request.deltas {
                deltas.text(reply.content.get(..3).unwrap_or_default());
                sleep(Duration::from_millis(roll(3) % 20)).await;
                deltas.text(reply.content.get(3..).unwrap_or_default());
            }
            Ok(reply)
        };
        let fails = |detail: String| {
            let (provider, retry_after) = (NAME.to_owned(), Some(Duration::from_secs(1)));
            match roll(4) % 8 {
                0 => ModelError::Refused { provider, detail },
                1 | 2 => ModelError::Timeout { provider },
                3 | 4 => ModelError::Unreachable { provider, detail },
                5 => ModelError::RateLimited { provider, detail, retry_after, quota_exhausted: false },
                _ => ModelError::Unavailable { provider, detail, retry_after: None },
            }
        };
        let call = Call::step("model", &run_id);
        let replied = self.0.pass(call, fails, complete).await;
        if let Err(error) = &replied {
            let mut promises = world.promises.lock();
            promises.troubled.insert(run_id.clone());
            if matches!(error, ModelError::Refused { .. }) {
                promises.refused.insert(run_id.clone());
            }
        }
        replied
    }
}

/// The plan of a conversation, and how many replies it has had.
fn plan_of(seed: u64, messages: &[Message]) -> Option<(Plan, usize)> {
    let asked = messages.iter().rposition(|message| matches!(message, Message::User { .. }))?;
    let Message::User { content } = messages.get(asked)? else { return None };
    let later = messages.get(asked..).unwrap_or_default().iter();
    let replies = later.filter(|message| matches!(message, Message::Assistant { .. })).count();
    Some((Plan::read(seed, &content.text())?, replies))
}

fn reply(plan: &Plan, step: usize, asks: u32) -> ModelReply {
    let tools = plan.step(step).tools();
    let arguments = |index: usize, name: &str| match name {
        // Some of them take longer than that.
        RUN_AGENT => json!({ "task": format!("plan {}", plan.child(step, index)),
            "within_seconds": if plan.number.is_multiple_of(3) { 20 } else { 300 } }),
        "wait_until" => json!({ "time": DateTime::<Utc>::from(wall_clock() + NAP).to_rfc3339() }),
        "ask_user" => json!({ "question": "Which?" }),
        _ => json!({ "plan": plan.number, "step": step, "index": index }),
    };
    let call = |(index, name): (usize, &&str)| ToolCall {
        id: format!("c{index}"),
        name: (*name).to_owned(),
        arguments: arguments(index, name),
    };
    // Told apart by how often it was asked for: a reader who was shown another one would notice.
    let content = if tools.is_empty() { format!("{} (asked {asks})", plan.answer()) } else { String::new() };
    ModelReply { tool_calls: tools.iter().enumerate().map(call).collect(), ..says(&content) }
}

/// A reply as some models write it: empty, cut off in its words or its calls, or with torn arguments.
fn spoiled(mut reply: ModelReply, roll: u64) -> ModelReply {
    match (roll % 32, &mut reply.tool_calls[..]) {
        (0, _) => return says(" \n"),
        (spoilt @ 1..4, calls) => {
            reply.finish = if spoilt == 1 { Finish::ContentFilter } else { Finish::Length };
            // What is made of them all the same says so itself.
            calls.iter_mut().for_each(|call| call.arguments["is_cut"] = json!(true));
            reply.content.truncate(6);
        }
        (4 | 5, [.., last]) => last.arguments = json!(last.arguments.to_string().get(..9)),
        _ => {}
    }
    reply
}

/// The tools, in whichever version serves.
pub struct Tools(pub Gate);

/// The tools of one run.
struct ToolsOfRun {
    gate: Gate,
    component: u64,
    catalog: Arc<Catalog>,
}

impl Tools {
    fn of(&self, component: u64) -> Arc<dyn ToolSet> {
        let spec = |name: &str, is_repeatable: bool, is_destructive: bool| ToolSpec {
            is_repeatable,
            is_destructive,
            ..agent_core::testing::tool(name)
        };
        let specs = vec![spec("act", false, true), spec("look", true, false), spec("pay", false, false)];
        let catalog = Arc::new(Catalog::new(specs, format!("sha256:{component}")));
        Arc::new(ToolsOfRun { gate: self.0.clone(), component, catalog })
    }
}

#[boxed_async]
impl Toolbox for Tools {
    fn current_for(&self, _caller: &Principal) -> Arc<dyn ToolSet> {
        let ToolVersion { component, .. } = *self.0.world.tools.lock();
        self.of(component)
    }

    async fn pinned(&self, caller: &Principal, _run_id: &str, versions: &Versions) -> Arc<dyn ToolSet> {
        let component = versions.get("bank").and_then(|digest| digest.strip_prefix("sha256:")?.parse().ok());
        match component {
            Some(component) => self.of(component),
            None => self.current_for(caller),
        }
    }

    fn everything(&self) -> Arc<dyn ToolSet> {
        self.current_for(&Principal::default())
    }
}

#[boxed_async]
impl ToolSet for ToolsOfRun {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn versions(&self) -> Versions {
        Versions::from([("bank".to_owned(), format!("sha256:{}", self.component))])
    }

    fn may_wait(&self) -> bool {
        true
    }

    fn approval(&self, call: &ToolCall, _caller: &Principal) -> Option<WaitTerms> {
        let ToolVersion { policy, .. } = *self.gate.world.tools.lock();
        // Direct calls have no plan.
        let plan = call.arguments["plan"].as_u64().unwrap_or_default();
        let is_long = mixed(self.gate.world.seed, plan).is_multiple_of(2);
        (call.name == "pay").then(|| WaitTerms {
            kind: WaitKind::Approval,
            shown: ShownCall {
                tool: call.name.clone(),
                arguments: call.arguments.clone(),
                component: format!("bank@sha256:{}", self.component),
                policy: format!("sha256:{policy}"),
                hints: ToolHints::default(),
            },
            answer: None,
            deciders: Deciders::default(),
            within: if is_long { LONG_WAIT } else { WAIT },
            on_expiry: OnExpiry::Reject,
        })
    }

    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
        let asked = request.approved.map_or(request.call, |approved| &approved.asked);
        let terms = self.approval(asked, request.principal);
        if terms.is_some_and(|terms| !terms.are_met(request.approved)) {
            return WaitTerms::refusal(request.call);
        }
        let world = &self.gate.world;
        let takes = mixed(world.seed, u64::from(request.attempt) + request.call_id.len() as u64) % 40;
        let made = Made::of(&request, self.component);
        let is_waited_for = Arc::new(());
        let (asker, acting) = (Arc::downgrade(&is_waited_for), world.clone());
        let act = async move {
            // Of a call that comes when its run may have gone on without it, only what it does counts.
            if asker.strong_count() > 0 {
                made.is_right(&acting);
            }
            made.acts(&acting);
            sleep(Duration::from_millis(takes)).await;
            Ok(())
        };
        let _under_way = UnderWay::begin(&self.gate, request.run_id);
        let call = Call::step("tool", request.call_id);
        let called = self.gate.write(call, |error: String| error, act).await;
        drop(is_waited_for);
        let (content, outcome) = match called {
            Ok(()) => (request.call.arguments.to_string(), ToolOutcome::Ok),
            Err(error) => (error, ToolOutcome::Failed),
        };
        let component = Some(format!("bank@sha256:{}", self.component));
        ToolReturn {
            content,
            receipt: ToolReceipt { component, ..ToolReceipt::new(&request.call.name, outcome) },
        }
    }
}

/// A call that is made.
struct Made {
    run_id: String,
    call_id: String,
    component: u64,
    must_not_repeat: bool,
    /// What whoever approved it was shown.
    approved: Option<String>,
    arguments: Value,
}

impl Made {
    fn of(request: &ToolRequest<'_>, component: u64) -> Self {
        let (run_id, call_id) = (request.run_id.to_owned(), request.call_id.to_owned());
        let must_not_repeat = request.call.name != "look";
        let approved = request.approved.map(|Approved { digest, .. }| digest.clone());
        let arguments = request.call.arguments.clone();
        Self { run_id, call_id, component, must_not_repeat, approved, arguments }
    }

    /// What the call does to the world, once.
    fn acts(&self, world: &World) {
        let Self { call_id, must_not_repeat, .. } = self;
        let times = {
            let mut promises = world.promises.lock();
            let times = promises.acts.entry(call_id.clone()).or_default();
            *times += 1;
            *times
        };
        world.check(acted(call_id, times, *must_not_repeat));
    }

    /// What must be true when it is made.
    fn is_right(&self, world: &World) {
        let Self { run_id, call_id, component, must_not_repeat, approved, arguments } = self;
        let before = world.promises.lock().components.insert(run_id.clone(), *component);
        world.check(pinned(call_id, before, *component));
        let call = MadeCall {
            id: call_id,
            run_id,
            must_not_repeat: *must_not_repeat,
            approved: approved.as_deref(),
            arguments,
            is_cut: !arguments["is_cut"].is_null(),
            may_be_late: world.are_claims_undone(),
            has_job: !world.queue.look(|job, _| (job.run_id == *run_id).then_some(())).is_empty(),
        };
        world.check(world.runs.look(run_id, |kept| made(kept.iter().map(|(_, event)| event), &call)));
    }
}
