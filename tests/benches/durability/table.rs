//! The tables, as Markdown.

use std::time::Duration;

use crate::engines::Engine;
use crate::flushes::Flushes;
use crate::kill::Killed;
use crate::load::Loads;
use crate::{UNDER_WAY, guarded};

/// What is measured of an engine.
pub(crate) struct Row {
    pub(crate) name: String,
    strictness: String,
    /// Why it is not measured.
    absent: Option<String>,
    pub(crate) loads: [Loads; 2],
    pub(crate) flushes: [Flushes; 2],
    pub(crate) memory: Memory,
    pub(crate) kills: Vec<Killed>,
}

/// In MiB, after 32 runs at a time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) server: f64,
    pub(crate) service: f64,
    pub(crate) stores: f64,
}

impl Memory {
    /// The larger of two, one by one.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            server: self.server.max(other.server),
            service: self.service.max(other.service),
            stores: self.stores.max(other.stores),
        }
    }
}

impl Row {
    pub(crate) fn new(engine: &dyn Engine) -> Self {
        let not_counted = || Err("not counted".to_owned());
        Self {
            name: engine.name(),
            strictness: engine.strictness(),
            absent: engine.absent(),
            loads: Default::default(),
            flushes: [not_counted(), not_counted()],
            memory: Memory::default(),
            kills: Vec::new(),
        }
    }

    pub(crate) fn title(&self) -> String {
        format!("{}; {}", self.name, self.strictness)
    }

    /// Does what may fail, unless the engine is not there or has failed before.
    pub(crate) fn attempt(&mut self, attempt: impl FnOnce(&mut Self)) {
        if self.absent.is_none() {
            self.absent = guarded(|| attempt(self)).err();
        }
    }

    fn print_load(&mut self, index: usize) {
        let Self { name, strictness, loads, flushes, .. } = self;
        let loads = &mut loads[index];
        if loads.load.times.is_empty() {
            let why = self.absent.as_deref().unwrap_or("no run was answered");
            return println!("| {name} | {strictness} | not measured: {} | | | | | | |", one_line(why));
        }
        let [p50, p99] = [50, 99].map(|percent| loads.load.percentile(percent) / 1e3);
        let [engine, stores] = loads.processor_millis();
        let flushes =
            flushes[index].as_ref().map_or_else(|why| one_line(why), |flushes| format!("{flushes:.1}"));
        let (rate, failures) = (loads.load.rate(), loads.load.failures);
        println!(
            "| {name} | {strictness} | {p50:.1} | {p99:.1} | {rate:.0} | {flushes} | {engine:.2} | {stores:.2} | {failures} |"
        );
    }

    fn print_rest(&self) {
        if self.loads[0].load.times.is_empty() {
            return;
        }
        let Memory { server, service, stores } = self.memory;
        let column = |of: fn(&Killed) -> String| self.kills.iter().map(of).collect::<Vec<_>>().join(", ");
        let (goes_on, answer) = (column(|kill| seconds(kill.goes_on)), column(|kill| seconds(kill.answer)));
        let twice =
            column(|kill| kill.goes_on.map_or_else(|| "lost".to_owned(), |_| kill.paid_twice.to_string()));
        println!(
            "| {} | {} | {server:.0} | {service:.0} | {stores:.0} | {goes_on} | {answer} | {twice} |",
            self.name, self.strictness,
        );
    }
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "never".to_owned(), |time| format!("{:.2}", time.as_secs_f64()))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/")
}

pub(crate) fn print(rows: &mut [Row]) {
    for (index, under_way) in UNDER_WAY.into_iter().enumerate() {
        println!("\n{under_way} at a time:\n");
        println!(
            "| engine | flushed | p50 ms | p99 ms | runs/s | flushes a run | processor ms a run | of the stores | failures |"
        );
        println!("|---|---|--:|--:|--:|--:|--:|--:|--:|");
        rows.iter_mut().for_each(|row| row.print_load(index));
    }
    println!("\nmemory after 32 at a time, and kills:\n");
    println!(
        "| engine | flushed | server MiB | service MiB | stores MiB | goes on after s | answers after s | of 2 calls paid twice |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    rows.iter().for_each(Row::print_rest);
    for row in rows.iter().filter(|row| !row.loads[0].load.times.is_empty()) {
        if let Some(why) = &row.absent {
            println!("\n{}: {}", row.name, one_line(why));
        }
    }
}
