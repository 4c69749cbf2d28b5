//! What is known of a call while attempts at it are made, and the receipt that is made of it.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use agent_core::ports::ToolRequest;
use agent_core::words::{Exchange, ReceiptDetail, ToolOutcome, ToolReceipt, ToolReturn};
use tool_egress::CallKey;
use tool_grants::Granted;
use tool_policy::Want;

use super::fault::Fault;
use super::retry;
use super::tool::Tool;
use crate::limits::progress::Progress;
use crate::observer::Observer;
use crate::runtime::Runtime;
use crate::runtime::pure_answers::PureCall;

pub(super) struct Attempts {
    begun: Instant,
    made: u32,
    deadline: Option<Instant>,
    granted: Option<Arc<Granted>>,
    /// The requests of all attempts under the same grants: they share one budget and one receipt.
    requests: Option<Requests>,
    /// Operations on kept values, of all attempts. Made for a component that may keep values.
    operations: OnceCell<Arc<AtomicU32>>,
    /// The call, if its answer may be kept or was.
    pure: Option<PureCall>,
    is_cached: bool,
    ended: Option<Result<String, Fault>>,
}

/// Requests under the same grants. When they are over, the observer is told of the secrets that were met.
struct Requests {
    granted: Arc<Granted>,
    call: Arc<tool_egress::Call>,
    component: Arc<str>,
    observer: Arc<dyn Observer>,
}

impl Drop for Requests {
    fn drop(&mut self) {
        let met = self.call.receipt().secrets_met;
        if met > 0 {
            self.observer.secrets_met(&self.component, met);
        }
    }
}

impl Attempts {
    /// Of a call that began then.
    pub(super) fn begun(begun: Instant) -> Self {
        Self {
            begun,
            made: 0,
            deadline: None,
            granted: None,
            requests: None,
            operations: OnceCell::new(),
            pure: None,
            is_cached: false,
            ended: None,
        }
    }

    /// The attempt is made under these grants, until `deadline`.
    pub(super) fn granted(&mut self, granted: Option<Arc<Granted>>, deadline: Instant) {
        (self.granted, self.deadline) = (granted, Some(deadline));
    }

    /// Whether an attempt got as far as that.
    pub(super) fn had_grants(&self) -> bool {
        self.deadline.is_some()
    }

    /// The answer that the same call had, if the tool says that it always has the same one.
    pub(super) fn known_answer(
        &mut self,
        runtime: &Runtime,
        tool: &Tool,
        request: &ToolRequest<'_>,
    ) -> Option<String> {
        // What is granted may be part of the answer.
        let pure = tool.pure.as_ref().filter(|_| self.granted.is_none())?;
        let pure = self.pure.insert(pure.call(request.call));
        let answer = runtime.pure_answers.get(pure)?;
        self.is_cached = true;
        Some(answer.to_string())
    }

    /// Notes that the call has its permits: it runs.
    pub(super) fn admitted(&mut self) {
        self.made += 1;
    }

    /// What it may send requests with.
    pub(super) fn requests(
        &mut self,
        runtime: &Runtime,
        component: &Arc<str>,
        call: CallKey<'_>,
    ) -> Option<Arc<tool_egress::Call>> {
        let granted = self.granted.as_ref()?;
        if let Some(requests) = &self.requests
            && Arc::ptr_eq(&requests.granted, granted)
        {
            return Some(requests.call.clone());
        }
        let call = Arc::new(runtime.grants.begin(call, granted, self.deadline?)?);
        self.requests = Some(Requests {
            granted: granted.clone(),
            call: call.clone(),
            component: component.clone(),
            observer: runtime.observer.clone(),
        });
        Some(call)
    }

    /// Where its operations on kept values are counted.
    pub(super) fn operations(&self) -> Arc<AtomicU32> {
        self.operations.get_or_init(Arc::default).clone()
    }

