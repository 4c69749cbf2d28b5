//! The table of what came of all kills.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::judge::Tally;
use super::kill::Hit;
use super::place::{Boundary, Work};
use super::plan::{Heir, StoreKind, Versions};

/// What came of all kills.
#[derive(Debug)]
pub(crate) struct Report {
    hits: Vec<Hit>,
    /// How often another build of the tools came to serve.
    pub(crate) swaps: usize,
}

/// What came of those that stand in one row.
#[derive(Default)]
struct Row {
    kills: usize,
    boundaries: BTreeMap<Boundary, usize>,
    tally: Tally,
    restarted: Vec<Duration>,
    other: Vec<Duration>,
}

/// What the rows of a store differ in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Work(Work),
    Versions(Versions),
}

const HEADING: &str = "\
| store | VARIES | kills | of these | lost | ended twice | wrong | other run | unsound journal | stream broken | model asked again (allowed) | paid twice \
| call repeated (allowed) | repeated though recorded | acted twice | decided twice | told unknown (allowed) | stream resumed (allowed) | after a restart | by another |
|---|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
";

impl Report {
    pub(super) fn new(mut hits: Vec<Hit>, swaps: usize) -> Self {
        hits.sort_by_key(|hit| hit.kill.number);
        Self { hits, swaps }
    }

    /// How many kills were made.
    pub(crate) fn kills(&self) -> usize {
        self.hits.len()
    }

    /// How many of them hit a job that was not at its end.
    pub(crate) fn that_hit(&self) -> usize {
        self.hits.iter().filter(|hit| hit.place.work != Work::Nothing).count()
    }

    /// All counts together.
    pub(crate) fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.hits.iter().for_each(|hit| total.add(&hit.tally));
        total
    }

    /// A row for each store and kind of work, or each store and which version died, and one for everything.
    pub(crate) fn table(&self) -> String {
        let mut rows: BTreeMap<(StoreKind, Group), Row> = BTreeMap::new();
        let mut all = Row::default();
        for hit in &self.hits {
            rows.entry((hit.kill.store, Group::of(hit))).or_default().add(hit);
            all.add(hit);
        }
        let several = self.hits.iter().any(|hit| hit.kill.versions != Versions::Same);
        let mut table = HEADING.replace("VARIES", if several { "versions" } else { "worker was killed at" });
        for ((store, group), row) in &mut rows {
            let boundaries = row.boundaries.iter().map(|(boundary, n)| format!("{} {n}", boundary.name()));
            let boundaries = boundaries.collect::<Vec<_>>().join(", ");
            row.write(&mut table, store.name(), group.name(), &boundaries);
        }
        all.write(&mut table, "all", "", "");
        table
    }

    /// What is needed to make the kills again that broke a promise.
    pub(crate) fn broken(&self) -> String {
        let mut text = String::new();
        for Hit { kill, place, tally, unsound, .. } in self.hits.iter().filter(|hit| hit.tally.broken() > 0) {
            let number = kill.number;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "broken by kill {number} (--only {number}): {tally:?}\n  {place:?}\n  {kill:?}"
            );
            for journal in unsound {
                let _ = writeln!(text, "  {journal}");
            }
        }
        text
    }
}

impl Group {
    fn of(hit: &Hit) -> Self {
        match hit.kill.versions {
            Versions::Same => Self::Work(hit.place.work),
            versions => Self::Versions(versions),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Work(work) => work.name(),
            Self::Versions(versions) => versions.name(),
        }
    }
}

impl Row {
    fn add(&mut self, hit: &Hit) {
        self.kills += 1;
        *self.boundaries.entry(hit.place.boundary).or_default() += 1;
        self.tally.add(&hit.tally);
        let times = match hit.kill.heir {
            Heir::Restarted => &mut self.restarted,
            Heir::Other => &mut self.other,
        };
        times.extend(hit.recovery);
    }

    fn write(&mut self, table: &mut String, store: &str, group: &str, boundaries: &str) {
        let Self { kills, tally, restarted, other, .. } = self;
        let [restarted, other] = [restarted, other].map(|times| spread(times));
        let Tally {
            lost,
            ended_twice,
            wrong,
            other_runs,
            unsound,
            resumed,
            broken_streams,
            asked_again,
            paid_twice,
            called_again,
            repeated,
            acted_twice,
            decided_twice,
            unknown,
        } = tally;
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| {store} | {group} | {kills} | {boundaries} | {lost} | {ended_twice} | {wrong} | {other_runs} | {unsound} | {broken_streams} | \
             {asked_again} | {paid_twice} | {called_again} | {repeated} | {acted_twice} | {decided_twice} | {unknown} | {resumed} | \
             {restarted} | {other} |"
        );
    }
}

/// Median and 99th percentile in seconds.
fn spread(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let Some(last) = times.len().checked_sub(1) else { return "–".to_owned() };
    let at = |percent: usize| times[last * percent / 100].as_secs_f64();
    format!("{:.1} / {:.1} s", at(50), at(99))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_by_their_median_and_their_slowest_but_one_in_a_hundred() {
        let mut times: Vec<_> = (0..=200).rev().map(Duration::from_secs).collect();
        assert_eq!(spread(&mut times), "100.0 / 198.0 s");
        assert_eq!(spread(&mut []), "–");
    }
}
