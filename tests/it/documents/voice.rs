//! How comments sound, counted: what the house wants less of may only become less. Lower a number here when it has fallen.

use std::fs;

use super::markdown::files;

/// Lines of comments that are wider than code may be (`.rustfmt.toml`).
const WIDE: usize = 2_600;

/// Comments that begin with a pronoun or with "The same", in place of a subject that is in the code.
const WITHOUT_A_SUBJECT: usize = 680;

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

#[test]
fn comments_become_narrower_and_say_who_does_it() {
    let (mut wide, mut without_a_subject) = (0, 0);
    for file in files(&[".rs"]) {
        let (text, mut within) = (fs::read_to_string(&file).unwrap(), false);
        for line in text.lines() {
            let comment = comment(line);
            wide += usize::from(comment.is_some() && line.chars().count() > COLUMNS);
            without_a_subject += usize::from(!within && comment.is_some_and(begins_with_a_pronoun));
            within = comment.is_some();
        }
    }
    assert!(wide <= WIDE, "{wide} comment lines are wider than {COLUMNS} columns, of at most {WIDE}");
    assert!(
        without_a_subject <= WITHOUT_A_SUBJECT,
        "{without_a_subject} comments begin with a pronoun, of at most {WITHOUT_A_SUBJECT}: begin with the mechanism"
    );
}

#[test]
fn a_comment_is_known_by_its_first_word() {
    assert!(begins_with_a_pronoun("It is kept.") && begins_with_a_pronoun("The same, elsewhere."));
    assert!(!begins_with_a_pronoun("Items are kept.") && !begins_with_a_pronoun("Theirs"));
    assert_eq!((comment("    /// A lease."), comment("let it = 1; // one")), (Some("A lease."), None));
}
