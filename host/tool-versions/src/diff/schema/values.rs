//! What keywords say of a value itself: its type, which values it may be, and between which bounds.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use json_schema::Exact;
use json_schema::syntax::Keywords;
use serde_json::{Number, Value};

use super::{Both, Difference, Walk};
use crate::diff::findings::{listed, quoted, shown};

/// The types of JSON. Every integer is a number.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Keywords that bound a number from below or from above.
struct Limit {
    name: &'static str,
    keyword: &'static str,
    /// The keyword that leaves out the bound itself, where there is one.
    exclusive: Option<&'static str>,
    /// How a bound that lets more pass compares with another.
    weaker: Ordering,
}

const LIMITS: [Limit; 8] = [
    Limit { exclusive: Some("exclusiveMinimum"), ..lower("minimum", "minimum") },
    lower("least length", "minLength"),
    lower("least number of items", "minItems"),
    lower("least number of members", "minProperties"),
    Limit { exclusive: Some("exclusiveMaximum"), ..upper("maximum", "maximum") },
    upper("greatest length", "maxLength"),
    upper("greatest number of items", "maxItems"),
    upper("greatest number of members", "maxProperties"),
];

const fn lower(name: &'static str, keyword: &'static str) -> Limit {
    Limit { name, keyword, exclusive: None, weaker: Ordering::Less }
}

const fn upper(name: &'static str, keyword: &'static str) -> Limit {
    Limit { name, keyword, exclusive: None, weaker: Ordering::Greater }
}

impl Walk<'_, '_> {
    pub(super) fn compare_values(&mut self, both: &Both<'_, '_>) {
        self.compare_types(both);
        self.compare_choices(both);
        for limit in &LIMITS {
            self.compare_bounds(both, limit);
        }
        self.compare_multiples(both);
        if let Some((before, after)) = self.compare_presence(both, "pattern", "match the pattern") {
            let text = format!("the pattern was {}, it is {}", shown(before), shown(after));
            self.note(Difference::Other, both.place, text);
        }
        match (both.old.is("uniqueItems", true), both.new.is("uniqueItems", true)) {
            (false, true) => self.note(Difference::Narrower, both.place, "no two items may be the same now"),
            (true, false) => self.note(Difference::Wider, both.place, "two items may be the same now"),
            (true, true) | (false, false) => {}
        }
    }

