//! The tables in Markdown: one column for each kind of request, one row for each area, and the functions that
//! most time was spent in.

use std::collections::HashMap;
use std::time::Duration;

use crate::areas::{AREAS, Area, Frame, area_of};

/// How many functions are shown of each kind.
const MOST_SYMBOLS: usize = 10;

/// The longest name that is shown, in characters.
const LONGEST: usize = 70;

/// What one kind of request came to.
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    /// Processor time of the service for one answer.
    each: Duration,
    samples: usize,
    areas: HashMap<Area, usize>,
    /// By how many samples they were the innermost of.
    symbols: Vec<(String, usize)>,
}

impl Profile {
    /// Of the samples that were taken while the service spent `processor` on so many answers.
    pub(crate) fn of(name: &'static str, chains: &[Vec<Frame>], processor: Duration, answers: usize) -> Self {
        let (mut areas, mut symbols) = (HashMap::<Area, usize>::new(), HashMap::<&str, usize>::new());
        for chain in chains {
            *areas.entry(area_of(chain)).or_default() += 1;
            if let Some(innermost) = chain.first() {
                *symbols.entry(&innermost.symbol).or_default() += 1;
            }
        }
        let mut symbols: Vec<_> = symbols.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        symbols.sort_by(|(one, most), (other, least)| least.cmp(most).then(one.cmp(other)));
        symbols.truncate(MOST_SYMBOLS);
        let each = processor / u32::try_from(answers.max(1)).unwrap();
        Self { name, each, samples: chains.len(), areas, symbols }
    }

    fn percent(&self, count: usize) -> f64 {
        100.0 * count as f64 / self.samples as f64
    }

    /// Processor time of one answer that went there, in microseconds.
    fn micros(&self, count: usize) -> f64 {
        self.each.as_secs_f64() * 1e6 * count as f64 / self.samples as f64
    }
}

/// Share of each area, and what it is in microseconds for an answer.
pub(crate) fn print(profiles: &[Profile]) {
    let cells = |cell: &dyn Fn(&Profile) -> String| {
        profiles.iter().map(|profile| format!(" {} |", cell(profile))).collect::<String>()
    };
    println!("\n| processor time of the service |{}", cells(&|profile| profile.name.to_owned()));
    println!("|---|{}", "--:|".repeat(profiles.len()));
    println!(
        "| for each answer |{}",
        cells(&|profile| format!("{:.0} µs", profile.each.as_secs_f64() * 1e6))
    );
    for (area, name) in AREAS {
        let cell = |profile: &Profile| {
            let count = profile.areas.get(&area).copied().unwrap_or_default();
            format!("{:.1} % ({:.0} µs)", profile.percent(count), profile.micros(count))
        };
        println!("| {name} |{}", cells(&cell));
    }
    println!("| samples |{}", cells(&|profile| profile.samples.to_string()));
    println!("\n| asked | the functions that were on the processor most often |");
    println!("|---|---|");
    for profile in profiles {
        let symbols: Vec<_> = profile
            .symbols
            .iter()
            .map(|(name, count)| format!("`{}` {:.1} %", shortened(name), profile.percent(*count)))
            .collect();
        println!("| {} | {} |", profile.name, symbols.join(", "));
    }
}

/// A name without the compiler's hash, and without what would end a cell.
fn shortened(symbol: &str) -> String {
    let name =
        symbol.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16).map_or(symbol, |(name, _)| name);
    let name = name.replace(['|', '`'], "");
    if name.chars().count() <= LONGEST {
        return name;
    }
    name.chars().take(LONGEST).chain(['…']).collect()
}
