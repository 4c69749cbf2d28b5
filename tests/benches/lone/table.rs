//! The rows, and the two tables in Markdown that they make.

use std::time::Duration;

use crate::asking::Asking;
use crate::measuring::client::Load;
use crate::spent::{Reading, Spent};
use crate::syscalls::Syscalls;

/// What is measured of one deployment.
pub(crate) struct Row<'a> {
    pub(crate) name: &'a str,
    /// `miss`, `hit`, or whatever else is asked.
    pub(crate) what: &'static str,
    pub(crate) connections: usize,
    pub(crate) asking: Asking<'a>,
    /// The process that answers, unless it is this one.
    pub(crate) process: Option<u32>,
    pub(crate) measured: Measured,
}

/// What some turns came to.
#[derive(Default)]
pub(crate) struct Measured {
    load: Load,
    spent: Spent,
    syscalls: Option<Syscalls>,
}

impl Row<'_> {
    /// Measures one turn more. One that only warms up does not count.
    pub(crate) fn measure(&mut self, turn: Duration, counts: bool) {
        let before = self.process.map(Reading::of);
        let answers = self.asking.run(self.connections, turn);
        let after = self.process.map(Reading::of);
        if counts {
            assert_eq!(answers.failures, 0, "{}, {}: an answer was not as expected", self.name, self.what);
            self.measured.load.add(answers);
            if let (Some(before), Some(after)) = (before, after) {
                self.measured.spent += after.since(&before);
            }
        }
    }

    /// Counts system calls for a turn.
    pub(crate) fn count_syscalls(&mut self, turn: Duration, home: &std::path::Path) -> Result<(), String> {
        let Some(process) = self.process else { return Ok(()) };
        let counted = Syscalls::count(&[process], None, home, || {
            let answers = self.asking.run(self.connections, turn);
            answers.times.len() + answers.failures
        });
        self.measured.syscalls = Some(counted?);
        Ok(())
    }

    fn print(&mut self) {
        let (p50, p99) = (self.measured.load.percentile(50), self.measured.load.percentile(99));
        let (name, what, connections) = (self.name, self.what, self.connections);
        print!("| {name} | {what} | {connections} | {p50:.0} | {p99:.0} ");
        if self.process.is_none() {
            println!("| – | – | – | – | – | – |");
            return;
        }
        let spent = self.measured.spent;
        let (processor, user, system) =
            (self.micros(spent.processor()), self.micros(spent.user), self.micros(spent.system));
        let [waits, preemptions, faults] =
            [spent.waits, spent.preemptions, spent.page_faults].map(|count| self.each(count as f64));
        print!("| {processor:.0} ({user:.0} + {system:.0}) | {waits:.1} | {preemptions:.1} | {faults:.1} ");
        match &self.measured.syscalls {
            Some(syscalls) => println!("| {:.1} | {} |", syscalls.all(), syscalls.most_frequent()),
            None => println!("| – | – |"),
        }
    }

    /// What stands in the second table.
    fn figures(&mut self) -> [f64; 4] {
        let (p50, spent) = (self.measured.load.percentile(50), self.measured.spent);
        let [waits, preemptions] = [spent.waits, spent.preemptions].map(|count| self.each(count as f64));
        [p50, self.micros(spent.processor()), waits, preemptions]
    }

    fn micros(&self, time: Duration) -> f64 {
        self.each(time.as_secs_f64() * 1e6)
    }

    fn each(&self, sum: f64) -> f64 {
        sum / self.measured.load.times.len() as f64
    }
}

pub(crate) fn print(rows: &mut [Row<'_>]) {
    println!(
        "\n| deployment | asked | connections | p50 µs | p99 µs | processor time µs (user + system) | waits | preemptions | \
         page faults | system calls | the most frequent |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|");
    for row in rows {
        row.print();
    }
}

/// What each part is worth: the deployment that has everything but that part, less `whole`.
pub(crate) fn print_worth(rows: &mut [Row<'_>], whole: &str) {
    println!("\n| what is taken away | asked | p50 µs | processor time µs | waits | preemptions |");
    println!("|---|---|--:|--:|--:|--:|");
    for what in ["miss", "hit"] {
        let is_it = |row: &&mut Row<'_>| row.what == what && row.connections == 1;
        let Some(all) = rows.iter_mut().filter(is_it).find(|row| row.name == whole).map(Row::figures) else {
            continue;
        };
        for row in rows.iter_mut().filter(is_it).filter(|row| row.name != whole) {
            let without = row.figures();
            let [p50, processor, waits, preemptions] =
                std::array::from_fn(|index| without[index] - all[index]);
            let name = row.name;
            println!("| {name} | {what} | {p50:+.0} | {processor:+.0} | {waits:+.1} | {preemptions:+.1} |");
        }
    }
}