    /// Notes that a rule is new or gone. Returns what both say of it where that differs.
    fn compare_presence<'a>(
        &mut self,
        both: &Both<'a, '_>,
        key: &str,
        rule: &str,
    ) -> Option<(&'a Value, &'a Value)> {
        match both.get(key) {
            (None, Some(after)) => {
                let text = format!("it must {rule} {}", shown(after));
                self.note(Difference::Narrower, both.place, text);
            }
            (Some(before), None) => {
                let text = format!("it need not {rule} {} any more", shown(before));
                self.note(Difference::Wider, both.place, text);
            }
            (Some(before), Some(after)) if before != after => return Some((before, after)),
            (Some(_), Some(_)) | (None, None) => {}
        }
        None
    }

    fn compare_types(&mut self, both: &Both<'_, '_>) {
        let (before, after) = (types(both.old), types(both.new));
        let lost: BTreeSet<_> = before.difference(&after).copied().collect();
        let gained: BTreeSet<_> = after.difference(&before).copied().collect();
        let difference = match (lost.is_empty(), gained.is_empty()) {
            (true, true) => return,
            (false, true) => Difference::Narrower,
            (true, false) => Difference::Looser,
            (false, false) => Difference::Other,
        };
        let text = format!("the type was {}, it is {}", type_names(&before), type_names(&after));
        self.note(difference, both.place, text);
    }

    /// `enum` and `const`.
    fn compare_choices(&mut self, both: &Both<'_, '_>) {
        match (choices(both.old), choices(both.new)) {
            (None, None) => {}
            (None, Some(after)) => {
                let after = listed(after.values().map(|value| shown(value)));
                self.note(
                    Difference::Narrower,
                    both.place,
                    format_args!("only these values match now: {after}"),
                );
            }
            (Some(before), None) => {
                let before = listed(before.values().map(|value| shown(value)));
                self.note(
                    Difference::Wider,
                    both.place,
                    format_args!("not only these values match now: {before}"),
                );
            }
            (Some(before), Some(after)) => {
                for (one, other, difference, what) in [
                    (&before, &after, Difference::Narrower, "these values no longer match"),
                    (&after, &before, Difference::Wider, "these values match now"),
                ] {
                    let own = one.iter().filter(|(text, _)| !other.contains_key(*text));
                    let own: Vec<_> = own.map(|(_, value)| shown(value)).collect();
                    if !own.is_empty() {
                        self.note(difference, both.place, format_args!("{what}: {}", listed(own)));
                    }
                }
            }
        }
    }

    fn compare_bounds(&mut self, both: &Both<'_, '_>, limit: &Limit) {
        let (before, after) = (Bound::of(both.old, limit), Bound::of(both.new, limit));
        let difference = match (&before, &after) {
            (None, None) => return,
            (None, Some(_)) => Difference::Narrower,
            (Some(_), None) => Difference::Wider,
            (Some(before), Some(after)) => match after.compare(before, limit.weaker) {
                Some(Ordering::Equal) => return,
                Some(Ordering::Less) => Difference::Wider,
                Some(_) => Difference::Narrower,
                None => Difference::Undecided,
            },
        };
        let said =
            |bound: &Option<Bound<'_>>| bound.as_ref().map_or("not there".to_owned(), Bound::to_string);
        let text = format!("the {} was {}, it is {}", limit.name, said(&before), said(&after));
        self.note(difference, both.place, text);
    }

    fn compare_multiples(&mut self, both: &Both<'_, '_>) {
        let Some((before, after)) = self.compare_presence(both, "multipleOf", "be a multiple of") else {
            return;
        };
        let difference = match (before.as_u64(), after.as_u64()) {
            (Some(before), Some(after)) if before.checked_rem(after) == Some(0) => Difference::Wider,
            (Some(before), Some(after)) if after.checked_rem(before) == Some(0) => Difference::Narrower,
            _ => Difference::Other,
        };
        let text =
            format!("it had to be a multiple of {}, it has to be one of {}", shown(before), shown(after));
        self.note(difference, both.place, text);
    }
}

/// The types that a value may have; `number` counts for both kinds of numbers.
fn types(part: Keywords<'_>) -> BTreeSet<&str> {
    let mut types: BTreeSet<&str> =
        part.types().map_or_else(|| TYPES.into(), |named| named.into_iter().collect());
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

fn choices(part: Keywords<'_>) -> Option<Choices<'_>> {
    Some(part.choices()?.into_iter().map(|value| (canonical(value), value)).collect())
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
    fn of(part: Keywords<'a>, limit: &Limit) -> Option<Self> {
        let bound = |key: &str, is_exclusive| Some(Self { limit: part.number(key)?, is_exclusive });
        let inclusive = bound(limit.keyword, false);
        let exclusive = limit.exclusive.and_then(|key| bound(key, true));
        let is_needless = |bound: &Self| {
            // A count that need not be above 0 is no bound.
            limit.exclusive.is_none() && limit.weaker == Ordering::Less && bound.limit.as_u64() == Some(0)
        };
        match (inclusive, exclusive) {
            (Some(one), Some(other)) => {
                Some(if one.compare(&other, limit.weaker) == Some(Ordering::Greater) { one } else { other })
            }
            (one, other) => one.or(other).filter(|bound| !is_needless(bound)),
        }
    }

    /// `Less` if it lets more pass than the other one, `Greater` if less.
    fn compare(&self, other: &Self, weaker: Ordering) -> Option<Ordering> {
        let order = Exact::of(self.limit).compare(Exact::of(other.limit))?;
        let order = if weaker == Ordering::Less { order } else { order.reverse() };
        Some(order.then(self.is_exclusive.cmp(&other.is_exclusive)))
    }
}
