//! The table and the parser say the same.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::*;

/// Remembers what it was asked for.
struct Recording<'a>(&'a Map, RefCell<BTreeSet<String>>);

impl EnvVars for Recording<'_> {
    fn get(&self, name: &str) -> Option<OsString> {
        self.1.borrow_mut().insert(name.to_owned());
        EnvVars::get(self.0, name)
    }

    fn names(&self) -> Vec<String> {
        EnvVars::names(self.0)
    }
}

#[test]
fn the_table_holds_what_is_read_and_nothing_else() {
    let map = vars("both", &[]);
    let recording = Recording(&map, RefCell::default());
    Config::from_vars(&recording).unwrap();
    let known = all_settings::all().map(|setting| setting.name).chain(all_settings::PLATFORM_FOLDERS);
    assert_eq!(recording.1.into_inner(), known.map(str::to_owned).collect());
}

#[test]
fn every_setting_is_documented_in_sentences() {
    for setting in all_settings::all() {
        let about = setting.about.trim();
        assert!(about.starts_with(char::is_alphabetic) && about.ends_with('.'), "{setting:?}");
        assert!(!setting.kind.to_string().is_empty());
    }
    let names: BTreeSet<_> = all_settings::all().map(|setting| setting.name).collect();
    assert_eq!(names.len(), all_settings::all().count(), "a setting stands in the table twice");
}

#[test]
fn every_word_of_the_table_is_understood_and_no_other() {
    for setting in all_settings::all() {
        let Kind::OneOf(words) = setting.kind else { continue };
        let allowed_somewhere = |word: &str| {
            ["a", "b"].iter().any(|variant| {
                !faults(&vars(variant, &[(setting.name, word), ("REDIS_URL", "memory://")]))
                    .contains(&setting.name)
            })
        };
        assert!(words.iter().all(|word| allowed_somewhere(word)), "{setting:?}");
        assert!(!allowed_somewhere("else") && !allowed_somewhere(&words.concat()), "{setting:?}");
    }
}

#[test]
fn every_number_has_the_bounds_of_the_table() {
    for setting in all_settings::all() {
        let Kind::Number { least, most, .. } = setting.kind else { continue };
        let below = least.checked_sub(1).map_or("-1".to_owned(), |number| number.to_string());
        for (value, expected) in [
            (least.to_string(), vec![]),
            (format!(" {most} "), vec![]),
            (below, vec![setting.name]),
            ((most + 1).to_string(), vec![setting.name]),
            ("ten".to_owned(), vec![setting.name]),
            ("1.5".to_owned(), vec![setting.name]),
        ] {
            check("a", &[(setting.name, &value)], &expected);
        }
    }
}

#[test]
fn an_empty_optional_variable_is_one_that_is_not_set() {
    let bare = format!("{:?}", read("a", &[]));
    for setting in all_settings::all() {
        if setting.need != Need::Always {
            assert_eq!(format!("{:?}", read("a", &[(setting.name, "")])), bare, "{}", setting.name);
        }
    }
}
