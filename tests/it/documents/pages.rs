//! How long pages and sentences are, what pages begin with, and what lies at the top of the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use acceptance::repository;

use super::markdown::{Block, Page, pages, without_code};

/// The front page: bytes and lines.
const README: (usize, usize) = (10_000, 250);

/// Any other page below `host/docs/`, in bytes. What is generated may have more.
const MOST_BYTES: usize = 12 * 1024;

/// Pages at the top of the repository, where GitHub and people look for them.
const BESIDE_THE_FRONT_PAGE: [&str; 2] = ["CHANGELOG.md", "SECURITY.md"];

/// Lines of `host/ARCHITECTURE.md`.
const ARCHITECTURE: usize = 150;

/// Words of a sentence.
const MOST_WORDS: usize = 40;

/// Pictures, in bytes.
const MOST_OF_A_PICTURE: u64 = 150_000;

fn is_generated(page: &Page) -> bool {
    page.path.starts_with("host/docs/reference")
}

#[test]
fn the_front_page_is_one_screen_after_another_and_no_more() {
    let text = fs::read_to_string(repository().join("README.md")).unwrap();
    assert!(
        text.len() <= README.0,
        "README.md has {} bytes; what is more belongs into host/docs/",
        text.len()
    );
    assert!(text.lines().count() <= README.1, "README.md has {} lines", text.lines().count());
    let architecture = fs::read_to_string(repository().join("host/ARCHITECTURE.md")).unwrap();
    let lines = architecture.lines().count();
    assert!(
        lines <= ARCHITECTURE,
        "host/ARCHITECTURE.md has {lines} lines: what a folder is stands in its mod.rs"
    );
}

#[test]
fn the_front_pages_lead_to_the_changes_and_to_where_vulnerabilities_are_reported() {
    let read = |file: &str| fs::read_to_string(repository().join(file)).unwrap();
    for name in BESIDE_THE_FRONT_PAGE {
        assert!(read("README.md").contains(&format!("]({name})")), "README.md: {name}");
        assert!(
            read("host/docs/README.md").contains(&format!("](../../{name})")),
            "host/docs/README.md: {name}"
        );
    }
}

/// What is built is told of first: a version that is raised has a heading before it is released.
#[test]
fn the_newest_changes_are_those_of_the_version_that_is_built() {
    let read = |file: &str| fs::read_to_string(repository().join(file)).unwrap();
    let manifest = read("Cargo.toml");
    let version =
        manifest.lines().find_map(|line| line.strip_prefix("version = ")).unwrap().trim_matches('"');
    let changes = read("CHANGELOG.md");
    let newest = changes.lines().find_map(|line| line.strip_prefix("## ")).unwrap();
    assert_eq!(newest, version, "CHANGELOG.md begins with another version than Cargo.toml");
    let (series, _) = version.rsplit_once('.').unwrap();
    assert!(read("SECURITY.md").contains(&format!("| newest of {series} | yes |")), "{series} is mended");
}

/// A number and what stands behind it, such as `53.6 µs`; the number alone where a comma ends it.
fn quantities(row: &str) -> Vec<String> {
    let words: Vec<_> = row.split_whitespace().collect();
    let units = words.iter().skip(1).chain([&""]);
    let numbers = words.iter().zip(units).filter(|(word, _)| word.starts_with(|c: char| c.is_ascii_digit()));
    numbers
        .map(|(number, unit)| match number.strip_suffix(',') {
            Some(alone) => alone.to_owned(),
            None => format!("{number} {}", unit.trim_end_matches([',', ':', ';'])),
        })
        .collect()
}

/// The evidence is measured anew now and then. What the front page shows of it has to follow.
#[test]
fn numbers_of_the_front_page_stand_in_the_evidence() {
    let text = fs::read_to_string(repository().join("README.md")).unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with("Numbers\n")).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    // What was measured stands in the first cell; the promise beside it is none of the evidence's.
    let cells = rows.filter_map(|row| row.trim_start_matches("| ").split_once(" | ")).map(|(_, cells)| cells);
    let shown: Vec<_> = cells.flat_map(quantities).collect();
    assert!(shown.len() > 10, "{shown:?}");
    let evidence = pages().into_iter().filter(|page| page.path.starts_with("host/docs/evidence"));
    let evidence: String = evidence.map(|page| page.text).collect();
    let missing: Vec<_> = shown.iter().filter(|quantity| !evidence.contains(quantity.as_str())).collect();
    assert!(missing.is_empty(), "these are on the front page and in no page of the evidence: {missing:?}");
    assert_eq!(quantities("after 6.0 s, of 1,000, p99 24 µs: so"), ["6.0 s", "1,000", "24 µs"]);
}

