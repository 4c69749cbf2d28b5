//! Deliveries in traces: each attempt is a span in the trace of whoever submitted the job.

use agent_core::ports::webhooks::WebhookReply;
use agent_core::trace::{self, TraceContext};
use agent_core::words::Webhook;
use tracing::field::Empty;
use tracing::{Span, debug_span, error_span};

/// The span that has the submitter's context, and within it that of the attempt. Neither holds the address.
pub(super) fn deliver(webhook: &Webhook) -> (Span, Span) {
    // Of that level so that every line has it, whatever `LOG_LEVEL` says.
    let around = error_span!("webhook", job_id = webhook.job_id);
    if let Some(context) = webhook.traceparent.as_deref().and_then(TraceContext::parse) {
        trace::continue_from(&around, context);
    }
    let span = debug_span!(
        parent: &around,
        "webhook.deliver",
        otel.name = "POST",
        otel.kind = "client",
        http.request.method = "POST",
        messaging.message.id = webhook.job_id,
        "http.request.resend_count" = webhook.tries,
        http.response.status_code = Empty,
        "error.type" = Empty,
    );
    (around, span)
}

/// Notes what the receiver said.
pub(super) fn delivered(span: &Span, reply: &WebhookReply) {
    match reply.outcome {
        Ok(status) => {
            span.record("http.response.status_code", status);
            if status >= 400 {
                span.record("error.type", status.to_string());
            }
        }
        Err(_) => {
            span.record("error.type", "unreachable");
        }
    }
}
