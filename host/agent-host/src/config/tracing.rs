//! Where traces go, and which.

use std::fmt;
use std::time::Duration;

use agent_core::secret::Secret;
use http::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::http_url::HttpUrl;
use super::problem::Problem;
use super::reader::{Reader, Reported};
use super::setting::{HOUR, hidden, key, milliseconds, one_of, settings, special, text, url};

settings! {
    /// The key of the tracing service, sent as Authorization: Bearer and as X-API-Key. When it is set, traces
    /// are exported by OTLP over HTTP. A collector that wants no key takes any.
    TRACING_API_KEY = key();
    /// The project that traces are filed under, sent as Langsmith-Project and as the resource attribute
    /// project.
    TRACING_PROJECT = special("text that can stand in an HTTP header").or("production");
    /// The collector that traces are exported to: they are posted to /v1/traces below it.
    OTEL_EXPORTER_OTLP_ENDPOINT = url(&["https", "http"]).or("http://localhost:4318");
    /// The whole address that traces are posted to, where it is another one.
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = url(&["https", "http"]);
    /// More headers of every export. They override those that follow from TRACING_API_KEY and
    /// TRACING_PROJECT.
    OTEL_EXPORTER_OTLP_HEADERS = hidden("name=value pairs, percent-encoded and separated by commas");
    /// More headers of every export of traces. They override those of OTEL_EXPORTER_OTLP_HEADERS.
    OTEL_EXPORTER_OTLP_TRACES_HEADERS = hidden("name=value pairs, percent-encoded and separated by commas");
    /// The protocol of the export. No other is spoken.
    OTEL_EXPORTER_OTLP_PROTOCOL = special(PROTOCOL).or(PROTOCOL);
    /// How long one export may take, retries included. Nobody waits for it.
    OTEL_EXPORTER_OTLP_TIMEOUT = milliseconds(1, HOUR).or_number(|| 10_000);
    /// The name of this service in traces.
    OTEL_SERVICE_NAME = text().or("agent-host");
    /// More attributes of every trace.
    OTEL_RESOURCE_ATTRIBUTES = special("name=value pairs, percent-encoded and separated by commas");
    /// Which traces are recorded. The sampled flag of a caller decides only with those that begin with
    /// parentbased.
    OTEL_TRACES_SAMPLER = one_of(&[
        "always_on",
        "always_off",
        "traceidratio",
        "parentbased_always_on",
        "parentbased_always_off",
        "parentbased_traceidratio",
    ]).or("always_on");
    /// The share of traces that traceidratio records.
    OTEL_TRACES_SAMPLER_ARG = special("a number from 0 to 1").or("1");
    /// Whether traces hold what users, models and tools say. They hold names, sizes and times in any case.
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = one_of(&["true", "false"]).or("false");
}

/// The one protocol that is spoken: OTLP over HTTP with protobuf bodies.
const PROTOCOL: &str = "http/protobuf";

/// The path that a collector takes traces at, beneath `OTEL_EXPORTER_OTLP_ENDPOINT`.
const TRACES_PATH: &str = "v1/traces";

/// The export of traces. Absent from the configuration unless `TRACING_API_KEY` is set.
#[derive(Debug, Clone)]
pub struct Tracing {
    /// Where spans are posted to (`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or below
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`).
    pub endpoint: HttpUrl,
    /// Goes with every export (`TRACING_API_KEY`).
    pub api_key: Secret,
    /// What the traces are filed under (`TRACING_PROJECT`).
    pub project: String,
    /// More headers of every export; they override those that follow from key and project
    /// (`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TRACES_HEADERS`).
    pub headers: Headers,
    /// How long one export may take, retries included (`OTEL_EXPORTER_OTLP_TIMEOUT`).
    pub timeout: Duration,
    /// The resource attribute `service.name` (`OTEL_SERVICE_NAME`).
    pub service_name: String,
    /// More resource attributes (`OTEL_RESOURCE_ATTRIBUTES`).
    pub resource: Vec<(String, String)>,
    /// Which traces are recorded.
    pub sampling: Sampling,
    /// Whether spans hold what users, models and tools say
    /// (`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`).
    pub capture_content: bool,
}

/// Which traces are recorded (`OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The share of traces, decided by their ids so that every service decides alike.
    pub ratio: f64,
    /// Whether the sampled flag of a caller decides instead, where there is one. Callers can then force
    /// sampling.
    pub follows_parent: bool,
}

