//! Deliveries in traces: each attempt is a span in the trace of whoever submitted the job.

use agent_core::ports::webhooks::WebhookReply;
use agent_core::trace::{self, Kind, Parent, TraceContext};
use agent_core::words::Webhook;
use tracing::{Span, error_span};

/// The span of log lines, and that of the attempt within the submitter's. Neither holds the address.
pub(super) fn deliver(webhook: &Webhook) -> (Span, trace::Span) {
    // Of that level so that every line has it, whatever `LOG_LEVEL` says.
    let around = error_span!("webhook", job_id = webhook.job_id);
    let submitter = webhook.traceparent.as_deref().and_then(TraceContext::parse);
    let submitter = submitter.map(|context| Parent::remote(context, None));
    let span = trace::Span::begin_within(submitter, Kind::Client, "POST", |span| {
        span.text("http.request.method", "POST");
        span.text("messaging.message.id", &*webhook.job_id);
        span.int("http.request.resend_count", u64::from(webhook.tries));
    });
    (around, span)
}

/// Notes what the receiver said.
pub(super) fn delivered(span: &trace::Span, reply: &WebhookReply) {
    span.record(|span| match reply.outcome {
        Ok(status) => {
            span.int("http.response.status_code", u64::from(status));
            if status >= 400 {
                span.failed(status);
            }
        }
        Err(_) => span.failed("unreachable"),
    });
}
