//! The table of variables as people read it: for README.md, and as the file `.env.example`.
//!
//! `cargo xtask docs` writes both; a test fails when they are not what stands here.

use std::fmt::Write as _;

use super::variable::{Fallback, Kind, Need, Variable};
use super::variables;

/// A row per variable: name, what it may hold, its default, which variant needs it, what it is for.
pub fn markdown() -> String {
    let mut text = String::from("| variable | holds | default | needed by | what |\n|---|---|---|---|---|\n");
    for variable in variables::ALL {
        let row = format!(
            "| `{}` | {} | {} | {} | {} |\n",
            variable.name,
            variable.kind,
            default_in_words(variable),
            needed_by(variable.need),
            variable.about.trim(),
        );
        text.push_str(&row);
    }
    text
}

/// Every variable as a line that sets it to its default, switched off. Those that somebody needs are empty and
/// on, so that a copy of the file is not complete before they are filled in.
pub fn env_file() -> String {
    let mut text = String::from(
        "# Every setting of agent-host. Copy this file to .env, fill in what is needed and switch on what is to differ.\n\
         # An empty variable counts as one that is not set.\n",
    );
    for variable in variables::ALL {
        text.push('\n');
        for line in wrap(variable.about.trim(), 110) {
            let _ = writeln!(text, "# {line}");
        }
        let needed = match variable.need {
            Need::Never => String::new(),
            Need::VariantB | Need::Always => format!(" Needed by {}.", needed_by(variable.need)),
        };
        let _ = writeln!(text, "# Holds {}.{needed}", variable.kind);
        let _ = match (variable.need, variable.fallback) {
            (Need::Always, _) => writeln!(text, "{}=", variable.name),
            (_, Fallback::Value(value)) => writeln!(text, "#{}={value}", variable.name),
            (_, Fallback::Nothing | Fallback::Derived(_)) => writeln!(text, "#{}=", variable.name),
        };
    }
    text
}

fn default_in_words(variable: &Variable) -> String {
    match (variable.fallback, variable.kind) {
        (Fallback::Nothing, _) => "none".to_owned(),
        (Fallback::Derived(words), _) => words.replace('<', "&lt;"),
        (Fallback::Value(value), Kind::Text | Kind::Path | Kind::OneOf(_) | Kind::Special(_)) => {
            format!("`{value}`")
        }
        (
            Fallback::Value(value),
            Kind::Number { .. } | Kind::Secret | Kind::Key | Kind::Url(_) | Kind::Hidden(_),
        ) => value.to_owned(),
    }
}

fn needed_by(need: Need) -> &'static str {
    match need {
        Need::Never => "–",
        Need::VariantB => "B",
        Need::Always => "A and B",
    }
}

/// Lines of at most `width` characters, broken between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_name_every_variable_once() {
        let (table, file) = (markdown(), env_file());
        for variable in variables::ALL {
            assert_eq!(table.matches(&format!("| `{}` |", variable.name)).count(), 1, "{}", variable.name);
            let lines = file.lines().map(|line| line.trim_start_matches('#'));
            let sets = lines.filter(|line| line.starts_with(&format!("{}=", variable.name)));
            assert_eq!(sets.count(), 1, "{}", variable.name);
        }
    }

    #[test]
    fn no_row_of_the_table_breaks_it() {
        let columns = |row: &str| row.matches('|').count();
        assert!(markdown().lines().all(|row| columns(row) == 6), "{}", markdown());
    }
}
