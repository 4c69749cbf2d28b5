//! What keywords say of a value itself: its type, which values it may be, and between which bounds.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Number, Value};

use super::{Difference, Keywords, Walk};
use crate::versions::diff::findings::{listed, quoted, shown};

/// The types of JSON. Every integer is a number.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Bounds from below and from above: what they are called, the keyword, and the one without equality where there is one.
const LOWER: [(&str, &str, Option<&str>); 4] = [
    ("minimum", "minimum", Some("exclusiveMinimum")),
    ("least length", "minLength", None),
    ("least number of items", "minItems", None),
    ("least number of members", "minProperties", None),
];
const UPPER: [(&str, &str, Option<&str>); 4] = [
    ("maximum", "maximum", Some("exclusiveMaximum")),
    ("greatest length", "maxLength", None),
    ("greatest number of items", "maxItems", None),
    ("greatest number of members", "maxProperties", None),
];

impl Walk<'_, '_> {
    pub(super) fn compare_values(&mut self, keywords: &Keywords<'_, '_>) {
        self.compare_types(keywords);
        self.compare_choices(keywords);
        for (name, inclusive, exclusive) in LOWER {
            self.compare_bounds(keywords, name, (inclusive, exclusive), Ordering::Less);
        }
        for (name, inclusive, exclusive) in UPPER {
            self.compare_bounds(keywords, name, (inclusive, exclusive), Ordering::Greater);
        }
        self.compare_multiples(keywords);
        match keywords.both("pattern") {
            (None, Some(after)) => {
                self.note(
                    Difference::Narrower,
                    keywords.place,
                    format_args!("it must match the pattern {}", shown(after)),
                );
            }
            (Some(before), None) => {
                let text = format!("it need not match the pattern {} any more", shown(before));
                self.note(Difference::Wider, keywords.place, text);
            }
            (Some(before), Some(after)) if before != after => {
                let text = format!("the pattern was {}, it is {}", shown(before), shown(after));
                self.note(Difference::Other, keywords.place, text);
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        let unique = |part: &Map<String, Value>| part.get("uniqueItems") == Some(&Value::Bool(true));
        match (unique(keywords.old), unique(keywords.new)) {
            (false, true) => {
                self.note(Difference::Narrower, keywords.place, "no two items may be the same now")
            }
            (true, false) => self.note(Difference::Wider, keywords.place, "two items may be the same now"),
            (true, true) | (false, false) => {}
        }
    }

    fn compare_types(&mut self, keywords: &Keywords<'_, '_>) {
        let (before, after) = (types(keywords.old), types(keywords.new));
        let lost: BTreeSet<_> = before.difference(&after).copied().collect();
        let gained: BTreeSet<_> = after.difference(&before).copied().collect();
        let difference = match (lost.is_empty(), gained.is_empty()) {
            (true, true) => return,
            (false, true) => Difference::Narrower,
            (true, false) => Difference::Looser,
            (false, false) => Difference::Other,
        };
        let text = format!("the type was {}, it is {}", type_names(&before), type_names(&after));
        self.note(difference, keywords.place, text);
    }

    /// `enum` and `const`.
    fn compare_choices(&mut self, keywords: &Keywords<'_, '_>) {
        match (choices(keywords.old), choices(keywords.new)) {
            (None, None) => {}
            (None, Some(after)) => {
                let text = format!(
                    "only these values match now: {}",
                    listed(after.values().map(|value| shown(value)))
                );
                self.note(Difference::Narrower, keywords.place, text);
            }
            (Some(before), None) => {
                let before = listed(before.values().map(|value| shown(value)));
                self.note(
                    Difference::Wider,
                    keywords.place,
                    format_args!("not only these values match now: {before}"),
                );
            }
            (Some(before), Some(after)) => {
                let only = |one: &Choices<'_>, other: &Choices<'_>| -> Vec<String> {
                    let own = one.iter().filter(|(text, _)| !other.contains_key(*text));
                    own.map(|(_, value)| shown(value)).collect()
                };
                let (lost, gained) = (only(&before, &after), only(&after, &before));
                if !lost.is_empty() {
                    let text = format!("these values no longer match: {}", listed(lost));
                    self.note(Difference::Narrower, keywords.place, text);
                }
                if !gained.is_empty() {
                    self.note(
                        Difference::Wider,
                        keywords.place,
                        format_args!("these values match now: {}", listed(gained)),
                    );
                }
            }
        }
    }

    /// A bound; `weaker` is how one that lets more pass compares with another.
    fn compare_bounds(
        &mut self,
        keywords: &Keywords<'_, '_>,
        name: &str,
        (inclusive, exclusive): (&str, Option<&str>),
        weaker: Ordering,
    ) {
        let bound = |part| Bound::of(part, inclusive, exclusive, weaker);
        let (before, after) = (bound(keywords.old), bound(keywords.new));
        let difference = match (&before, &after) {
            (None, None) => return,
            (None, Some(_)) => Difference::Narrower,
            (Some(_), None) => Difference::Wider,
            (Some(before), Some(after)) => match after.compare(before, weaker) {
                Some(Ordering::Equal) => return,
                Some(Ordering::Less) => Difference::Wider,
                Some(_) => Difference::Narrower,
                None => Difference::Undecided,
            },
        };
        let said =
            |bound: &Option<Bound<'_>>| bound.as_ref().map_or("not there".to_owned(), Bound::to_string);
        let text = format!("the {name} was {}, it is {}", said(&before), said(&after));
        self.note(difference, keywords.place, text);
    }

    fn compare_multiples(&mut self, keywords: &Keywords<'_, '_>) {
        match keywords.both("multipleOf") {
            (None, Some(after)) => {
                self.note(
                    Difference::Narrower,
                    keywords.place,
                    format_args!("it must be a multiple of {}", shown(after)),
                );
            }
            (Some(before), None) => {
                let text = format!("it need not be a multiple of {} any more", shown(before));
                self.note(Difference::Wider, keywords.place, text);
            }
            (Some(before), Some(after)) if before != after => {
                let difference = match (before.as_u64(), after.as_u64()) {
                    (Some(before), Some(after)) if before.checked_rem(after) == Some(0) => Difference::Wider,
                    (Some(before), Some(after)) if after.checked_rem(before) == Some(0) => {
                        Difference::Narrower
                    }
                    _ => Difference::Other,
                };
                let text = format!(
                    "it had to be a multiple of {}, it has to be one of {}",
                    shown(before),
                    shown(after)
                );
                self.note(difference, keywords.place, text);
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
}

/// The types that a value may have; `number` counts for both kinds of numbers.
fn types(part: &Map<String, Value>) -> BTreeSet<&str> {
    let mut types: BTreeSet<&str> = match part.get("type") {
        None => TYPES.into(),
        Some(Value::String(name)) => [name.as_str()].into(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) => BTreeSet::new(),
    };
    if types.contains("number") {
        types.insert("integer");
    }
    types
}

fn type_names(types: &BTreeSet<&str>) -> String {
    if types.len() == TYPES.len() {
        return "any".into();
    }
    let is_redundant = |name: &&&str| **name == "integer" && types.contains("number");
    let names: Vec<String> =
        types.iter().filter(|name| !is_redundant(name)).map(|name| quoted(name)).collect();
    if names.is_empty() { "none".into() } else { names.join(" or ") }
}

/// The values that match, by a text that is the same for the same values.
type Choices<'a> = BTreeMap<String, &'a Value>;

fn choices(part: &Map<String, Value>) -> Option<Choices<'_>> {
    let by_text =
        |values: &mut dyn Iterator<Item = &'_ Value>| -> BTreeSet<String> { values.map(canonical).collect() };
    let values: Vec<&Value> = match (part.get("const"), part.get("enum")) {
        (None, None) => return None,
        (Some(only), None) => vec![only],
        (None, Some(list)) => list.as_array()?.iter().collect(),
        (Some(only), Some(list)) => {
            let is_listed = by_text(&mut list.as_array()?.iter()).contains(&canonical(only));
            vec![only].into_iter().filter(|_| is_listed).collect()
        }
    };
    Some(values.into_iter().map(|value| (canonical(value), value)).collect())
}

/// `1` and `1.0` are the same value.
fn canonical(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if value.is_f64() && number.fract() == 0.0 && number.abs() < 9e15 => {
            format!("{number:.0}")
        }
        _ => value.to_string(),
    }
}

/// The one of two keywords that lets less pass.
struct Bound<'a> {
    limit: &'a Number,
    is_exclusive: bool,
}

impl std::fmt::Display for Bound<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.limit)?;
        if self.is_exclusive { f.write_str(" (itself left out)") } else { Ok(()) }
    }
}

