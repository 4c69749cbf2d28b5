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

    /// Processor time of the service for each answer, in µs.
    fn service_micros(&self) -> f64 {
        self.spent.service.as_secs_f64() * 1e6 / self.load.times.len() as f64
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

/// Prints the first row of a pair in multiples of the second one, the baseline's.
pub(crate) fn print_beside_baseline(what: &str, rows: &mut [Row], [ours, baseline]: [usize; 2]) {
    let ratio = |of: fn(&mut Row) -> f64, rows: &mut [Row]| of(&mut rows[ours]) / of(&mut rows[baseline]);
    let rate = ratio(|row| row.rate(), rows);
    let p50 = ratio(|row| row.load.percentile(50), rows);
    let service = ratio(|row| row.service_micros(), rows);
    println!(
        "  {what}, beside the baseline: {rate:.3} times its answers/s, p50 {p50:.3} times, its processor time {service:.3} times"
    );
}
