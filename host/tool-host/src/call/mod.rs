//! One call: arguments checked, permits, a fresh store, a deadline, and an answer whatever happens.
//!
//! In the order of a call: `validation.rs` checks the arguments, [`crate::component::bulkhead`] admits it,
//! [`crate::threads::guest_runtime`] says on which thread it goes on, `guest.rs` runs the guest in a fresh
//! store (or `remote.rs` asks an MCP server), `nested.rs` makes the calls that it asks for itself,
//! `validation.rs` checks the output. `retry.rs` says whether it is tried again, `fault.rs` has the words for
//! whatever goes wrong, `receipt.rs` what is written down of it. `shadow_calls.rs` makes the calls of a
//! version that is tried.

mod admitted;
mod fault;
mod guest;
mod nested;
mod receipt;
mod remote;
mod retry;
pub(crate) mod shadow_calls;
pub(crate) mod tool;
mod validation;

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{NestedTools, ToolRequest, WaitTerms};
use agent_core::trace;
use agent_core::words::{Principal, ToolOutcome, ToolReturn};
use tool_egress::CallKey;
use tool_grants::{GrantBounds, Granted, NoGrants};
use tool_policy::Want;

use crate::capability::ask::AskState;
use crate::capability::context::CallIds;
use crate::capability::nondeterminism::{Nondeterminism, RecordedClock};
use crate::capability::state::Caller;
use crate::capability::toolbox::{Outer, ToolboxState};
use crate::component::bulkhead::CallKind;
use crate::limits::progress::Progress;
use crate::observer::{CallReport, Cost};
use crate::runtime::{KeepingCall, Runtime};
use crate::threads::guest_runtime::Start;
use admitted::Admitted;
use fault::Fault;
use nested::Served;
use receipt::Attempts;

use tool::Tool;

/// A tool whose calls take longer on the mean is begun on the guests' runtime.
const HEAVY: Duration = Duration::from_millis(1);

/// Calls a tool and makes the receipt.
pub(crate) async fn call(runtime: &Arc<Runtime>, tool: &Arc<Tool>, request: ToolRequest<'_>) -> ToolReturn {
    let asked = request.approved.map_or(request.call, |approved| &approved.asked);
    if tool.approval(runtime, asked).is_some_and(|terms| !terms.are_met(request.approved)) {
        return WaitTerms::refusal(request.call);
    }
    let call = Call { runtime, tool, request, start: Instant::now() };
    let mut attempts = Attempts::begun(call.start);
    let mut begun = call.start;
    loop {
        let progress = Arc::new(Progress::new(begun, runtime.sandbox.counts_fuel()));
        let mut report = Report {
            runtime,
            tool,
            caller: request.principal,
            progress: &progress,
            outcome: ToolOutcome::Cancelled,
        };
        let ended = call.attempt(&progress, &mut attempts).await;
        if let Err(fault) = &ended {
            fault.log(tool, request.request_id);
        }
        report.outcome = ended.as_ref().map_or_else(|fault| fault.outcome, |_| ToolOutcome::Ok);
        drop(report);
        match attempts.end(runtime, tool, ended) {
            Some(pause) => {
                tokio::time::sleep(pause).await;
                begun = Instant::now();
            }
            None => {
                let (policy, had_grants) = (runtime.grants.current(), attempts.had_grants());
                let answer = attempts.into_return(tool, &request, &progress, policy.digest());
                tool.tell_trial(runtime, &request, &answer, (call.start, had_grants));
                return answer;
            }
        }
    }
}

/// Tells the observer what the call came to when it is dropped, which it also is when the caller goes away.
struct Report<'a> {
    runtime: &'a Runtime,
    tool: &'a Tool,
    caller: &'a Principal,
    progress: &'a Progress,
    outcome: ToolOutcome,
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        let cost = self.progress.cost();
        if cost != Cost::default() {
            self.tool.definition.run_time.add(cost.instantiate + cost.run);
        }
        // A shadow's calls are nobody's.
        if self.tool.is_shadow() {
            return;
        }
        if self.outcome == ToolOutcome::Cancelled && cost != Cost::default() {
            self.tool.tell_trial_of_cancelled(self.caller, self.progress.elapsed());
        }
        self.runtime.observer.call_ended(&CallReport {
            tool: &self.tool.name,
            component: &self.tool.component.name,
            outcome: self.outcome,
            duration: self.progress.elapsed(),
            cost,
        });
    }
}

/// What is asked of which tool.
struct Call<'a> {
    runtime: &'a Arc<Runtime>,
    tool: &'a Arc<Tool>,
    request: ToolRequest<'a>,
    start: Instant,
}

/// How a call that may call tools or ask reaches them, and the clock that its guest is told.
struct OuterCall {
    outer: Option<Outer>,
    clock: Option<Arc<RecordedClock>>,
}

