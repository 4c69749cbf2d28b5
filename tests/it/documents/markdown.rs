//! Pages of Markdown, as far as the tests of documents read them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use acceptance::repository;

/// Folders that are not the repository's own.
const FOREIGN: [&str; 5] = ["target", "node_modules", ".git", ".venv", "templates"];

/// A page, with its path seen from the root of the repository.
pub(super) struct Page {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// A piece of prose: a paragraph, an item of a list or a cell of a table, with the number of its first line.
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) text: String,
}

/// Every file below the repository that has one of these endings.
pub(super) fn files(endings: &[&str]) -> Vec<PathBuf> {
    fn walk(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let name = entry.file_name().into_string().unwrap();
            if kind.is_dir() && !FOREIGN.contains(&name.as_str()) {
                walk(&path, endings, found);
            } else if kind.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&repository(), endings, &mut found);
    found.sort();
    assert!(!found.is_empty(), "{endings:?}");
    found
}

/// Every page of the repository.
pub(super) fn pages() -> Vec<Page> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        Page { path: path.strip_prefix(repository()).unwrap().to_owned(), text }
    };
    files(&[".md"]).into_iter().map(read).collect()
}

impl Page {
    /// The lines outside of code blocks, with their numbers.
    pub(super) fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut fenced = false;
        self.text.lines().enumerate().filter_map(move |(index, line)| {
            let is_fence = line.trim_start().starts_with("```");
            fenced ^= is_fence;
            (!fenced && !is_fence).then_some((index + 1, line))
        })
    }

    /// The prose in pieces. Headings, pictures and marks are none.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut last = 0;
        for (number, line) in self.prose() {
            let line = line.trim();
            let continues = number == last + 1;
            if line.is_empty() || ["#", "<!--", "!["].iter().any(|start| line.starts_with(start)) {
                continue;
            }
            if let Some(row) = line.strip_prefix('|') {
                let cells = row.split('|').map(|cell| Block { line: number, text: cell.trim().to_owned() });
                blocks.extend(cells);
                continue;
            }
            last = number;
            let item = line.trim_start_matches(|c: char| c.is_ascii_digit());
            let is_item = ["- ", "* ", ". "].iter().any(|start| item.starts_with(start));
            match blocks.last_mut() {
                Some(block) if continues && !is_item => {
                    block.text.push(' ');
                    block.text.push_str(line);
                }
                Some(_) | None => blocks.push(Block { line: number, text: line.to_owned() }),
            }
        }
        blocks
    }

    /// What a link may name behind `#`: the headings, as GitHub writes them.
    pub(super) fn anchors(&self) -> BTreeSet<String> {
        let headings = self.prose().filter_map(|(_, line)| line.strip_prefix('#'));
        headings.map(|heading| slug(heading.trim_start_matches('#').trim())).collect()
    }
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

/// The text with every piece of code in it as one word.
pub(super) fn without_code(text: &str) -> String {
    let outside =
        |(index, piece): (usize, &str)| if index % 2 == 0 { piece.to_owned() } else { "code".to_owned() };
    text.split('`').enumerate().map(outside).collect()
}