#[test]
fn a_page_is_short_and_says_first_what_its_reader_can_do_after_it() {
    let mut wrong = Vec::new();
    let is_held = |page: &Page| {
        page.path.starts_with("host/docs")
            || BESIDE_THE_FRONT_PAGE.iter().any(|name| page.path == Path::new(name))
    };
    let pages: Vec<_> = pages().into_iter().filter(is_held).collect();
    assert!(pages.len() > 50, "the pages are found");
    for page in &pages {
        if page.text.len() > MOST_BYTES && !is_generated(page) {
            wrong.push(format!(
                "{} has {} bytes, and may have {MOST_BYTES}",
                page.path.display(),
                page.text.len()
            ));
        }
        let mut lines = page.text.lines();
        let begins = [lines.next(), lines.next(), lines.next()].map(Option::unwrap_or_default);
        if !(begins[0].starts_with("# ")
            && begins[1].is_empty()
            && begins[2].starts_with("After this page you"))
        {
            wrong.push(format!(
                "{} does not begin with a title and `After this page you …`",
                page.path.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_sentence_is_longer_than_forty_words() {
    let mut wrong = Vec::new();
    for page in pages().iter().filter(|page| !is_generated(page)) {
        // Cells of tables with numbers are printed by programs.
        let printed = page.path.starts_with("host/docs/evidence");
        let tables: BTreeSet<_> =
            page.prose().filter(|(_, line)| line.starts_with('|')).map(|(number, _)| number).collect();
        for Block { line, text } in page.blocks() {
            if printed && tables.contains(&line) {
                continue;
            }
            for (words, sentence) in sentences(&text).filter(|(words, _)| *words > MOST_WORDS) {
                wrong.push(format!("{}:{line}: {words} words: {sentence}", page.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "sentences of more than {MOST_WORDS} words:\n{}", wrong.join("\n"));
}

/// The sentences of a text, and how many words each has.
fn sentences(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut sentences = vec![Vec::new()];
    for word in without_code(text).split_whitespace() {
        if let Some(sentence) = sentences.last_mut() {
            sentence.push(word.to_owned());
        }
        let ends = word.trim_end_matches(['"', ')', '*', '_', '”']);
        if ends.ends_with(['.', '?', '!']) {
            sentences.push(Vec::new());
        }
    }
    sentences.into_iter().map(|sentence| {
        let is_word = |word: &&String| word.chars().any(char::is_alphanumeric);
        (sentence.iter().filter(is_word).count(), sentence.join(" "))
    })
}

#[test]
fn sentences_are_counted_as_people_count_them() {
    let counted: Vec<_> =
        sentences("One two. Three `a b c` four (five). – Six!").map(|(words, _)| words).collect();
    assert_eq!(counted, [2, 4, 1, 0]);
}

#[test]
fn pictures_are_small() {
    for entry in fs::read_dir(repository().join("host/docs/images")).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.metadata().unwrap().len() <= MOST_OF_A_PICTURE, "{}", entry.path().display());
    }
}

#[test]
fn the_top_of_the_repository_has_what_it_has_and_no_more() {
    let known = BTreeSet::from([
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "Dockerfile",
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "guest-tools",
        "host",
        "tests",
        "wit",
    ]);
    let entries =
        fs::read_dir(repository()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // `target` and `tools` are made by commands, and in .gitignore.
    let found: BTreeSet<_> = entries.filter(|name| !name.starts_with('.') && !is_made(name)).collect();
    assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), known);
}

fn is_made(name: &str) -> bool {
    let ignored = fs::read_to_string(repository().join(".gitignore")).unwrap();
    let is_ignored = ignored.lines().any(|line| line.trim_matches('/') == name);
    is_ignored || Path::new(name) == Path::new("target")
}
