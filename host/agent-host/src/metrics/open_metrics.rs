//! OpenMetrics' text form (1.0.0), which has exemplars. The other form is the `prometheus` crate's.

use std::fmt::{self, Display, Write as _};

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

use super::exemplars::{Exemplar, Exemplars};

/// What the names of a counter's samples end in; its family's name does without.
const TOTAL: &str = "_total";

/// The end of every exposition: without it what was read is not whole.
const END: &str = "# EOF\n";

/// All families, and the exemplars of those that have some.
pub(super) fn render(families: &[MetricFamily], exemplars: &[Exemplars]) -> String {
    let mut text = String::with_capacity(32 * 1024);
    for family in families {
        let exemplars = exemplars.iter().find(|of| of.family() == family.name());
        // Writing to a text cannot fail.
        let _ = render_family(&mut text, family, exemplars);
    }
    text.push_str(END);
    text
}

fn render_family(text: &mut String, family: &MetricFamily, exemplars: Option<&Exemplars>) -> fmt::Result {
    let (name, kind) = match (family.get_field_type(), family.name().strip_suffix(TOTAL)) {
        (MetricType::COUNTER, Some(name)) => (name, "counter"),
        (MetricType::GAUGE, _) => (family.name(), "gauge"),
        (MetricType::HISTOGRAM, _) => (family.name(), "histogram"),
        // We have none of these.
        _ => (family.name(), "unknown"),
    };
    writeln!(text, "# TYPE {name} {kind}")?;
    writeln!(text, "# HELP {name} {}", Escaped(family.help()))?;
    for metric in family.get_metric() {
        let labels = Labels { pairs: metric.get_label(), bound: None };
        match family.get_field_type() {
            MetricType::HISTOGRAM => render_histogram(text, name, metric, exemplars)?,
            MetricType::COUNTER => {
                writeln!(text, "{}{labels} {}", family.name(), Number(metric.get_counter().get_value()))?;
            }
            _ => writeln!(text, "{name}{labels} {}", Number(metric.get_gauge().get_value()))?,
        }
    }
    Ok(())
}

fn render_histogram(
    text: &mut String,
    name: &str,
    metric: &Metric,
    exemplars: Option<&Exemplars>,
) -> fmt::Result {
    let (histogram, pairs) = (metric.get_histogram(), metric.get_label());
    let label_value = |of: &Exemplars| match of.label() {
        Some(label) => pairs.iter().find(|pair| pair.name() == label).map(|pair| pair.value().to_owned()),
        None => Some(String::new()),
    };
    let find = |bucket| exemplars.and_then(|of| of.find(&label_value(of)?, bucket));
    let bounds = histogram.get_bucket().iter().filter(|bucket| bucket.upper_bound().is_finite());
    let mut last = 0;
    for (index, bucket) in bounds.enumerate() {
        let labels = Labels { pairs, bound: Some(bucket.upper_bound()) };
        let count = bucket.cumulative_count();
        writeln!(text, "{name}_bucket{labels} {count}{}", Shown(find(index)))?;
        last = index + 1;
    }
    let (labels, count) = (Labels { pairs, bound: Some(f64::INFINITY) }, histogram.get_sample_count());
    writeln!(text, "{name}_bucket{labels} {count}{}", Shown(find(last)))?;
    let labels = Labels { pairs, bound: None };
    writeln!(text, "{name}_sum{labels} {}", Number(histogram.get_sample_sum()))?;
    writeln!(text, "{name}_count{labels} {count}")
}

/// `{a="b",le="0.5"}`, or nothing.
struct Labels<'a> {
    pairs: &'a [LabelPair],
    /// Of a bucket.
    bound: Option<f64>,
}

impl Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "{";
        for pair in self.pairs {
            write!(f, "{before}{}=\"{}\"", pair.name(), Escaped(pair.value()))?;
            before = ",";
        }
        if let Some(bound) = self.bound {
            write!(f, "{before}le=\"{}\"", Number(bound))?;
            before = ",";
        }
        if before == "{" { Ok(()) } else { f.write_str("}") }
    }
}

