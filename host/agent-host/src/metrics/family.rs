//! Samples that are known only when they are asked for: no counter to keep, nothing to reset.

use std::collections::HashMap;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// A name, its kind and its labels.
pub(super) struct Family {
    desc: Desc,
    kind: Kind,
}

/// What a sample means.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// The value only grows.
    Counter,
    /// The value goes up and down.
    Gauge,
}

impl Family {
    /// A family whose samples have these labels.
    pub(super) fn new(kind: Kind, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<Self> {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())?;
        Ok(Self { desc, kind })
    }

    /// What the registry wants to know beforehand.
    pub(super) fn desc(&self) -> &Desc {
        &self.desc
    }

    /// The family with these samples: one value for each label, and the sample's own.
    pub(super) fn with<'a>(&self, samples: impl IntoIterator<Item = (Vec<&'a str>, f64)>) -> MetricFamily {
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(match self.kind {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
        });
        let sample = |(values, value): (Vec<&str>, f64)| self.sample(&values, value);
        family.set_metric(samples.into_iter().map(sample).collect());
        family
    }

    fn sample(&self, values: &[&str], value: f64) -> Metric {
        let pair = |(name, value): (&String, &&str)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.clone());
            pair.set_value((*value).to_owned());
            pair
        };
        let mut metric = Metric::from_label(self.desc.variable_labels.iter().zip(values).map(pair).collect());
        match self.kind {
            Kind::Counter => {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            }
            Kind::Gauge => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
        }
        metric
    }
}

/// A series without labels, and how its value is found in what was read.
pub(super) struct Series<T> {
    /// Name of the series without the prefix.
    name: &'static str,
    kind: Kind,
    /// What it is, for whoever reads the scrape.
    help: &'static str,
    /// Value of the series, if it could be read.
    value: fn(&T) -> Option<f64>,
}

impl<T> Series<T> {
    /// One whose value only grows.
    pub(super) const fn counter(
        name: &'static str,
        help: &'static str,
        value: fn(&T) -> Option<f64>,
    ) -> Self {
        Self { name, kind: Kind::Counter, help, value }
    }

    /// One whose value goes up and down.
    pub(super) const fn gauge(name: &'static str, help: &'static str, value: fn(&T) -> Option<f64>) -> Self {
        Self { name, kind: Kind::Gauge, help, value }
    }
}

/// Series that are read together at every scrape.
pub(super) struct Readings<T, R> {
    read: R,
    series: Vec<(Family, Series<T>)>,
}

impl<T, R> Readings<T, R> {
    /// `prefix` stands before every name. When `read` gives nothing, a scrape goes without these series.
    pub(super) fn new(
        prefix: &str,
        series: impl IntoIterator<Item = Series<T>>,
        read: R,
    ) -> prometheus::Result<Self> {
        let family = |one: Series<T>| {
            Ok((Family::new(one.kind, &format!("{prefix}{}", one.name), one.help, &[])?, one))
        };
        let series = series.into_iter().map(family).collect::<prometheus::Result<_>>()?;
        Ok(Self { read, series })
    }
}

impl<T, R: Fn() -> Option<T> + Send + Sync> Collector for Readings<T, R> {
    fn desc(&self) -> Vec<&Desc> {
        self.series.iter().map(|(family, _)| family.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(reading) = (self.read)() else { return Vec::new() };
        let family = |(family, series): &(Family, Series<T>)| {
            family.with((series.value)(&reading).map(|value| (Vec::new(), value)))
        };
        self.series.iter().map(family).collect()
    }
}
