//! A row of a table: what some turns of one contender came to.

use crate::cpu::{Meter, Spent};
use crate::measuring::client::{Load, Turn};

/// A row that is being measured.
#[derive(Default)]
pub(crate) struct Row {
    load: Load,
    spent: Spent,
}

impl Row {
    /// Measures one turn more. One that only warms up does not count.
    pub(crate) fn measure(&mut self, meter: &Meter, counts: bool, turn: impl FnOnce() -> Turn) {
        let before = meter.read();
        let turn = turn();
        if counts {
            self.spent = self.spent + (meter.read() - before);
            self.load.add(turn);
        }
    }

    /// Answers per second.
    pub(crate) fn rate(&self) -> f64 {
        self.load.rate()
    }

    /// Prints the line over the rows.
    pub(crate) fn print_heading(unit: &str) {
        println!(
            "  {:<40} {unit:>8} {:>8} {:>8} {:>8}   {:>7} {:>7} {:>7}",
            "", "p50 µs", "p99 µs", "failures", "service", "redis", "load"
        );
    }

    /// Prints the row.
    pub(crate) fn print(&mut self, name: &str) {
        let (rate, p50, p99) = (self.load.rate(), self.load.percentile(50), self.load.percentile(99));
        let answers = self.load.times.len() as f64;
        let [service, redis, load] = [self.spent.service, self.spent.redis, self.spent.load]
            .map(|spent| spent.as_secs_f64() * 1e6 / answers);
        println!(
            "  {name:<40} {rate:>8.0} {p50:>8.0} {p99:>8.0} {:>8}   {service:>7.0} {redis:>7.0} {load:>7.0}",
            self.load.failures
        );
    }
}
