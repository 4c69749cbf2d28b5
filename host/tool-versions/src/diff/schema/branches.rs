//! `allOf`, `anyOf` and `oneOf`: schemas of which all must match, or one.

use std::collections::BTreeMap;

use json_schema::syntax::Keywords;
use serde_json::Value;

use super::{Both, Difference, Walk, below, is_compared};

/// What became of the schemas of a list.
struct Pairing {
    /// Whether some are not what they were.
    differ: bool,
    removed: usize,
    added: usize,
}

impl<'a> Walk<'a, '_> {
    pub(super) fn compare_branches(&mut self, both: &Both<'a, '_>) {
        for (key, with_more, with_fewer) in [
            ("allOf", Difference::Narrower, Difference::Wider),
            ("anyOf", Difference::Wider, Difference::Narrower),
            // One more may also match what another one matches, and then neither counts.
            ("oneOf", Difference::Undecided, Difference::Narrower),
        ] {
            let place = below(both.place, &format!(".{key}"));
            match both.get(key) {
                (None, None) => {}
                (None, Some(_)) => self.note(Difference::Narrower, &place, "it must be so now"),
                (Some(_), None) => self.note(Difference::Wider, &place, "it need not be so any more"),
                (Some(Value::Array(before)), Some(Value::Array(after))) => {
                    let Pairing { differ, removed, added } = self.pair_branches(before, after, &place);
                    if key == "oneOf" && differ {
                        self.note(
                            Difference::Undecided,
                            &place,
                            "a value may match another number of its schemas",
                        );
                    }
                    if removed > 0 {
                        self.note(with_fewer, &place, format_args!("{removed} of its schemas are gone"));
                    }
                    if added > 0 {
                        self.note(with_more, &place, format_args!("{added} of its schemas are new"));
                    }
                }
                (Some(_), Some(_)) => self.note(Difference::Undecided, &place, "it is no list"),
            }
        }
    }

    /// Has branches compared: the equal ones with each other, the rest in their order.
    fn pair_branches(&mut self, before: &'a [Value], after: &'a [Value], place: &str) -> Pairing {
        let mut by_text: BTreeMap<String, Vec<&'a Value>> = BTreeMap::new();
        for older in before.iter().rev() {
            by_text.entry(older.to_string()).or_default().push(older);
        }
        let mut paired = Vec::new();
        let mut unpaired = Vec::new();
        for newer in after {
            match by_text.get_mut(&newer.to_string()).and_then(Vec::pop) {
                Some(older) => paired.push((older, newer)),
                None => unpaired.push(newer),
            }
        }
        let address = |part: &Value| std::ptr::from_ref(part).addr();
        let mut left: Vec<&'a Value> = by_text.into_values().flatten().collect();
        // The parts lie in one list, so the order of their addresses is their order.
        left.sort_by_key(|part| address(part));
        let (removed, added) =
            (left.len().saturating_sub(unpaired.len()), unpaired.len().saturating_sub(left.len()));
        paired.extend(left.into_iter().zip(unpaired));
        let differ = paired.iter().any(|(older, newer)| !self.is_same(older, newer));
        for (index, (older, newer)) in paired.into_iter().enumerate() {
            self.open(older, newer, below(place, &format!("[{index}]")));
        }
        Pairing { differ, removed, added }
    }

    /// Whether one is a list of alternatives of which the other is one, as when something may be null now:
    /// then that is all the difference.
    pub(super) fn compare_with_alternatives(&mut self, both: &Both<'a, '_>) -> bool {
        if self.definitions_differ {
            return false;
        }
        if is_among(both.old, both.new) {
            self.note(Difference::Looser, both.place, "it may be something else now too");
            return true;
        }
        if is_among(both.new, both.old) {
            self.note(
                Difference::Narrower,
                both.place,
                "it may be only one of several things that it could be",
            );
            return true;
        }
        false
    }
}

/// Whether a schema is one of the alternatives that are all that `list` says.
fn is_among(one: Keywords<'_>, list: Keywords<'_>) -> bool {
    let is_only_a_list =
        rules(list).all(|(key, _)| matches!(key.as_str(), "$defs" | "anyOf" | "definitions"));
    is_only_a_list
        && rules(one).next().is_some()
        && !one.has(&["anyOf"])
        && list.list("anyOf").iter().any(|alternative| rules(Keywords::of(alternative)).eq(rules(one)))
}

/// What a schema says but for its texts, by name.
fn rules(part: Keywords<'_>) -> impl Iterator<Item = (&String, &Value)> {
    part.iter().filter(|(key, _)| is_compared(key))
}
