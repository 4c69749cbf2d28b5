//! Links of pages lead somewhere, and so do the anchors that comments cite.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use acceptance::repository;

use super::markdown::{files, pages, without_code};

/// Where files may cite pages from: code, tests, manifests.
const CODE: [&str; 8] = [".rs", ".toml", ".mjs", ".py", ".ts", ".sh", ".yaml", ".js"];

/// The pages by their paths, and what may stand behind `#` of each.
fn anchors() -> BTreeMap<PathBuf, BTreeSet<String>> {
    pages().into_iter().map(|page| (page.path.clone(), page.anchors())).collect()
}

/// What is wrong with a link to that path and anchor.
fn fault(
    anchors: &BTreeMap<PathBuf, BTreeSet<String>>,
    path: &Path,
    anchor: Option<&str>,
) -> Option<&'static str> {
    match (anchors.get(path), anchor) {
        (Some(known), Some(anchor)) if !known.contains(anchor) => Some("has no such anchor"),
        (None, _) if !repository().join(path).exists() => Some("is not there"),
        (Some(_) | None, _) => None,
    }
}

/// `folder/../other` without the detour.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

fn split(target: &str) -> (&str, Option<&str>) {
    target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)))
}

#[test]
fn every_link_within_the_repository_leads_somewhere() {
    let (anchors, mut dead, mut followed) = (anchors(), Vec::new(), 0);
    for page in pages() {
        for (line, text) in page.prose() {
            let text = without_code(text);
            let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            for target in targets.map(|(target, _)| target).filter(|target| !target.contains("://")) {
                let (path, anchor) = split(target);
                let folder = page.path.parent().unwrap();
                let path = if path.is_empty() { page.path.clone() } else { resolved(&folder.join(path)) };
                followed += 1;
                if let Some(fault) = fault(&anchors, &path, anchor) {
                    dead.push(format!("{}:{line}: {target} {fault}", page.path.display()));
                }
            }
        }
    }
    assert!(followed > 200, "the links are found: {followed}");
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn every_anchor_that_code_cites_is_there() {
    let (anchors, mut dead, mut cited) = (anchors(), Vec::new(), 0);
    for file in files(&CODE) {
        // The tests of documents speak of citations themselves.
        if file.starts_with(repository().join("tests/it/documents")) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        for (index, line) in text.lines().enumerate() {
            for rest in line.split("host/docs/").skip(1) {
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/._#-".contains(c)));
                let target = rest[..end.unwrap_or(rest.len())].trim_end_matches(['.', '/']);
                let (path, anchor) = split(target);
                cited += usize::from(anchor.is_some());
                if let Some(fault) = fault(&anchors, &Path::new("host/docs").join(path), anchor) {
                    dead.push(format!("{}:{}: host/docs/{target} {fault}", file.display(), index + 1));
                }
            }
        }
    }
    assert!(cited > 100, "the citations are found: {cited}");
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}
