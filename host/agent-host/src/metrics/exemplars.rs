//! Exemplars: of each bucket of a histogram the trace that fell into it last. They are shown only in
//! OpenMetrics' form.
//!
//! Only sampled traces are noted, because nobody could look up another one.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use agent_core::trace::{self, TraceContext};

/// The exemplars of one histogram, all label values of it. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Exemplars(Arc<Histogram>);

#[derive(Debug)]
struct Histogram {
    /// Name of the histogram.
    family: &'static str,
    /// The histogram's one label, or none.
    label: Option<&'static str>,
    /// Upper bounds of its buckets but the last.
    buckets: &'static [f64],
    /// By the label's value: the series of the histogram, which are few.
    latest: Mutex<HashMap<String, Vec<Option<Exemplar>>>>,
}

/// A measurement within a trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exemplar {
    pub(super) trace: TraceContext,
    pub(super) value: f64,
    /// Seconds since 1970.
    pub(super) at: f64,
}

impl Exemplars {
    /// None yet, of a histogram with at most one variable label.
    pub(super) fn of(family: &'static str, label: Option<&'static str>, buckets: &'static [f64]) -> Self {
        Self(Arc::new(Histogram { family, label, buckets, latest: Mutex::default() }))
    }

    /// Notes a measurement of the current trace.
    pub(super) fn note(&self, label_value: &str, value: f64) {
        self.note_of(trace::current(), label_value, value);
    }

    /// Notes a measurement of that trace.
    pub(super) fn note_of(&self, trace: Option<TraceContext>, label_value: &str, value: f64) {
        let Some(trace) = trace.filter(|trace| trace.sampled) else { return };
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let bucket = self.0.buckets.partition_point(|bound| *bound < value);
        let mut latest = self.0.latest.lock();
        // Looked up first, so that only the first measurement costs an allocation.
        if !latest.contains_key(label_value) {
            latest.insert(label_value.to_owned(), vec![None; self.0.buckets.len() + 1]);
        }
        if let Some(slot) = latest.get_mut(label_value).and_then(|buckets| buckets.get_mut(bucket)) {
            *slot = Some(Exemplar { trace, value, at });
        }
    }

    /// Name of the histogram.
    pub(super) fn family(&self) -> &'static str {
        self.0.family
    }

    /// Name of its label.
    pub(super) fn label(&self) -> Option<&'static str> {
        self.0.label
    }

    /// Exemplar of a bucket, counted from the lowest one.
    pub(super) fn find(&self, label_value: &str, bucket: usize) -> Option<Exemplar> {
        *self.0.latest.lock().get(label_value)?.get(bucket)?
    }
}
