//! Comparisons as text for people. Whatever models, tools and servers wrote is cut and made safe for
//! terminals.

use std::fmt::Write as _;

use agent_core::terminal_text::shown;

use super::comparison::{Comparison, Verdict, Went};

/// Most characters of a text, and of what a call asked of its hosts.
const TEXT_CHARS: usize = 200;
const HOSTS_CHARS: usize = 1_000;

/// Most characters of a line of a difference: those of [`Comparison::output_diff`] are shorter.
const LINE_CHARS: usize = 500;

/// All calls of a run, and how many of them differ.
pub(super) fn of(run_id: &str, comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    for (number, comparison) in comparisons.iter().enumerate() {
        call(&mut text, number + 1, comparison);
    }
    let count = |of: fn(&Verdict) -> bool| comparisons.iter().filter(|one| of(&one.verdict)).count();
    let same = count(|verdict| *verdict == Verdict::Same);
    let differ = count(|verdict| matches!(verdict, Verdict::Differs { .. }));
    let not_replayed = count(|verdict| matches!(verdict, Verdict::NotReplayed { .. }));
    let nothing_ran = count(|verdict| matches!(verdict, Verdict::NothingRan { .. }));
    let mut parts = vec![format!("{same} same"), format!("{differ} differ")];
    parts.extend((not_replayed > 0).then(|| format!("{not_replayed} not replayed")));
    parts.extend((nothing_ran > 0).then(|| format!("{nothing_ran} never ran")));
    let calls = if comparisons.len() == 1 { "call" } else { "calls" };
    line(&mut text, &format!("{}: {} tool {calls}, {}", safe(run_id), comparisons.len(), parts.join(", ")));
    text
}

fn call(text: &mut String, number: usize, comparison: &Comparison) {
    let verdict = match &comparison.verdict {
        Verdict::Same => "same".to_owned(),
        Verdict::Differs { parts } => format!("differs in {}", parts.join(" and ")),
        Verdict::NotReplayed { why } => format!("not replayed: {why}"),
        Verdict::NothingRan { why } => format!("nothing ran: {why}"),
    };
    let (tool, arguments) = (safe(&comparison.tool), safe(&comparison.arguments.to_string()));
    line(text, &format!("{number}  {tool} {arguments}"));
    line(text, &format!("   {}", safe(&verdict)));
    let mut shown_row = |name: &str, of: &dyn Fn(&Went) -> String| {
        row(text, name, &of(&comparison.then), comparison.now.as_ref().map(of).as_deref());
    };
    shown_row("component", &|went| went.component.clone().unwrap_or_else(|| "unknown".to_owned()));
    shown_row("outcome", &|went| went.outcome.clone());
    let asked = |went: &Went| !went.hosts.is_empty();
    if asked(&comparison.then) || comparison.now.as_ref().is_some_and(asked) {
        shown_row("hosts", &|went| listed(&went.hosts));
    }
    shown_row("duration", &|went| format!("{:.3} ms", went.duration_ms));
    shown_row("memory", &|went| mebibytes(went.peak_memory_bytes));
    shown_row("fuel", &|went| counted(went.fuel));
    for changed in &comparison.output_diff {
        line(text, &format!("   | {}", shown(changed, LINE_CHARS)));
    }
}

/// Once if it is the same.
fn row(text: &mut String, name: &str, then: &str, now: Option<&str>) {
    let value = match now {
        Some(now) if now != then => {
            format!("{}, now {}", shown(then, HOSTS_CHARS), shown(now, HOSTS_CHARS))
        }
        _ => shown(then, HOSTS_CHARS),
    };
    line(text, &format!("   {name:<10} {value}"));
}

fn listed(hosts: &[String]) -> String {
    if hosts.is_empty() { "none".to_owned() } else { hosts.join("; ") }
}

fn mebibytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{:.2} MiB", bytes as f64 / 1024.0 / 1024.0))
}

fn counted(fuel: Option<u64>) -> String {
    fuel.map_or_else(|| "not counted".to_owned(), |fuel| fuel.to_string())
}

fn safe(text: &str) -> String {
    shown(text, TEXT_CHARS)
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}
