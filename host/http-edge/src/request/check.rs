//! Holds a value against what is said of it.

use serde_json::{Map, Value};

use super::field::{Field, Kind, Object};
use super::issue::{Issue, Issues, Step};

/// Most keys of an object that are complained about.
const MOST_UNKNOWN: usize = 10;

/// Everything that is wrong with a value that is to be such an object. In a query string a text in the place
/// of a number is not a number.
pub(super) fn check(object: &Object, value: &Value, is_query: bool) -> Result<(), Issues> {
    let mut check = Check { is_query, path: vec![], issues: vec![] };
    check.object(object, value);
    if check.issues.is_empty() { Ok(()) } else { Err(Issues(check.issues)) }
}

/// The first thing that is wrong with a value that is to be in that field.
pub(super) fn check_field(field: &Field, value: &Value) -> Result<(), Issue> {
    let mut check = Check { is_query: false, path: vec![Step::Name(field.name)], issues: vec![] };
    check.value(field, value);
    check.issues.into_iter().next().map_or(Ok(()), Err)
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
        for field in object.fields {
            self.inside(Step::Name(field.name), |check| match fields.get(field.name) {
                Some(value) => check.value(field, value),
                None if field.is_required => {
                    check.note(|path| Issue::wrong_type(field.kind.expected(), None, path));
                }
                None => {}
            });
        }
        // A run without a restriction that its caller asked for is not what the caller wants.
        for option in object.refused.iter().filter(|option| fields.contains_key(option.name)) {
            self.note(|path| Issue::option_elsewhere(option.name, option.takers, path));
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

    fn value(&mut self, field: &Field, value: &Value) {
        match (&field.kind, value) {
            (Kind::Any, _) | (Kind::Truth, Value::Bool(_)) | (Kind::Digits, Value::Number(_)) => {}
            (Kind::Object(object), value) => self.object(object, value),
            (Kind::Text, Value::String(value)) => self.text(field, value),
            (Kind::Word { words, most_quoted }, Value::String(word)) => {
                let words = words();
                if !words.contains(&word.as_str()) {
                    let received = word.chars().take(*most_quoted).collect();
                    self.note(|path| Issue::not_one_of(words, received, path));
                }
            }
            (Kind::Number | Kind::PositiveNumber | Kind::WholeNumber, Value::Number(value)) => {
                self.number(field, value.as_f64().unwrap_or(f64::NAN));
            }
            // Without an issue for each element, of which there may be any number.
            (Kind::List { most, .. }, Value::Array(items)) if items.len() > *most => {
                self.note(|path| Issue::too_many(*most as u32, path));
            }
            (Kind::List { item, .. }, Value::Array(items)) => {
                let item = Field::new("", **item);
                for (index, value) in items.iter().enumerate() {
                    self.inside(Step::Index(index), |check| check.value(&item, value));
                }
            }
            (kind @ (Kind::Number | Kind::WholeNumber | Kind::Digits), Value::String(_)) if self.is_query => {
                self.note(|path| Issue::received(kind.expected(), "nan", path));
            }
            (kind, other) => self.note(|path| Issue::wrong_type(kind.expected(), Some(other), path)),
        }
    }

    fn text(&mut self, field: &Field, text: &str) {
        let is_too_long = |most: &u32| text.chars().count() > *most as usize;
        let Field { least, most, pattern, .. } = field;
        if let Some(least @ 1..) = least.filter(|_| text.is_empty()) {
            self.note(|path| Issue::too_short(least, path));
        } else if let Some(most) = most.filter(is_too_long) {
            self.note(|path| Issue::too_long(most, path));
        } else if let Some(pattern) = pattern.filter(|pattern| !(pattern.is)(text)) {
            self.note(|path| Issue::custom(pattern.fault, path));
        }
    }

    fn number(&mut self, field: &Field, number: f64) {
        let (is_whole, is_positive) =
            (matches!(field.kind, Kind::WholeNumber), matches!(field.kind, Kind::PositiveNumber));
        if is_whole && number.fract() != 0.0 {
            self.note(|path| Issue::received("integer", "float", path));
        } else if let Some(least) = field.least.filter(|least| number < f64::from(*least)) {
            self.note(|path| Issue::too_low(least, path));
        } else if let Some(most) = field.most.filter(|most| number > f64::from(*most)) {
            self.note(|path| Issue::too_high(most, path));
        } else if is_positive && number == 0.0 {
            self.note(|path| Issue::custom("Number must be greater than 0", path));
        }
    }
}
