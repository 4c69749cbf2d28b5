//! How comments sound, counted: what the house wants less of may only become less. A number that has fallen
//! is lowered here with the change that lowered it.

use std::fs;

use super::markdown::files;

/// Comments that begin with a pronoun or with "The same", in place of a subject that is in the code.
const WITHOUT_A_SUBJECT: usize = 85;

/// Documentation of at most four words: mostly a name said once more.
const FOUR_WORDS: usize = 1_422;

/// How wide a line may be.
const COLUMNS: usize = 110;

const PRONOUNS: [&str; 9] = ["It", "They", "This", "That", "These", "Those", "Its", "Their", "The same"];

/// What a line says, if it is nothing but a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

fn begins_with_a_pronoun(text: &str) -> bool {
    let follows = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    PRONOUNS.iter().any(|pronoun| text.strip_prefix(pronoun).is_some_and(follows))
}

/// Whether a line cannot be broken: a row of a table, or a drawing.
fn is_whole(comment: &str) -> bool {
    comment.starts_with('|') || comment.contains("──")
}

#[test]
fn comments_are_as_wide_as_code() {
    let mut wide = Vec::new();
    for file in files(&[".rs"]) {
        for (line, number) in fs::read_to_string(&file).unwrap().lines().zip(1..) {
            let is_wide = line.chars().count() > COLUMNS;
            if is_wide && comment(line).is_some_and(|comment| !is_whole(comment)) {
                wide.push(format!("{}:{number}", file.display()));
            }
        }
    }
    assert!(wide.is_empty(), "wider than {COLUMNS} columns: {wide:#?}");
}

#[test]
fn comments_say_who_does_it_and_no_name_twice() {
    let (mut without_a_subject, mut four_words) = (0, 0);
    for file in files(&[".rs"]) {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<_> = text.lines().map(|line| (line.trim_start(), comment(line))).collect();
        for (index, (line, comment)) in lines.iter().enumerate() {
            let is_first = index == 0 || lines[index - 1].1.is_none();
            let is_last = lines.get(index + 1).is_none_or(|(_, next)| next.is_none());
            let Some(comment) = comment.filter(|_| is_first) else { continue };
            without_a_subject += usize::from(begins_with_a_pronoun(comment));
            let is_short = is_last && line.starts_with("/// ") && comment.split_whitespace().count() <= 4;
            four_words += usize::from(is_short);
        }
    }
    assert_eq!(without_a_subject, WITHOUT_A_SUBJECT, "begin with the mechanism, or lower the number");
    assert_eq!(four_words, FOUR_WORDS, "say what the name does not, or lower the number");
}

#[test]
fn a_comment_is_known_by_its_first_word() {
    assert!(begins_with_a_pronoun("It is kept.") && begins_with_a_pronoun("The same, elsewhere."));
    assert!(!begins_with_a_pronoun("Items are kept.") && !begins_with_a_pronoun("Theirs"));
    assert_eq!((comment("    /// A lease."), comment("let it = 1; // one")), (Some("A lease."), None));
}
