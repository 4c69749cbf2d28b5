//! The reference of all settings as people read it: a table in Markdown, and the file `.env.example`.
//!
//! `cargo xtask docs` writes both; a test fails when they are not what stands here.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::all_settings;
use super::setting::{DefaultValue, Need, Setting};
use super::value_type::Kind;

/// A row per setting: name, what it may hold, its default, which variant needs it, what it is for.
pub fn markdown() -> String {
    let mut text = String::from("| variable | holds | default | needed by | what |\n|---|---|---|---|---|\n");
    for setting in all_settings::all() {
        let row = format!(
            "| `{}` | {} | {} | {} | {} |\n",
            setting.name,
            setting.kind,
            default_in_words(setting),
            needed_by(setting.need),
            setting.about.trim(),
        );
        text.push_str(&row);
    }
    text
}

/// An object per setting, for programs.
pub fn json() -> Value {
    let settings = all_settings::all().map(|setting| {
        let default = match setting.default {
            DefaultValue::Absent => None,
            DefaultValue::Derived(words) => Some(words.to_owned()),
            DefaultValue::Number(_) | DefaultValue::Text(_) => setting.default.text(),
        };
        let needed_by: &[&str] = match setting.need {
            Need::Never => &[],
            Need::VariantB => &["b"],
            Need::Always => &["a", "b"],
        };
        json!({
            "name": setting.name, "holds": setting.kind.to_string(), "default": default, "neededBy": needed_by,
            "about": setting.about.trim(),
        })
    });
    Value::Array(settings.collect())
}

/// Every setting as a line that sets it to its default, switched off. Those that somebody needs are empty and
/// on, so that a copy of the file is not complete before they are filled in.
pub fn env_file() -> String {
    let mut text = String::from(
        "# Every setting of agent-host. Copy this file to .env, fill in what is needed and switch on what is to differ.\n\
         # An empty variable counts as one that is not set. The service reads its environment and no file: in a shell\n\
         # `set -a; . ./.env; set +a` takes this one over.\n",
    );
    for setting in all_settings::all() {
        text.push('\n');
        for line in wrap(setting.about.trim(), 110) {
            let _ = writeln!(text, "# {line}");
        }
        let needed = match setting.need {
            Need::Never => String::new(),
            Need::VariantB | Need::Always => format!(" Needed by {}.", needed_by(setting.need)),
        };
        let _ = writeln!(text, "# Holds {}.{needed}", setting.kind);
        let _ = match setting.need {
            Need::Always => writeln!(text, "{}=", setting.name),
            Need::Never | Need::VariantB => {
                writeln!(text, "#{}={}", setting.name, setting.default.text().unwrap_or_default())
            }
        };
    }
    text
}

fn default_in_words(setting: &Setting) -> String {
    match (setting.default, setting.kind) {
        (DefaultValue::Absent, _) => "none".to_owned(),
        (DefaultValue::Derived(words), _) => words.replace('<', "&lt;"),
        (DefaultValue::Number(number), _) => number().to_string(),
        (DefaultValue::Text(text), Kind::Text | Kind::Path | Kind::OneOf(_) | Kind::Special(_)) => {
            format!("`{text}`")
        }
        (
            DefaultValue::Text(text),
            Kind::Number { .. } | Kind::Secret | Kind::Key | Kind::Url(_) | Kind::Hidden(_),
        ) => text.to_owned(),
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
    fn both_forms_name_every_setting_once() {
        let (table, file) = (markdown(), env_file());
        for setting in all_settings::all() {
            assert_eq!(table.matches(&format!("| `{}` |", setting.name)).count(), 1, "{}", setting.name);
            let lines = file.lines().map(|line| line.trim_start_matches('#'));
            let sets = lines.filter(|line| line.starts_with(&format!("{}=", setting.name)));
            assert_eq!(sets.count(), 1, "{}", setting.name);
        }
    }

    #[test]
    fn programs_read_every_setting_with_its_default() {
        let json = json();
        let of =
            |name: &str| json.as_array().unwrap().iter().find(|setting| setting["name"] == name).cloned();
        assert_eq!(json.as_array().unwrap().len(), all_settings::all().count());
        let port = of("PORT").unwrap();
        assert_eq!((&port["default"], &port["neededBy"]), (&json!("3000"), &json!([])));
        assert_eq!(of("LLM_API_KEY").unwrap()["neededBy"], json!(["a", "b"]));
        assert_eq!(of("ALT_LLM_MODEL").unwrap()["default"], Value::Null);
    }

    #[test]
    fn no_row_of_the_table_breaks_it() {
        let columns = |row: &str| row.matches('|').count();
        assert!(markdown().lines().all(|row| columns(row) == 6), "{}", markdown());
    }
}
