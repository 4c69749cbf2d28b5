//! The table and the parser say the same.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::*;

/// Remembers what it was asked for.
struct Recording<'a>(&'a Map, RefCell<BTreeSet<String>>);

impl Vars for Recording<'_> {
    fn get(&self, name: &str) -> Option<OsString> {
        self.1.borrow_mut().insert(name.to_owned());
        Vars::get(self.0, name)
    }
}

#[test]
fn the_table_holds_what_is_read_and_nothing_else() {
    let map = vars("both", &[]);
    let recording = Recording(&map, RefCell::default());
    Config::from_vars(&recording).unwrap();
    let known = variables::ALL.iter().map(|variable| variable.name).chain(variables::AMBIENT);
    assert_eq!(recording.1.into_inner(), known.map(str::to_owned).collect());
}

#[test]
fn every_variable_is_documented_in_sentences() {
    for variable in variables::ALL {
        let about = variable.about.trim();
        assert!(about.starts_with(char::is_alphabetic) && about.ends_with('.'), "{variable:?}");
        assert!(!variable.kind.to_string().is_empty());
    }
    let names: BTreeSet<_> = variables::ALL.iter().map(|variable| variable.name).collect();
    assert_eq!(names.len(), variables::ALL.len(), "a variable stands in the table twice");
}

#[test]
fn every_word_of_the_table_is_understood_and_no_other() {
    for variable in variables::ALL {
        let Kind::OneOf(words) = variable.kind else { continue };
        let allowed_somewhere = |word: &str| {
            ["a", "b"].iter().any(|variant| {
                !faults(&vars(variant, &[(variable.name, word), ("REDIS_URL", "memory://")]))
                    .contains(&variable.name)
            })
        };
        assert!(words.iter().all(|word| allowed_somewhere(word)), "{variable:?}");
        assert!(!allowed_somewhere("else") && !allowed_somewhere(&words.concat()), "{variable:?}");
    }
}

#[test]
fn every_number_has_the_bounds_of_the_table() {
    for variable in variables::ALL {
        let Kind::Number { least, most, .. } = variable.kind else { continue };
        let below = least.checked_sub(1).map_or("-1".to_owned(), |number| number.to_string());
        for (value, expected) in [
            (least.to_string(), vec![]),
            (format!(" {most} "), vec![]),
            (below, vec![variable.name]),
            ((most + 1).to_string(), vec![variable.name]),
            ("ten".to_owned(), vec![variable.name]),
            ("1.5".to_owned(), vec![variable.name]),
        ] {
            check("a", &[(variable.name, &value)], &expected);
        }
    }
}

#[test]
fn an_empty_optional_variable_is_one_that_is_not_set() {
    let bare = format!("{:?}", read("a", &[]));
    for variable in variables::ALL {
        if variable.need != Need::Always {
            assert_eq!(format!("{:?}", read("a", &[(variable.name, "")])), bare, "{}", variable.name);
        }
    }
}
