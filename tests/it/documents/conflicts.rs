//! The page about limits says what every 409 means. The texts are taken from the code that answers them.

use std::fs;
use std::path::Path;

use acceptance::repository;

use super::markdown::files;

/// Behind these stands the text of a 409.
const MARKS: [&str; 3] = ["StatusCode::CONFLICT,", "AdminError::Conflict(", "conflict("];

/// Errors whose texts are written where they are declared: the file, and what stands behind the text there.
const DECLARED: [(&str, &str); 3] = [
    ("host/agent-core/src/ports/tool_versions.rs", "Conflict,"),
    ("host/agent-core/src/ports/tool_versions.rs", "Unreadable {"),
    ("host/agent-core/src/ports/tool_admin.rs", "NoStore,"),
];

/// The first literal of a piece of code, with its escapes undone as far as texts have any.
fn literal(code: &str) -> Option<String> {
    let (_, rest) = code.split_once('"')?;
    let (mut text, mut rest) = (String::new(), rest.chars().peekable());
    loop {
        match rest.next()? {
            '"' => return Some(text),
            '\\' if rest.peek() == Some(&'\n') => {
                while rest.peek().is_some_and(|c| c.is_whitespace()) {
                    rest.next();
                }
            }
            '\\' => text.extend(rest.next()),
            c => text.push(c),
        }
    }
}

/// The texts of 409s that a file answers.
fn texts(code: &str) -> Vec<String> {
    let mut found = vec![];
    for mark in MARKS {
        for rest in code.split(mark).skip(1) {
            let begin = rest.trim_start();
            // Patterns, and errors whose texts are elsewhere.
            let is_text = ["\"", "format!(", "body: json!"].iter().any(|start| begin.starts_with(start));
            let text = is_text.then(|| literal(&begin.replace("\"error\":", "")));
            found.extend(text.flatten());
        }
    }
    found
}

/// What is the same in every answer of a text: what stands around its `{…}`.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '{' => {
                depth += 1;
                pieces.push(String::new());
            }
            '}' => depth = depth.saturating_sub(1),
            c if depth == 0 => pieces.last_mut().unwrap().push(c),
            _ => {}
        }
    }
    let trimmed = pieces.iter().map(|piece| piece.trim().trim_end_matches('.').trim_start_matches(". "));
    trimmed.filter(|piece| piece.len() > 3).map(str::to_owned).collect()
}

#[test]
fn every_409_of_the_code_is_on_the_page() {
    let page = fs::read_to_string(repository().join("host/docs/api/limits-and-idempotency.md")).unwrap();
    let section = page.split("## What a 409 means").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut all = vec![];
    for file in files(&[".rs"]) {
        let within = file.strip_prefix(repository()).unwrap();
        let crates =
            ["host/http-edge/src", "host/openai-edge/src", "host/tool-host/src", "host/tool-versions/src"];
        let is_source = crates.iter().any(|sources| within.starts_with(sources));
        // Tests make errors up, and the document shows one text of many.
        let is_made_up = within.iter().any(|part| part == "tests" || part == "testing")
            || within.ends_with("tests.rs")
            || within.ends_with("documented.rs");
        if is_source && !is_made_up {
            let code = fs::read_to_string(&file).unwrap();
            all.extend(texts(&code).into_iter().map(|text| (within.display().to_string(), text)));
        }
    }
    for (file, behind) in DECLARED {
        let code = fs::read_to_string(repository().join(Path::new(file))).unwrap();
        let before = code.split(&format!("\n    {behind}")).next().unwrap();
        let text = literal(before.rsplit("#[error(").next().unwrap()).unwrap();
        all.push((file.to_owned(), text));
    }
    assert!(all.len() > 25, "the texts are found: {all:#?}");
    let missing: Vec<_> = all
        .iter()
        .filter(|(_, text)| !pieces(text).iter().all(|piece| section.contains(piece.as_str())))
        .collect();
    assert!(missing.is_empty(), "not under \"What a 409 means\": {missing:#?}");
}

#[test]
fn texts_are_read_from_code() {
    let code = "StatusCode::CONFLICT => x, (StatusCode::CONFLICT, \"One\") AdminError::Conflict(format!(\n \"{a} is \\\n   two: {}. {b}\")) \
                AdminError::Conflict(_) status: StatusCode::CONFLICT,\n body: json!({ \"error\": \"Three\" })";
    assert_eq!(texts(code), ["One", "Three", "{a} is two: {}. {b}"]);
    assert_eq!(pieces("{a} is two: {}. {b}"), ["is two:"]);
}