/// A text as it stands in labels and descriptions.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            char => f.write_char(char),
        })
    }
}

/// A number as OpenMetrics writes it: `1.0`, `+Inf`.
struct Number(f64);

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            number if number == f64::INFINITY => f.write_str("+Inf"),
            number if number == f64::NEG_INFINITY => f.write_str("-Inf"),
            // With a point, whole or not; and `NaN`.
            number => write!(f, "{number:?}"),
        }
    }
}

/// An exemplar behind its sample, or nothing.
struct Shown(Option<Exemplar>);

impl Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Exemplar { trace, value, at }) = self.0 else { return Ok(()) };
        let (trace_id, span_id) = (trace.trace_id, trace.span_id);
        write!(f, " # {{trace_id=\"{trace_id:032x}\",span_id=\"{span_id:016x}\"}} {} {at:.3}", Number(value))
    }
}

#[cfg(test)]
mod tests {
    use agent_core::trace::TraceContext;
    use prometheus::{Gauge, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

    use super::*;

    const BUCKETS: &[f64] = &[0.5, 1.0];

    #[test]
    fn a_family_of_each_kind_is_written_as_the_standard_says() {
        let registry = Registry::new();
        let calls =
            IntCounterVec::new(Opts::new("calls_total", "Calls,\nall \"of\" them"), &["tool"]).unwrap();
        calls.with_label_values(&["a\\b\"c\""]).inc();
        let load = Gauge::new("load", "Load").unwrap();
        load.set(2.0);
        let seconds = HistogramOpts::new("seconds", "Seconds").buckets(BUCKETS.to_vec());
        let seconds = HistogramVec::new(seconds, &["tool"]).unwrap();
        let exemplars = Exemplars::of("seconds", Some("tool"), BUCKETS);
        let context = |sampled| Some(TraceContext { trace_id: 0xabc, span_id: 0xd, sampled });
        for (value, sampled) in [(0.5, true), (0.75, false), (7.0, true)] {
            seconds.with_label_values(&["a"]).observe(value);
            exemplars.note_of(context(sampled), "a", value);
        }
        exemplars.note_of(None, "a", 0.75);
        registry.register(Box::new(calls)).unwrap();
        registry.register(Box::new(load)).unwrap();
        registry.register(Box::new(seconds)).unwrap();
        let text = render(&registry.gather(), &[exemplars]);
        // The time is the machine's.
        let shown: Vec<_> = text
            .lines()
            .map(|line| match line.split_once("\"} ") {
                Some((head, rest)) if rest.contains("trace_id") => {
                    let (exemplar, at) = rest.rsplit_once(' ').unwrap();
                    assert!(at.parse::<f64>().unwrap() > 1e9, "{line}");
                    format!("{head}\"}} {exemplar}")
                }
                _ => line.to_owned(),
            })
            .collect();
        let trace = "# {trace_id=\"00000000000000000000000000000abc\",span_id=\"000000000000000d\"}";
        let expected = [
            "# TYPE calls counter",
            "# HELP calls Calls,\\nall \\\"of\\\" them",
            "calls_total{tool=\"a\\\\b\\\"c\\\"\"} 1.0",
            "# TYPE load gauge",
            "# HELP load Load",
            "load 2.0",
            "# TYPE seconds histogram",
            "# HELP seconds Seconds",
            &format!("seconds_bucket{{tool=\"a\",le=\"0.5\"}} 1 {trace} 0.5"),
            "seconds_bucket{tool=\"a\",le=\"1.0\"} 2",
            &format!("seconds_bucket{{tool=\"a\",le=\"+Inf\"}} 3 {trace} 7.0"),
            "seconds_sum{tool=\"a\"} 8.25",
            "seconds_count{tool=\"a\"} 3",
            "# EOF",
        ];
        assert_eq!(shown, expected);
        assert!(text.ends_with("\n# EOF\n"));
    }
}
