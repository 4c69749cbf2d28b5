//! What is said of a metric where it is declared, kept for the reference of all metrics (`agent-host
//! metrics`).

use prometheus::core::Collector;
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{Error, Registry};
use serde::Serialize;

/// Takes collectors. Metrics register themselves with it wherever they are declared.
pub trait Register {
    /// Takes one, unless a metric of its name is there already.
    fn register(&self, collector: Box<dyn Collector>) -> Result<(), Error>;

    /// Takes a metric as it is made, and gives it back to those who count.
    fn keep<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> prometheus::Result<C> {
        let metric = made?;
        self.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}

impl Register for Registry {
    fn register(&self, collector: Box<dyn Collector>) -> Result<(), Error> {
        Self::register(self, collector)
    }
}

/// One metric, as its reference shows it.
#[derive(Debug, Serialize)]
pub struct Described {
    /// Name of the metric; of a histogram without `_bucket`, `_sum` and `_count`.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// Help text of the metric.
    pub help: String,
}

/// A registry that remembers the descriptions of its collectors, by name.
#[derive(Debug, Default)]
pub(super) struct DescribedRegistry {
    registry: Registry,
    described: parking_lot::Mutex<Vec<Described>>,
}

impl Register for DescribedRegistry {
    fn register(&self, collector: Box<dyn Collector>) -> Result<(), Error> {
        let described = describe(collector.as_ref());
        self.registry.register(collector)?;
        self.described.lock().extend(described);
        Ok(())
    }
}

impl DescribedRegistry {
    /// All samples as they are now.
    pub(super) fn gather(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }

    /// What was registered so far, by name.
    pub(super) fn into_described(self) -> Vec<Described> {
        let mut described = self.described.into_inner();
        described.sort_by(|one, other| one.name.cmp(&other.name));
        described
    }
}

fn describe(collector: &dyn Collector) -> Vec<Described> {
    let families = collector.collect();
    let of = |desc: &prometheus::core::Desc| {
        let constant = desc.const_label_pairs.iter().map(|pair| pair.name().to_owned());
        let family = families.iter().find(|family| family.name() == desc.fq_name);
        Described {
            name: desc.fq_name.clone(),
            kind: kind(&desc.fq_name, family),
            labels: constant.chain(desc.variable_labels.iter().cloned()).collect(),
            help: desc.help.clone(),
        }
    };
    collector.desc().into_iter().map(of).collect()
}

/// A collector that has nothing to show now gives no family. Then the name says it.
fn kind(name: &str, family: Option<&MetricFamily>) -> &'static str {
    match family.map(MetricFamily::get_field_type) {
        Some(MetricType::HISTOGRAM) => "histogram",
        Some(MetricType::COUNTER) => "counter",
        None if name.ends_with("_total") => "counter",
        None | Some(MetricType::GAUGE | MetricType::SUMMARY | MetricType::UNTYPED) => "gauge",
    }
}
