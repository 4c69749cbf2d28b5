//! `cargo xtask lines`: how many lines of Rust there are, by crate, source and tests apart.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

/// The lines of one crate.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Lines {
    source: usize,
    tests: usize,
}

/// Counts the lines of all tracked files, and prints a table.
pub(crate) fn print(repository: &Path) -> anyhow::Result<()> {
    let listed = Command::new("git").args(["ls-files", "*.rs"]).current_dir(repository).output();
    let listed = listed.context("starting git")?;
    ensure!(listed.status.success(), "git ls-files failed: this is to be run in a clone");
    let mut crates = BTreeMap::<String, Lines>::new();
    for file in String::from_utf8(listed.stdout)?.lines() {
        let text = fs::read_to_string(repository.join(file)).with_context(|| format!("reading {file}"))?;
        let (all, of_tests) = (text.lines().count(), lines_of_tests(file, &text));
        let lines = crates.entry(crate_of(file)).or_default();
        lines.source += all - of_tests;
        lines.tests += of_tests;
    }
    println!("| crate | source | tests | together |\n|---|--:|--:|--:|");
    let mut sum = Lines::default();
    for (name, lines) in &crates {
        print_row(name, *lines);
        sum.source += lines.source;
        sum.tests += lines.tests;
    }
    print_row("all", sum);
    Ok(())
}

fn print_row(name: &str, Lines { source, tests }: Lines) {
    println!("| `{name}` | {source} | {tests} | {} |", source + tests);
}

/// The crate below `host/`, else the folder at the root.
fn crate_of(file: &str) -> String {
    let mut folders = file.split('/');
    let first = folders.next().unwrap_or_default();
    if first == "host" { folders.next().unwrap_or_default().to_owned() } else { first.to_owned() }
}

/// Lines of tests and of what only tests use: files of their own, and modules at the end of a file.
fn lines_of_tests(file: &str, text: &str) -> usize {
    let folders = ["tests/", "benches/", "testing/"];
    let is_of_tests =
        folders.iter().any(|folder| file.starts_with(folder) || file.contains(&format!("/{folder}")))
            || file.ends_with("/tests.rs")
            || file.ends_with("/testing.rs");
    let all = text.lines().count();
    if is_of_tests {
        return all;
    }
    // A module with a body is the last one of its file.
    let before = text.lines().zip(text.lines().skip(1));
    let begin = before
        .enumerate()
        .find(|(_, (line, next))| *line == "#[cfg(test)]" && next.contains("mod ") && next.ends_with('{'));
    begin.map_or(0, |(at, _)| all - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_from_source_wherever_they_stand() {
        let inline = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n";
        for (file, text, expected) in [
            ("host/agent-core/src/a.rs", inline, 4),
            ("host/agent-core/src/a.rs", "#[cfg(test)]\nmod tests;\nfn a() {}\n", 0),
            ("host/agent-core/src/a/tests.rs", inline, 6),
            ("host/agent-core/src/a/tests/b.rs", inline, 6),
            ("host/agent-core/src/testing/mod.rs", inline, 6),
            ("host/tool-host/benches/call.rs", inline, 6),
            ("tests/it/main.rs", inline, 6),
            ("guest-tools/clock/src/lib.rs", "fn a() {}\n", 0),
        ] {
            assert_eq!(lines_of_tests(file, text), expected, "{file}");
        }
        assert_eq!(crate_of("host/tool-host/src/lib.rs"), "tool-host");
        assert_eq!(crate_of("guest-tools/clock/src/lib.rs"), "guest-tools");
    }
}
