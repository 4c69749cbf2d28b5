//! What keywords say of the members of objects and the items of arrays.

use std::collections::BTreeSet;

use json_schema::syntax::Keywords;
use json_schema::text_sanitizer::printable;
use serde_json::Value;

use super::{ANYTHING, Both, Difference, Side, Walk, below};
use crate::diff::findings::quoted;

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
    pub(super) fn compare_members(&mut self, both: &Both<'a, '_>) {
        self.compare_required(both);
        self.compare_properties(both);
        for (key, segment) in WITH_A_SCHEMA {
            let (before, after) = both.get(key);
            let place = below(both.place, segment);
            self.open(before.unwrap_or(&ANYTHING), after.unwrap_or(&ANYTHING), place);
        }
        self.compare_patterns(both);
        self.compare_first_items(both);
        let contains = below(both.place, "[contains]");
        match both.get("contains") {
            (None, None) => {}
            (None, Some(_)) => {
                self.note(Difference::Narrower, &contains, "some item must match a schema now")
            }
            (Some(_), None) => {
                self.note(Difference::Wider, &contains, "no item needs to match a schema any more")
            }
            (Some(before), Some(after)) => {
                let has_most = [both.old, both.new].into_iter().any(|part| part.has(&["maxContains"]));
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

    fn compare_required(&mut self, both: &Both<'a, '_>) {
        let (before, after) = (required(both.old), required(both.new));
        for name in after.difference(&before) {
            let was_there = both.old.property(name).is_some();
            let text = if was_there { "it is required now" } else { "it is new and required" };
            self.note(Difference::Narrower, &member(both.place, name), text);
        }
        for name in before.difference(&after) {
            // One that is gone altogether is told of by itself.
            let is_gone = both.old.property(name).is_some() && both.new.property(name).is_none();
            if !is_gone {
                self.note(Difference::Looser, &member(both.place, name), "it is not required any more");
            }
        }
    }

    fn compare_properties(&mut self, both: &Both<'a, '_>) {
        let properties = |part: Keywords<'a>| part.members("properties").into_iter().flatten();
        for (name, older) in properties(both.old) {
            let place = member(both.place, name);
            match both.new.property(name) {
                Some(newer) => self.open(older, newer, place),
                None => self.note_removed(both, &place),
            }
        }
        let (required_before, required_after) = (required(both.old), required(both.new));
        for (name, newer) in properties(both.new).filter(|(name, _)| both.old.property(name).is_none()) {
            let place = member(both.place, name);
            if required_before.contains(name.as_str()) {
                // The member had to be there before, whatever it was.
                self.open(&ANYTHING, newer, place);
            } else if !required_after.contains(name.as_str()) {
                self.note(Difference::Described, &place, "it is new and optional");
            }
        }
    }

    fn note_removed(&mut self, both: &Both<'a, '_>, place: &str) {
        let others = both.new.get("additionalProperties");
        let is_closed =
            ["additionalProperties", "unevaluatedProperties"].iter().any(|key| both.new.is(key, false));
        let (difference, text) = if self.side == Side::Output {
            (Difference::Undescribed, "it is gone")
        } else if both.new.has(&["patternProperties"]) {
            (Difference::Undecided, "it is gone, though the patterns of other members may cover it")
        } else if is_closed {
            (Difference::Narrower, "it is gone, and members that are not described are refused")
        } else if others.is_some_and(Value::is_object) {
            (Difference::Undecided, "it is gone, and what holds for members that are not described counts")
        } else {
            (Difference::Undescribed, "it is gone; whoever sends it is not refused, but it may do nothing")
        };
        self.note(difference, place, text);
    }

    fn compare_patterns(&mut self, both: &Both<'a, '_>) {
        let (before, after) = (both.old.members("patternProperties"), both.new.members("patternProperties"));
        for (pattern, older) in before.into_iter().flatten() {
            let place = member(both.place, pattern);
            match after.and_then(|after| after.get(pattern)) {
                Some(newer) => self.open(older, newer, place),
                None => {
                    let difference = match both.new.get("additionalProperties") {
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
                let difference =
                    match (both.old.is("additionalProperties", false), both.old.has(&["properties"])) {
                        (true, false) => Difference::Wider,
                        (true, true) => Difference::Other,
                        (false, _) => Difference::Narrower,
                    };
                let text = "members of names that match this pattern must match a schema";
                self.note(difference, &member(both.place, pattern), text);
            }
        }
    }

    /// `prefixItems`; what has no schema of its own there has that of `items`.
    fn compare_first_items(&mut self, both: &Both<'a, '_>) {
        let others = |part: Keywords<'a>| part.get("items").unwrap_or(&ANYTHING);
        let (before, after) = (both.old.list("prefixItems"), both.new.list("prefixItems"));
        for index in 0..before.len().max(after.len()) {
            let older = before.get(index).unwrap_or_else(|| others(both.old));
            let newer = after.get(index).unwrap_or_else(|| others(both.new));
            self.open(older, newer, below(both.place, &format!("[{index}]")));
        }
    }
}

fn required(part: Keywords<'_>) -> BTreeSet<&str> {
    part.required().collect()
}

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