    /// The attempt has ended. Returns how long to wait before the next one; nothing when it was the last.
    pub(super) fn end(
        &mut self,
        runtime: &Runtime,
        tool: &Tool,
        ended: Result<String, Fault>,
    ) -> Option<Duration> {
        let pause = ended.as_ref().err().and_then(|fault| {
            let left = self.deadline?.saturating_duration_since(Instant::now());
            retry::pause(&tool.definition, fault, self.made, left)
        });
        if let (Ok(value), Some(pure), false) = (&ended, self.pure.take(), self.is_cached) {
            runtime.pure_answers.keep(pure, value);
        }
        self.ended = Some(ended);
        pause
    }

    /// The answer with its receipt.
    pub(super) fn into_return(
        self,
        tool: &Tool,
        request: &ToolRequest<'_>,
        progress: &Progress,
        policy: &str,
    ) -> ToolReturn {
        let mut receipt = ToolReceipt::new(request.call.name.clone(), ToolOutcome::HostError);
        receipt.component = Some(tool.component.id.clone());
        receipt.duration_ms = milliseconds(self.begun.elapsed());
        let mut detail = self.detail(progress);
        detail.policy = Some(policy.to_owned());
        // What an MCP server tells its callers apart by is not known.
        let may_be_of_one = tool.component.call_interface.is_mcp() && !tool.definition.is_read_only;
        detail.per_user = may_be_of_one
            || tool.component.tells_users_apart
            || self.granted.as_ref().is_some_and(|granted| granted.keeps_data_of_users());
        let reaches_out = |want: &Want| matches!(want, Want::Http | Want::KeyValue);
        detail.effects =
            may_be_of_one || !tool.definition.is_read_only && tool.component.wants.iter().any(reaches_out);
        let content = match self.ended {
            Some(Ok(value)) => {
                receipt.outcome = ToolOutcome::Ok;
                value
            }
            Some(Err(fault)) => {
                receipt.outcome = fault.outcome;
                detail.code = fault.code;
                // What the model was told stands in the journal anyway.
                detail.cause =
                    (!fault.log.is_empty() && !fault.model.contains(&fault.log)).then_some(fault.log);
                fault.model
            }
            None => Fault::host("no attempt was made".into()).model,
        };
        receipt.detail = Some(Box::new(detail));
        ToolReturn { content, receipt }
    }

    fn detail(&self, progress: &Progress) -> ReceiptDetail {
        let cost = progress.cost();
        let has_run = self.made > 0;
        let mut detail = ReceiptDetail {
            waited_ms: has_run.then(|| milliseconds(progress.waited())),
            instantiate_ms: has_run.then(|| milliseconds(cost.instantiate)),
            run_ms: has_run.then(|| milliseconds(cost.run)),
            peak_memory_bytes: has_run.then_some(cost.peak_memory_bytes as u64),
            fuel: cost.fuel,
            attempts: self.made,
            cached: self.is_cached,
            ..ReceiptDetail::default()
        };
        if let Some(requests) = &self.requests {
            describe(requests.call.receipt(), &mut detail);
        }
        detail
    }
}

/// Writes down which requests were made.
fn describe(receipt: tool_egress::Receipt, detail: &mut ReceiptDetail) {
    let exchange = |host: tool_egress::HostReceipt| Exchange {
        scheme: host.scheme.to_owned(),
        host: host.host,
        port: host.port,
        address: host.address.map(|address| address.to_string()),
        requests: host.requests,
        failures: host.failures,
        sent_bytes: host.sent_bytes,
        received_bytes: host.received_bytes,
    };
    detail.exchanges = receipt.hosts.into_iter().map(exchange).collect();
    detail.unlisted_requests = receipt.unlisted_host_requests;
    detail.refusals = receipt.refusals.into_iter().map(|refusal| refusal.text).collect();
    detail.unlisted_refusals = receipt.unlisted_refusals;
    detail.secrets = receipt.secrets;
    detail.redactions = u32::try_from(receipt.redactions).unwrap_or(u32::MAX);
}

/// To the microsecond: finer than that the clock is not worth.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