impl Call<'_> {
    async fn attempt(&self, progress: &Arc<Progress>, attempts: &mut Attempts) -> Result<String, Fault> {
        let Self { runtime, tool, request, start } = self;
        let granted = self.granted().await?;
        let host = runtime.sandbox.limits();
        let limits = granted.as_ref().map_or_else(|| host.clone(), |granted| host.narrowed(granted.limits()));
        let limit = limits.timeout;
        let allowed = tool.definition.timeout.map_or(limit, |own| own.min(limit));
        let deadline = (*start + allowed).min(request.deadline);
        let allowed = deadline.saturating_duration_since(*start);
        attempts.granted(granted.clone(), deadline);

        let is_checked = validation::check_quickly(&tool.definition, &request.call.arguments)?;
        if let Some(known) = attempts.known_answer(runtime, tool, request) {
            return Ok(known);
        }
        let wants = |want: Want| tool.component.wants.contains(&want);
        let nested = request.nested.filter(|_| wants(Want::Toolbox) || wants(Want::Ask));
        let kind = if nested.is_some() { CallKind::CallsTools } else { CallKind::Plain };
        let permits = tool.component.bulkhead.admit(&runtime.slots, kind, deadline).await;
        let permits = permits.map_err(|whose| Fault::busy(whose, allowed))?;
        attempts.admitted();
        let (runtime, tool) = ((*runtime).clone(), (*tool).clone());
        let admitted = Admitted { runtime, tool, granted, limits, allowed, deadline, permits };
        let (outer, asked) = nested.map(nested::open).unzip();
        let clock = nested.and_then(NestedTools::recorded).map(|world| Arc::new(RecordedClock::new(world)));
        let outer = OuterCall { outer, clock: clock.clone() };
        let caller = self.caller(&admitted, progress, outer, attempts);
        // A value is always JSON. `Display` would write it piece by piece through a formatter.
        let mut arguments = serde_json::to_string(&request.call.arguments).unwrap_or_default();
        if !is_checked {
            arguments = admitted.check_arguments(arguments).await?;
        }
        let is_heavy = self.tool.definition.run_time.get() > HEAVY;
        let begin = if is_heavy { Start::OnGuestRuntime } else { Start::Here };
        let run = Box::pin(admitted.run(caller, arguments));
        if self.tool.component.call_interface.is_mcp() {
            // An MCP call waits for others and computes nothing. Dropped with its caller, it closes its
            // connection at once. Its request has the same deadline, and may be the first to notice.
            return match tokio::time::timeout_at(deadline.into(), run).await {
                Ok(ended) if ended.is_ok() || Instant::now() < deadline => ended,
                Ok(_) | Err(_) => Err(Fault::timed_out(allowed)),
            };
        }
        let run = self.runtime.guest_runtime.run(begin, deadline, progress.clone(), run);
        let ended = match nested.zip(asked) {
            Some((tools, asked)) => {
                let (component, clock) = (&*self.tool.component.id, clock.as_deref());
                nested::serve(run, Served { tools, component, clock }, asked).await
            }
            None => run.await,
        };
        ended.unwrap_or_else(|unfinished| Err(Fault::unfinished(&unfinished, allowed)))
    }

    /// What the component may do in this call, if that is enough for it to be called.
    async fn granted(&self) -> Result<Option<Arc<Granted>>, Fault> {
        let Self { runtime, tool, request, .. } = self;
        let component = &tool.component;
        // How long the call may take is not known before it has its grants.
        let within = runtime.sandbox.limits().timeout;
        let bounds = GrantBounds { threads: &component.bulkhead.grants, within, deadline: request.deadline };
        let (identity, caller) = (component.identity(), request.principal);
        let granted = runtime.grants.of_call(&tool.policy, identity, caller, bounds).await;
        let granted = granted.map_err(|none| match none {
            NoGrants::Denied(problem) => {
                tracing::warn!(component = &*component.name, problem, "a call was not made");
                Fault::ungranted(&problem)
            }
            NoGrants::OutOfTime(allowed) => Fault::no_grants(allowed),
        })?;
        let is_granted = |want: &Want| granted.as_ref().is_some_and(|granted| granted.allows(*want));
        if component.wants.iter().all(is_granted) {
            return Ok(granted);
        }
        Err(Fault::ungranted("the policy has no lines for it any more"))
    }

    /// For whom the guest runs, and what it runs with.
    fn caller(
        &self,
        admitted: &Admitted,
        progress: &Arc<Progress>,
        outer: OuterCall,
        attempts: &mut Attempts,
    ) -> Caller {
        let Self { runtime, tool, request, .. } = self;
        let Admitted { granted, limits, deadline, .. } = admitted;
        let (component, deadline) = (&tool.component, *deadline);
        let OuterCall { outer, clock } = outer;
        let granted_way = |want: Want| outer.clone().filter(|_| component.wants.contains(&want));
        // Nobody replays calls of MCP servers, so no run has recordings of what these are asked.
        let run_id = if component.is_mcp() { "" } else { request.run_id };
        let user =
            component.tells_users_apart.then(|| runtime.users.name(request.principal, &component.name));
        Caller {
            ids: CallIds::new(request.request_id, request.run_id, request.call_id),
            attempt: request.attempt,
            user: user.flatten().map(Arc::from),
            trace: trace::current(),
            component: component.name.clone(),
            tool: tool.name.clone(),
            deadline,
            progress: progress.clone(),
            log_rate: component.bulkhead.log_rate.clone(),
            requests: attempts.requests(
                runtime,
                &component.name,
                CallKey { run_id, call_id: request.call_id },
            ),
            key_value: runtime.key_value_of(
                &KeepingCall {
                    component: &component.name,
                    is_shadow: tool.is_shadow(),
                    caller: request.principal,
                    deadline,
                    operations: &|| attempts.operations(),
                },
                granted.as_deref(),
            ),
            toolbox: ToolboxState(granted_way(Want::Toolbox)),
            ask: AskState(granted_way(Want::Ask).filter(|_| tool.definition.spec.may_ask)),
            nondeterminism: clock.map_or(Nondeterminism::Live, Nondeterminism::Recorded),
            reports: request.progress.cloned(),
            granted: granted.clone(),
            limits: limits.clone(),
        }
    }
}
