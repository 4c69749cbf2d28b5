//! What keywords say of the members of objects and the items of arrays.

use std::collections::BTreeSet;

use json_schema::untrusted_text::printable;
use serde_json::{Map, Value};

use super::{ANYTHING, Difference, Keywords, Side, Walk, below};
use crate::versions::diff::findings::quoted;

/// Most bytes of a name in a place.
const NAME_BYTES: usize = 60;

/// Keywords with one schema; without them everything matches.
const WITH_A_SCHEMA: [(&str, &str); 4] = [
    ("additionalProperties", ".*"),
    ("unevaluatedProperties", ".(unevaluated)"),
    ("propertyNames", ".(names)"),
    ("items", "[]"),
];

impl<'a> Walk<'a, '_> {
    pub(super) fn compare_members(&mut self, keywords: &Keywords<'a, '_>) {
        self.compare_required(keywords);
        self.compare_properties(keywords);
        for (key, segment) in WITH_A_SCHEMA {
            let (before, after) = keywords.both(key);
            let place = below(keywords.place, segment);
            self.open(before.unwrap_or(&ANYTHING), after.unwrap_or(&ANYTHING), place);
        }
        self.compare_patterns(keywords);
        self.compare_first_items(keywords);
        let contains = below(keywords.place, "[contains]");
        match keywords.both("contains") {
            (None, None) => {}
            (None, Some(_)) => {
                self.note(Difference::Narrower, &contains, "some item must match a schema now")
            }
            (Some(_), None) => {
                self.note(Difference::Wider, &contains, "no item needs to match a schema any more")
            }
            (Some(before), Some(after)) => {
                let has_most =
                    [keywords.old, keywords.new].into_iter().any(|part| part.contains_key("maxContains"));
                if has_most && !self.is_same(before, after) {
                    self.note(
                        Difference::Undecided,
                        &contains,
                        "it differs, and only so many items may match",
                    );
                }
                self.open(before, after, contains);
            }
        }
    }

    fn compare_required(&mut self, keywords: &Keywords<'a, '_>) {
        let (before, after) = (required(keywords.old), required(keywords.new));
        for name in after.difference(&before) {
            let was_there = properties(keywords.old).is_some_and(|properties| properties.contains_key(*name));
            let text = if was_there { "it is required now" } else { "it is new and required" };
            self.note(Difference::Narrower, &member(keywords.place, name), text);
        }
        for name in before.difference(&after) {
            // One that is gone altogether is told of by itself.
            let is_gone = |keywords: &Keywords<'_, '_>| {
                let has = |part| properties(part).is_some_and(|properties| properties.contains_key(*name));
                has(keywords.old) && !has(keywords.new)
            };
            if !is_gone(keywords) {
                self.note(Difference::Looser, &member(keywords.place, name), "it is not required any more");
            }
        }
    }

    fn compare_properties(&mut self, keywords: &Keywords<'a, '_>) {
        let nothing = Map::new();
        let before = properties(keywords.old);
        let after = properties(keywords.new);
        let newly_required: BTreeSet<&str> =
            required(keywords.new).difference(&required(keywords.old)).copied().collect();
        for (name, older) in before.into_iter().flatten() {
            let place = member(keywords.place, name);
            match after.and_then(|after| after.get(name)) {
                Some(newer) => self.open(older, newer, place),
                None => self.note_removed(keywords, &place),
            }
        }
        for (name, newer) in after.into_iter().flatten() {
            if before.unwrap_or(&nothing).contains_key(name) {
                continue;
            }
            let place = member(keywords.place, name);
            if required(keywords.old).contains(name.as_str()) {
                // It had to be there before, whatever it was.
                self.open(&ANYTHING, newer, place);
            } else if !newly_required.contains(name.as_str()) {
                self.note(Difference::Described, &place, "it is new and optional");
            }
        }
    }

    fn note_removed(&mut self, keywords: &Keywords<'a, '_>, place: &str) {
        let refuses = |key: &str| keywords.new.get(key) == Some(&Value::Bool(false));
        if self.side == Side::Output {
            self.note(Difference::Undescribed, place, "it is gone");
        } else if keywords.new.contains_key("patternProperties") {
            self.note(
                Difference::Undecided,
                place,
                "it is gone, though the patterns of other members may cover it",
            );
        } else if refuses("additionalProperties") || refuses("unevaluatedProperties") {
            self.note(
                Difference::Narrower,
                place,
                "it is gone, and members that are not described are refused",
            );
        } else if keywords.new.get("additionalProperties").is_some_and(Value::is_object) {
            self.note(
                Difference::Undecided,
                place,
                "it is gone, and what holds for members that are not described counts",
            );
        } else {
            self.note(
                Difference::Undescribed,
                place,
                "it is gone; whoever sends it is not refused, but it may do nothing",
            );
        }
    }

    fn compare_patterns(&mut self, keywords: &Keywords<'a, '_>) {
        let patterns =
            |part: &'a Map<String, Value>| part.get("patternProperties").and_then(Value::as_object);
        let (before, after) = (patterns(keywords.old), patterns(keywords.new));
        let refuses_others =
            |part: &Map<String, Value>| part.get("additionalProperties") == Some(&Value::Bool(false));
        for (pattern, older) in before.into_iter().flatten() {
            let place = member(keywords.place, pattern);
            match after.and_then(|after| after.get(pattern)) {
                Some(newer) => self.open(older, newer, place),
                None => {
                    let difference = match keywords.new.get("additionalProperties") {
                        None | Some(Value::Bool(true)) => Difference::Undescribed,
                        Some(Value::Bool(false)) => Difference::Narrower,
                        Some(_) => Difference::Undecided,
                    };
                    self.note(
                        difference,
                        &place,
                        "members of names that match this pattern are no longer described",
                    );
                }
            }
        }
        for pattern in after.into_iter().flatten().map(|(pattern, _)| pattern) {
            if !before.is_some_and(|before| before.contains_key(pattern)) {
                let difference = match (refuses_others(keywords.old), keywords.old.contains_key("properties"))
                {
                    (true, false) => Difference::Wider,
                    (true, true) => Difference::Other,
                    (false, _) => Difference::Narrower,
                };
                let text = "members of names that match this pattern must match a schema";
                self.note(difference, &member(keywords.place, pattern), text);
            }
        }
    }

    /// `prefixItems`; what has no schema of its own there has that of `items`.
    fn compare_first_items(&mut self, keywords: &Keywords<'a, '_>) {
        let items = |part: &'a Map<String, Value>| match part.get("prefixItems") {
            Some(Value::Array(items)) => items.as_slice(),
            _ => &[],
        };
        let others = |part: &'a Map<String, Value>| part.get("items").unwrap_or(&ANYTHING);
        let (before, after) = (items(keywords.old), items(keywords.new));
        for index in 0..before.len().max(after.len()) {
            let older = before.get(index).unwrap_or_else(|| others(keywords.old));
            let newer = after.get(index).unwrap_or_else(|| others(keywords.new));
            self.open(older, newer, below(keywords.place, &format!("[{index}]")));
        }
    }
}

fn properties(part: &Map<String, Value>) -> Option<&Map<String, Value>> {
    part.get("properties").and_then(Value::as_object)
}

fn required(part: &Map<String, Value>) -> BTreeSet<&str> {
    part.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The place of a member.
fn member(place: &str, name: &str) -> String {
    let is_plain = !name.is_empty()
        && name.len() <= NAME_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_plain {
        below(place, &format!(".{name}"))
    } else {
        below(place, &format!(".{}", quoted(&printable(name, NAME_BYTES))))
    }
}
