//! Nothing that users had is gone: each name in `kept.txt` stands in what is generated from today's code.

use std::collections::BTreeSet;
use std::fs;

use acceptance::repository;

/// What users had, by kind.
const KEPT: &str = include_str!("kept.txt");

fn read(file: &str) -> String {
    fs::read_to_string(repository().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The names of one kind that users had.
fn kept(kind: &str) -> BTreeSet<&'static str> {
    let section = KEPT.split_once(&format!("[{kind}]\n")).unwrap_or_else(|| panic!("no [{kind}]")).1;
    section.lines().take_while(|line| !line.is_empty()).collect()
}

/// Compares what users had with what there is.
fn has_all(kind: &str, least: usize, there: &BTreeSet<String>) {
    let kept = kept(kind);
    assert!(kept.len() >= least, "the list of {kind} is cut short: {}", kept.len());
    let gone: Vec<_> = kept.iter().filter(|name| !there.contains(**name)).collect();
    assert!(gone.is_empty(), "users had these {kind}: {gone:?}");
}

/// What stands between backticks at the beginning of a table's rows.
fn first_cells(page: &str) -> BTreeSet<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    cells.map(|(cell, _)| cell.to_owned()).collect()
}

#[test]
fn every_route_is_kept() {
    let document = read("host/http-edge/tests/it/snapshots/it__openapi__the_document_of_both_variants.snap");
    let operations = document.lines().filter_map(|line| {
        let (method, path) = line.split_once(' ')?;
        let path = path.split(' ').next()?;
        (path.starts_with('/') && method.chars().all(|letter| letter.is_ascii_uppercase()))
            .then(|| format!("{method} {path}"))
    });
    has_all("routes", 60, &operations.collect());
}

#[test]
fn every_setting_is_kept() {
    has_all("settings", 70, &first_cells(&read("host/docs/reference/settings.md")));
}

#[test]
fn every_metric_is_kept() {
    has_all("metrics", 50, &first_cells(&read("host/docs/reference/metrics.md")));
}

#[test]
fn every_command_is_kept() {
    let page = read("host/docs/reference/commands.md");
    let commands = page.lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_owned);
    has_all("commands", 40, &commands.collect());
}