/// Headers whose values may be secrets. `Debug` shows neither names nor values.
#[derive(Clone, Default)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Tracing {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Reported> {
        let api_key = reader.key(&TRACING_API_KEY);
        let project = reader.value(&TRACING_PROJECT, parse_line);
        let base = reader.value(&OTEL_EXPORTER_OTLP_ENDPOINT, HttpUrl::parse);
        let traces = reader.http_url(&OTEL_EXPORTER_OTLP_TRACES_ENDPOINT);
        let headers = reader.optional(&OTEL_EXPORTER_OTLP_HEADERS, Headers::parse);
        let traces_headers = reader.optional(&OTEL_EXPORTER_OTLP_TRACES_HEADERS, Headers::parse);
        let protocol = reader.value(&OTEL_EXPORTER_OTLP_PROTOCOL, |text| Some(text.to_owned()));
        let timeout = reader.duration(&OTEL_EXPORTER_OTLP_TIMEOUT);
        let service_name = reader.value(&OTEL_SERVICE_NAME, |text| Some(text.to_owned()));
        let resource = reader.optional(&OTEL_RESOURCE_ATTRIBUTES, parse_pairs);
        let ratio = reader.value(&OTEL_TRACES_SAMPLER_ARG, parse_ratio);
        let sampling = reader.value(&OTEL_TRACES_SAMPLER, |word| Sampling::parse(word, ratio.unwrap_or(1.0)));
        let capture_content =
            reader.value(&OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, |word| match word {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            });
        let (protocol, base, traces) = (protocol?, base?, traces?);
        let _ratio = ratio?;
        let Some(api_key) = api_key? else {
            if let Some(variable) = [&OTEL_EXPORTER_OTLP_ENDPOINT, &OTEL_EXPORTER_OTLP_TRACES_ENDPOINT]
                .into_iter()
                .find(|variable| reader.is_set(variable))
            {
                let name = variable.name;
                reader.warn(&format!("{name} is set and TRACING_API_KEY is not: traces are not exported"));
            }
            return Ok(None);
        };
        // Only asked for when it matters: platforms set it for every process they start.
        if protocol != PROTOCOL {
            return Err(reader.report(Problem::refused(&OTEL_EXPORTER_OTLP_PROTOCOL, &protocol)));
        }
        Ok(Some(Self {
            endpoint: traces.unwrap_or_else(|| base.joined(TRACES_PATH)),
            api_key,
            project: project?,
            headers: headers?.unwrap_or_default().and(traces_headers?.unwrap_or_default()),
            timeout: timeout?,
            service_name: service_name?,
            resource: resource?.unwrap_or_default(),
            sampling: sampling?,
            capture_content: capture_content?,
        }))
    }
}

impl Sampling {
    fn parse(word: &str, ratio: f64) -> Option<Self> {
        let (follows_parent, word) = match word.strip_prefix("parentbased_") {
            Some(word) => (true, word),
            None => (false, word),
        };
        let ratio = match word {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => ratio,
            _ => return None,
        };
        Some(Self { ratio, follows_parent })
    }
}

impl Headers {
    /// Reads `name=value` pairs, percent-encoded and separated by commas.
    fn parse(text: &str) -> Option<Self> {
        let header = |(name, value): (String, String)| {
            let mut value = HeaderValue::from_str(&value).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        };
        Some(Self(parse_pairs(text)?.into_iter().map(header).collect::<Option<_>>()?))
    }

    fn and(mut self, mut more: Self) -> Self {
        self.0.append(&mut more.0);
        self
    }

    /// Each header, in the order in which they override each other.
    pub fn iter(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.0.iter()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Headers({})", self.0.len())
    }
}

/// The format of W3C Baggage without properties, which OpenTelemetry's variables have.
fn parse_pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        (!name.trim().is_empty()).then(|| (name.trim().to_owned(), value.into_owned()))
    };
    text.split(',').filter(|one| !one.trim().is_empty()).map(pair).collect()
}

/// A text that can stand in a header.
fn parse_line(text: &str) -> Option<String> {
    HeaderValue::from_str(text).is_ok().then(|| text.to_owned())
}

fn parse_ratio(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_go_below_the_endpoint() {
        for (base, joined) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("https://host/otel/", "https://host/otel/v1/traces"),
            ("https://host/api?key=1", "https://host/api/v1/traces?key=1"),
        ] {
            assert_eq!(HttpUrl::parse(base).unwrap().joined(TRACES_PATH).as_url().as_str(), joined);
        }
    }

    #[test]
    fn pairs_are_percent_encoded_and_separated_by_commas() {
        let pairs = |text| parse_pairs(text).map(|pairs| format!("{pairs:?}"));
        assert_eq!(
            pairs("a=1, b = x%20y%2Cz ,,c=").as_deref(),
            Some(r#"[("a", "1"), ("b", "x y,z"), ("c", "")]"#)
        );
        for wrong in ["a", "=1", "a=1,b", "a=%FF"] {
            assert_eq!(pairs(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn headers_are_not_shown() {
        let headers = Headers::parse("x-key=hunter2,authorization=Basic%20hunter2").unwrap();
        assert_eq!(format!("{headers:?}"), "Headers(2)");
        assert_eq!(headers.iter().last().unwrap().1.to_str().unwrap(), "Basic hunter2");
        assert!(Headers::parse("bad name=1").is_none() && Headers::parse("a=%0A").is_none());
    }

    #[test]
    fn samplers_have_the_names_of_opentelemetry() {
        for (word, ratio, follows_parent) in [
            ("always_on", 1.0, false),
            ("always_off", 0.0, false),
            ("traceidratio", 0.25, false),
            ("parentbased_always_on", 1.0, true),
            ("parentbased_always_off", 0.0, true),
            ("parentbased_traceidratio", 0.25, true),
        ] {
            assert_eq!(Sampling::parse(word, 0.25), Some(Sampling { ratio, follows_parent }), "{word}");
        }
        assert_eq!(Sampling::parse("jaeger_remote", 1.0), None);
        for wrong in ["-0.1", "1.1", "NaN", "half", ""] {
            assert_eq!(parse_ratio(wrong), None, "{wrong}");
        }
    }
}
