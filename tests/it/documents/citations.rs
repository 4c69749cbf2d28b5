//! Comments that speak of the interface link the place, and what they quote stands there.

use std::fs;
use std::path::Path;

use acceptance::repository;

use super::markdown::files;

const CODE: [&str; 6] = [".rs", ".mjs", ".py", ".ts", ".sh", ".js"];

/// What stands in front of every place of the interface.
const PLACES: &str = "host/docs/interface/";

/// Here an interface is one of WIT, which components import and export.
const ABOUT_COMPONENTS: [&str; 4] =
    ["guest-tools", "host/tool-build", "host/tool-host", "tests/src/component.rs"];

/// Comments of a file: the number of each line, and what it says.
fn comments(text: &str) -> Vec<(usize, &str)> {
    let marks = ["///", "//!", "//", "/**", "*", "#"];
    let said = |line: &'_ str| -> Option<usize> {
        let line = line.trim_start();
        marks.iter().find(|mark| line.starts_with(**mark)).map(|mark| mark.len())
    };
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let at = said(line)?;
            Some((index + 1, line.trim_start().get(at..)?.trim()))
        })
        .collect()
}

/// Whether a comment speaks of the interface that the service promises.
fn speaks_of_the_interface(comment: &str) -> bool {
    let comment = comment.to_lowercase();
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    comment.split("the interface").skip(1).any(ends)
}

/// What a comment quotes right before or behind a place, with that place.
fn quotes(block: &str) -> Vec<(String, String)> {
    let mut found = vec![];
    for (at, _) in block.match_indices("host/docs/") {
        let rest = &block[at..];
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/._#-".contains(c))).unwrap_or(rest.len());
        let place = rest[..end].trim_end_matches('.');
        let before = block[..at].trim_end_matches(['(', ' ', ',']);
        let quoted =
            before.strip_suffix('"').and_then(|text| text.rsplit_once('"')).map(|(_, quoted)| quoted);
        let behind = rest[end..].trim_start_matches([':', ')', ' ']).strip_prefix('"');
        let behind = behind.and_then(|text| text.split_once('"')).map(|(quoted, _)| quoted);
        found.extend(quoted.into_iter().chain(behind).map(|quoted| (quoted.to_owned(), place.to_owned())));
    }
    found
}

#[test]
fn comments_about_the_interface_say_where() {
    let (mut without, mut cited) = (vec![], 0);
    for file in files(&CODE) {
        let within = file.strip_prefix(repository()).unwrap();
        if ABOUT_COMPONENTS.iter().any(|place| within.starts_with(place))
            || within.starts_with("tests/it/documents")
        {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for (number, comment) in comments(&text) {
            if !speaks_of_the_interface(comment) {
                continue;
            }
            let near = lines.iter().take(number + 1).skip(number.saturating_sub(2));
            if near.into_iter().any(|line| line.contains(PLACES)) {
                cited += 1;
            } else {
                without.push(format!("{}:{number}: {comment}", within.display()));
            }
        }
    }
    assert!(cited > 5, "the comments are found: {cited}");
    assert!(
        without.is_empty(),
        "link the place, {PLACES}…#…, on the same line or beside it:\n{}",
        without.join("\n")
    );
}

#[test]
fn what_comments_quote_of_a_page_stands_there() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (mut wrong, mut read) = (vec![], 0);
    for file in files(&CODE) {
        if file.starts_with(repository().join("tests/it/documents")) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let mut blocks: Vec<(usize, String)> = vec![];
        for (number, comment) in comments(&text) {
            match blocks.last_mut() {
                Some((last, block)) if *last + 1 == number => {
                    (*last, *block) = (number, format!("{block} {comment}"));
                }
                Some(_) | None => blocks.push((number, comment.to_owned())),
            }
        }
        for (number, block) in blocks {
            for (quoted, place) in quotes(&block) {
                read += 1;
                let page = place.split('#').next().unwrap_or_default();
                let page = fs::read_to_string(repository().join(Path::new(page))).unwrap_or_default();
                if !words(&page).contains(&words(&quoted)) {
                    wrong.push(format!("{}:{number}: {place} does not say \"{quoted}\"", file.display()));
                }
            }
        }
    }
    assert!(read > 0, "quotations are found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn comments_and_quotations_are_found() {
    let text = "//! The interface.\nlet a = 1; // the interface\n    // interfaces, the interfaces\n";
    let said: Vec<_> =
        comments(text).into_iter().map(|(number, said)| (number, speaks_of_the_interface(said))).collect();
    assert_eq!(said, [(1, true), (3, false)]);
    let place = "host/docs/a.md#b".to_owned();
    assert_eq!(quotes("\"One two\" (host/docs/a.md#b)."), [("One two".to_owned(), place.clone())]);
    assert_eq!(quotes("host/docs/a.md#b: \"three\"."), [("three".to_owned(), place)]);
    assert_eq!(quotes("see host/docs/a.md, \"no\" and more"), []);
}
