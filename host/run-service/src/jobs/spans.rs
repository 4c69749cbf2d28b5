//! Jobs in traces: the spans of adding and of working off, named as OpenTelemetry's conventions for messaging
//! say.

use agent_core::ports::queue::QUEUE;
use agent_core::ports::{AttemptOutcome, Claim};
use agent_core::trace::{Fields, Kind, Parent, Span};

/// The span of adding a job. Its context goes with the job.
pub(super) fn send() -> Span {
    Span::begin(Kind::Producer, "job.send", |span| begun(span, "send"))
}

/// The span of an attempt at a job, within that of who added it.
pub(super) fn process(claim: &Claim) -> Span {
    let added_by = claim.trace.map(|context| Parent::remote(context, None));
    Span::begin_within(added_by, Kind::Consumer, "job.process", |span| {
        begun(span, "process");
        span.text("messaging.message.id", &*claim.job_id);
        span.int("agent.job.attempt", u64::from(claim.attempts_made) + 1);
    })
}

fn begun(span: &mut Fields, operation: &str) {
    span.named(format_args!("{operation} {QUEUE}"));
    span.text("messaging.system", "agent_host");
    span.text("messaging.operation.name", operation);
    span.text("messaging.operation.type", operation);
    span.text("messaging.destination.name", QUEUE);
}

/// Notes how the attempt ended.
pub(super) fn processed(span: &Span, outcome: AttemptOutcome) {
    span.record(|span| {
        span.text("agent.job.outcome", outcome.as_str());
        if matches!(outcome, AttemptOutcome::Failed | AttemptOutcome::Lost) {
            span.failed(outcome.as_str());
        }
    });
}
