//! Holds a value against what is said of it.

use serde_json::{Map, Value};

use super::field::{Field, Kind, Number, Object, Text};
use super::issue::{Issue, Issues, Step};

/// Most keys of an object that are complained about.
const MOST_UNKNOWN: usize = 10;

/// Everything that is wrong with a value that is to be such an object. In a query string a text in the place of a number
/// is not a number.
pub(super) fn check(object: &Object, value: &Value, is_query: bool) -> Result<(), Issues> {
    let mut check = Check { is_query, path: vec![], issues: vec![] };
    check.object(object, value);
    if check.issues.is_empty() { Ok(()) } else { Err(Issues(check.issues)) }
}

struct Check {
    is_query: bool,
    /// Where the value is that is looked at.
    path: Vec<Step>,
    issues: Vec<Issue>,
}

impl Check {
    fn note(&mut self, issue: impl FnOnce(Vec<Step>) -> Issue) {
        self.issues.push(issue(self.path.clone()));
    }

    fn inside(&mut self, step: Step, check: impl FnOnce(&mut Self)) {
        self.path.push(step);
        check(self);
        self.path.pop();
    }

    fn object(&mut self, object: &Object, value: &Value) {
        match value {
            Value::Object(fields) => self.fields(object, fields),
            _ if object.is_lenient => {}
            other => self.note(|path| Issue::wrong_type("object", Some(other), path)),
        }
    }

    fn fields(&mut self, object: &Object, fields: &Map<String, Value>) {
        if object.is_closed {
            self.unknown_keys(object, fields);
        }
        for Field { name, kind, is_required, .. } in object.fields {
            self.inside(Step::Name(name), |check| match fields.get(*name) {
                Some(value) => check.value(kind, value),
                None if *is_required => check.note(|path| Issue::wrong_type(kind.expected(), None, path)),
                None => {}
            });
        }
        // A run without a restriction that its caller asked for is not what the caller wants.
        for name in object.refused.iter().filter(|name| fields.contains_key(**name)) {
            self.note(|path| Issue::option_of_a_request(name, path));
        }
    }

    fn unknown_keys(&mut self, object: &Object, fields: &Map<String, Value>) {
        let mut known: Vec<_> = object.fields.iter().map(|field| field.name).collect();
        known.sort_unstable();
        let unknown = fields.keys().filter(|key| !known.contains(&key.as_str()));
        for key in unknown.take(MOST_UNKNOWN) {
            self.note(|path| Issue::unknown_key(key, &known, path));
        }
    }

    fn value(&mut self, kind: &Kind, value: &Value) {
        match (kind, value) {
            (Kind::Any, _) | (Kind::Truth, Value::Bool(_)) | (Kind::Digits, Value::Number(_)) => {}
            (Kind::Object(object), value) => self.object(object, value),
            (Kind::Text(text), Value::String(value)) => self.text(text, value),
            (Kind::Word { words, most_quoted }, Value::String(word)) => {
                let words = words();
                if !words.contains(&word.as_str()) {
                    let received = word.chars().take(*most_quoted).collect();
                    self.note(|path| Issue::not_one_of(words, received, path));
                }
            }
            (Kind::Number(number), Value::Number(value)) => {
                self.number(number, value.as_f64().unwrap_or(f64::NAN));
            }
            // Without an issue for each element, of which there may be any number.
            (Kind::List { most, .. }, Value::Array(items)) if items.len() > *most => {
                self.note(|path| Issue::too_many(*most as u32, path));
            }
            (Kind::List { item, .. }, Value::Array(items)) => {
                for (index, value) in items.iter().enumerate() {
                    self.inside(Step::Index(index), |check| check.value(item, value));
                }
            }
            (kind @ (Kind::Number(_) | Kind::Digits), Value::String(_)) if self.is_query => {
                self.note(|path| Issue::received(kind.expected(), "nan", path));
            }
            (kind, other) => self.note(|path| Issue::wrong_type(kind.expected(), Some(other), path)),
        }
    }

    fn text(&mut self, text: &Text, value: &str) {
        let is_too_long = |most: u32| value.chars().count() > most as usize;
        match text {
            Text { least: Some(least @ 1..), .. } if value.is_empty() => {
                self.note(|path| Issue::too_short(*least, path));
            }
            Text { most: Some(most), .. } if is_too_long(*most) => {
                self.note(|path| Issue::too_long(*most, path));
            }
            Text { pattern: Some(pattern), .. } if !(pattern.is)(value) => {
                self.note(|path| Issue::custom(pattern.fault, path));
            }
            Text { .. } => {}
        }
    }

    fn number(&mut self, number: &Number, value: f64) {
        let (least, most) = (number.least, number.most);
        if number.is_whole && value.fract() != 0.0 {
            self.note(|path| Issue::received("integer", "float", path));
        } else if value < f64::from(least) {
            self.note(|path| Issue::too_low(least, path));
        } else if value > f64::from(most) {
            self.note(|path| Issue::too_high(most, path));
        } else if number.is_positive && value == 0.0 {
            self.note(|path| Issue::custom("Number must be greater than 0", path));
        }
    }
}