impl<'a> Bound<'a> {
    fn of(
        part: &'a Map<String, Value>,
        inclusive: &str,
        exclusive: Option<&str>,
        weaker: Ordering,
    ) -> Option<Self> {
        let is_count = exclusive.is_none();
        let limit = |key: &str| part.get(key).and_then(Value::as_number);
        let inclusive = limit(inclusive).map(|limit| Self { limit, is_exclusive: false });
        let exclusive = exclusive.and_then(limit).map(|limit| Self { limit, is_exclusive: true });
        match (inclusive, exclusive) {
            (Some(one), Some(other)) => {
                Some(if one.compare(&other, weaker) == Some(Ordering::Greater) { one } else { other })
            }
            (one, other) => one.or(other),
        }
        // A count that need not be above 0 is no bound.
        .filter(|bound| !is_count || weaker == Ordering::Greater || bound.limit.as_u64() != Some(0))
    }

    /// `Less` if it lets more pass than the other one, `Greater` if less.
    fn compare(&self, other: &Self, weaker: Ordering) -> Option<Ordering> {
        let order = compare_numbers(self.limit, other.limit)?;
        let order = if weaker == Ordering::Less { order } else { order.reverse() };
        Some(order.then(self.is_exclusive.cmp(&other.is_exclusive)))
    }
}

fn compare_numbers(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}
