//! `GET /metrics` of every variant. Which metrics there are is decided by whoever renders them.

use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use http::header::{ACCEPT, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue};

use crate::answer::RoutineAnswer;
use crate::dependencies::{MetricsFormat, RenderMetrics};
use crate::openapi::{Operation, tags};

/// As `prom-client` reports it (host/docs/interface/node-clients.md#metrics); the Rust registry's own
/// constant lacks the charset.
const EXPOSITION_FORMAT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// As OpenMetrics has it.
const OPEN_METRICS_FORMAT: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

const OPEN_METRICS: &str = "application/openmetrics-text";
const BY_ACCEPT: HeaderValue = HeaderValue::from_static("accept");

pub(crate) fn describe() -> Operation {
    let description = "All metrics: in the text exposition format 0.0.4, or in OpenMetrics' form, with trace ids on \
                       histograms, when `Accept` prefers that";
    Operation::new("readMetrics", tags::SERVICE, "Metrics for Prometheus")
        .answers_text("text/plain", description)
        .answers_text(OPEN_METRICS, description)
}

pub(crate) async fn show_metrics(
    State(render): State<RenderMetrics>,
    headers: HeaderMap,
) -> impl IntoResponse {
    let format = wanted_format(&headers);
    let content_type = match format {
        MetricsFormat::Text => EXPOSITION_FORMAT,
        MetricsFormat::OpenMetrics => OPEN_METRICS_FORMAT,
    };
    // What was always answered stays as it is to the byte.
    let varies = (format == MetricsFormat::OpenMetrics).then(|| HeaderMap::from_iter([(VARY, BY_ACCEPT)]));
    (Extension(RoutineAnswer), varies.unwrap_or_default(), [(CONTENT_TYPE, content_type)], render(format))
}

/// OpenMetrics only for a client that names it and that has no other form rather. Ranges such as `*/*` name
/// nothing.
fn wanted_format(headers: &HeaderMap) -> MetricsFormat {
    let (mut open_metrics, mut text) = (0.0, 0.0);
    let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let (mut quality, mut version) = (1.0, "1.0.0");
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim().to_ascii_lowercase().as_str() {
                // What is no number refuses.
                "q" => quality = value.trim().parse::<f64>().unwrap_or(0.0),
                "version" => version = value.trim().trim_matches('"'),
                _ => {}
            }
        }
        if kind.eq_ignore_ascii_case(OPEN_METRICS) && matches!(version, "1.0.0" | "0.0.1") {
            open_metrics = f64::max(open_metrics, quality);
        } else if kind.eq_ignore_ascii_case("text/plain") {
            text = f64::max(text, quality);
        }
    }
    if open_metrics > 0.0 && open_metrics >= text { MetricsFormat::OpenMetrics } else { MetricsFormat::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_for_openmetrics_gets_it() {
        const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,*/*;q=0.1";
        for (accept, format) in [
            (PROMETHEUS, MetricsFormat::OpenMetrics),
            ("application/openmetrics-text", MetricsFormat::OpenMetrics),
            ("Application/OpenMetrics-Text; Version=\"1.0.0\"", MetricsFormat::OpenMetrics),
            ("application/openmetrics-text; version=2.0.0", MetricsFormat::Text),
            ("application/openmetrics-text; q=0", MetricsFormat::Text),
            ("application/openmetrics-text; q=much", MetricsFormat::Text),
            ("application/openmetrics-text; q=0.3, text/plain; q=0.5", MetricsFormat::Text),
            ("application/*", MetricsFormat::Text),
            ("*/*", MetricsFormat::Text),
            ("text/plain", MetricsFormat::Text),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(wanted_format(&headers), format, "{accept}");
        }
        assert_eq!(wanted_format(&HeaderMap::new()), MetricsFormat::Text);
    }
}
