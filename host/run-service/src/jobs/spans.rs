//! Jobs in traces: the spans of adding and of working off, named as OpenTelemetry's conventions for messaging
//! say.

use agent_core::ports::queue::QUEUE;
use agent_core::ports::{AttemptOutcome, Claim};
use tracing::field::Empty;
use tracing::{Span, debug_span};

/// The span of adding a job. Its context goes with the job.
pub(super) fn send() -> Span {
    debug_span!(
        "job.send",
        otel.name = %format_args!("send {QUEUE}"),
        otel.kind = "producer",
        messaging.system = "agent_host",
        messaging.operation.name = "send",
        "messaging.operation.type" = "send",
        messaging.destination.name = QUEUE,
    )
}

/// The span of an attempt at a job, within `around`, which has the context of who added it.
pub(super) fn process(claim: &Claim, around: &Span) -> Span {
    debug_span!(
        parent: around,
        "job.process",
        otel.name = %format_args!("process {QUEUE}"),
        otel.kind = "consumer",
        messaging.system = "agent_host",
        messaging.operation.name = "process",
        "messaging.operation.type" = "process",
        messaging.destination.name = QUEUE,
        messaging.message.id = claim.job_id,
        agent.job.attempt = claim.attempts_made + 1,
        agent.job.outcome = Empty,
        "error.type" = Empty,
    )
}

/// Notes on the current span how the attempt ended.
pub(super) fn processed(outcome: AttemptOutcome) {
    let span = Span::current();
    span.record("agent.job.outcome", outcome.as_str());
    if matches!(outcome, AttemptOutcome::Failed | AttemptOutcome::Lost) {
        span.record("error.type", outcome.as_str());
    }
}
