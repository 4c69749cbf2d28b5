//! How often each target was executed, over all runs: kept in the repository, and shown in the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::table::TARGETS;

/// Between these lines of the page stands the table.
const BEGIN: &str = "<!-- executions -->";
const END: &str = "<!-- end of executions -->";

/// How the inputs were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Mutated from the corpus, blindly.
    Mutated,
    /// By libFuzzer, which goes on from what reached new code.
    Guided,
}

/// Of each target: executions of mutated inputs, and of guided ones.
type Executions = BTreeMap<String, [u64; 2]>;

fn evidence(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/evidence").join(name)
}

/// Adds executions to the numbers that are kept, and writes the table of the page anew.
pub fn add<'a>(kind: Kind, made: impl IntoIterator<Item = (&'a str, u64)>) -> anyhow::Result<()> {
    let kept = evidence("fuzzing.json");
    let text = std::fs::read_to_string(&kept).context("the executions until now")?;
    let mut executions: Executions = serde_json::from_str(&text).context("the executions until now")?;
    for (target, count) in made {
        let [mutated, guided] = executions.entry(target.to_owned()).or_default();
        *(if kind == Kind::Mutated { mutated } else { guided }) += count;
    }
    std::fs::write(&kept, serde_json::to_string_pretty(&executions)? + "\n")?;
    let page = evidence("fuzzing.md");
    let text = std::fs::read_to_string(&page).context("the page")?;
    let (before, rest) = text.split_once(BEGIN).context("the page's table begins")?;
    let (_, behind) = rest.split_once(END).context("the page's table ends")?;
    let table = table(&executions);
    std::fs::write(&page, format!("{before}{BEGIN}\n{table}{END}{behind}")).context("the page")
}

fn table(executions: &Executions) -> String {
    let mut text = String::from("\n| target | reaches | mutated | guided by coverage |\n|---|---|--:|--:|\n");
    for target in &TARGETS {
        let [mutated, guided] = executions.get(target.name).copied().unwrap_or_default();
        let reads = target.reads.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ");
        let _ =
            writeln!(text, "| `{}` | {reads} | {} | {} |", target.name, grouped(mutated), grouped(guided));
    }
    text + "\n"
}

/// A number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
