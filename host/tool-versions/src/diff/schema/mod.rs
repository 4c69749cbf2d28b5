//! What differs between two JSON Schemas: which values match one and not the other, as far as that can be
//! told from how they are written.
//!
//! Both are walked side by side, keyword by keyword. `values` compares what a keyword says of a value itself,
//! `members` what it says of the parts of objects and arrays, `branches` what it says by `allOf`, `anyOf` and
//! `oneOf`. References are followed, so a difference is named where it counts. What no comparison can decide
//! (`not`, `if`, another pattern) is said to be so, never passed over: schemas that differ always have a
//! finding.
//!
//! Schemas are a stranger's. The walk is a queue, not a recursion; no two parts are compared twice, however
//! references multiply them; and after so many parts it stops and takes the rest for the worst.

mod branches;
mod keyword;
mod members;
mod values;

use std::collections::{BTreeSet, HashSet, VecDeque};

use agent_core::words::Impact;
use json_schema::syntax::{Document, Keywords, Part};
use serde_json::Value;

use crate::diff::findings::{Findings, around_the_difference, quoted, shown};
use keyword::{ANNOTATED_BY_REFERENCE, COMPARED, UNDECIDABLE};

/// Most pairs of parts that are compared. A schema of 64 KiB has less than a third of this many parts.
const MOST_PAIRS: usize = 50_000;

/// A place is extended up to about this many bytes.
const PLACE_BYTES: usize = 240;

/// A schema that everything matches, for keywords that are left out.
static ANYTHING: Value = Value::Bool(true);

/// Whose values a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// What callers send, and what the model reads.
    Input,
    /// What callers get.
    Output,
}

/// What a difference means for the values that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// Fewer do.
    Narrower,
    /// More do.
    Wider,
    /// More do, among them some that lack what every one had.
    Looser,
    /// Some no longer do, and others do instead.
    Other,
    /// A member is described that was not. Callers that sent something else under this name are not thought
    /// of.
    Described,
    /// A member is no longer described.
    Undescribed,
    /// The difference in which values match cannot be told.
    Undecided,
    /// No value matches one and not the other: only a text differs.
    Text,
}

impl Difference {
    /// How grave it is, and why, in words that go on after the difference itself.
    fn consequence(self, side: Side) -> (Impact, &'static str) {
        match (side, self) {
            (Side::Input, Self::Narrower | Self::Other) => {
                (Impact::Breaking, ": arguments that were accepted are refused now")
            }
            (Side::Input, Self::Wider | Self::Looser | Self::Undescribed) => {
                (Impact::Review, ": what was accepted still is, but the model reads something else")
            }
            (Side::Input, Self::Described | Self::Text) => (Impact::Review, ": the model reads it"),
            (Side::Output, Self::Looser | Self::Other | Self::Undescribed) => {
                (Impact::Breaking, ": whoever reads the answers may not find what was always there")
            }
            (Side::Output, Self::Wider) => (Impact::Review, ": answers may be what they never were before"),
            (Side::Output, Self::Narrower | Self::Described | Self::Text) => (Impact::Safe, ""),
            (Side::Input | Side::Output, Self::Undecided) => {
                (Impact::Review, ": whether the same values match cannot be told from this, so read both")
            }
        }
    }
}

/// Compares two schemas that are not equal, the older one first. Every finding is at or below `place`.
pub(super) fn compare(old: &Value, new: &Value, side: Side, place: &str, findings: &mut Findings) {
    let before = findings.count();
    let mut walk = Walk {
        documents: (Document(old), Document(new)),
        side,
        has_references: has_key(old, "$ref") || has_key(new, "$ref"),
        definitions_differ: ["$defs", "definitions"].into_iter().any(|key| old.get(key) != new.get(key)),
        open: VecDeque::new(),
        compared: HashSet::new(),
        findings,
    };
    walk.open(old, new, place.to_owned());
    walk.run(place);
    for key in ["unevaluatedItems", "unevaluatedProperties"] {
        if has_key(old, key) || has_key(new, key) {
            walk.note(Difference::Undecided, place, format_args!("what {key} is about may differ"));
        }
    }
    if findings.count() == before {
        let impact = if side == Side::Input { Impact::Review } else { Impact::Safe };
        findings.note(impact, place, "it is written in another way, and the same values match");
    }
}

/// Two parts that stand at the same place.
#[derive(Debug, Clone)]
struct Pair<'a> {
    old: &'a Value,
    new: &'a Value,
    place: String,
}

/// Keywords of two parts that stand at the same place.
#[derive(Debug, Clone, Copy)]
struct Both<'a, 'p> {
    old: Keywords<'a>,
    new: Keywords<'a>,
    place: &'p str,
}

impl<'a> Both<'a, '_> {
    fn get(&self, key: &str) -> (Option<&'a Value>, Option<&'a Value>) {
        (self.old.get(key), self.new.get(key))
    }
}

struct Walk<'a, 'f> {
    documents: (Document<'a>, Document<'a>),
    side: Side,
    /// Whether equal parts may differ in what they refer to.
    has_references: bool,
    /// Whether parts that others refer to differ.
    definitions_differ: bool,
    open: VecDeque<Pair<'a>>,
    /// The pairs that were compared or will be, by their addresses.
    compared: HashSet<(usize, usize)>,
    findings: &'f mut Findings,
}

impl<'a> Walk<'a, '_> {
    fn run(&mut self, whole: &str) {
        while let Some(pair) = self.open.pop_front() {
            if self.compared.len() > MOST_PAIRS {
                let text = "it has too many parts to be compared, so it is taken for breaking: read both";
                self.findings.note(Impact::Breaking, whole, text);
                return;
            }
            if self.has_references || pair.old != pair.new {
                self.compare(&pair);
            }
        }
    }

    /// Has two parts compared later.
    fn open(&mut self, old: &'a Value, new: &'a Value, place: String) {
        let address = |part: &Value| std::ptr::from_ref(part).addr();
        if self.compared.insert((address(old), address(new))) {
            self.open.push_back(Pair { old, new, place });
        }
    }

    /// Whether two parts are equal, and what they refer to is.
    fn is_same(&self, old: &Value, new: &Value) -> bool {
        old == new && !(self.definitions_differ && has_key(old, "$ref"))
    }

    fn note(&mut self, difference: Difference, place: &str, text: impl std::fmt::Display) {
        let (impact, consequence) = difference.consequence(self.side);
        self.findings.note(impact, place, format_args!("{text}{consequence}"));
    }

    fn compare(&mut self, pair: &Pair<'a>) {
        let place = pair.place.as_str();
        let both = match (Part::of(pair.old), Part::of(pair.new)) {
            (Some(Part::Never), Some(Part::Never)) => return,
            (Some(Part::Never), _) => {
                return self.note(Difference::Wider, place, "no value matched, and some do now");
            }
            (_, Some(Part::Never)) => {
                return self.note(Difference::Narrower, place, "no value matches any more");
            }
            (Some(Part::Keywords(old)), Some(Part::Keywords(new))) => Both { old, new, place },
            _ if pair.old == pair.new => return,
            _ => {
                let text = format!("was {}, it is {}", shown(pair.old), shown(pair.new));
                return self.note(Difference::Undecided, place, text);
            }
        };
        self.compare_annotations(&both);
        if self.follow(pair, &both) || self.compare_with_alternatives(&both) {
            return;
        }
        self.compare_values(&both);
        self.compare_members(&both);
        self.compare_branches(&both);
        for key in UNDECIDABLE {
            match both.get(key) {
                (None, None) => {}
                (Some(before), Some(after)) if self.is_same(before, after) => {}
                _ => self.note(
                    Difference::Undecided,
                    place,
                    format_args!("{key} differs, or what it refers to"),
                ),
            }
        }
    }

    /// What a schema says that no value is held against.
    fn compare_annotations(&mut self, both: &Both<'a, '_>) {
        let keys: BTreeSet<&String> = both.old.iter().chain(both.new.iter()).map(|(key, _)| key).collect();
        for key in keys.into_iter().filter(|key| !is_compared(key)) {
            let name = quoted(key);
            let text = match both.get(key) {
                (Some(before), Some(after)) if before != after => match (before.as_str(), after.as_str()) {
                    (Some(before), Some(after)) => {
                        let (before, after) = around_the_difference(before, after);
                        format!("{name} was {}, it is {}", quoted(&before), quoted(&after))
                    }
                    _ => format!("{name} was {}, it is {}", shown(before), shown(after)),
                },
                (Some(before), None) => format!("{name} is gone, it was {}", shown(before)),
                (None, Some(after)) => format!("{name} is new: {}", shown(after)),
                (Some(_), Some(_)) | (None, None) => continue,
            };
            self.note(Difference::Text, both.place, text);
        }
    }

    /// Follows references. Returns whether that was all there is to compare.
    fn follow(&mut self, pair: &Pair<'a>, both: &Both<'a, '_>) -> bool {
        let (before, after) = both.get("$ref");
        let refers_only = |part: Keywords<'_>| {
            part.iter().all(|(key, _)| !is_compared(key) || ANNOTATED_BY_REFERENCE.contains(&key.as_str()))
        };
        let target = |document: Document<'a>, reference: &Value| document.target(reference.as_str()?);
        let old = before.map(|reference| target(self.documents.0, reference));
        let new = after.map(|reference| target(self.documents.1, reference));
        let (follows_old, follows_new) = match (old, new) {
            (None, None) => return false,
            (Some(Some(old)), Some(Some(new))) => {
                self.open(old, new, pair.place.clone());
                return false;
            }
            (Some(Some(old)), None) if refers_only(both.old) => (old, pair.new),
            (None, Some(Some(new))) if refers_only(both.new) => (pair.old, new),
            _ => {
                if before != after {
                    self.note(Difference::Undecided, both.place, "$ref differs");
                }
                return false;
            }
        };
        self.open(follows_old, follows_new, pair.place.clone());
        true
    }
}

/// Whether the keyword decides which values match, or only holds parts that others refer to.
fn is_compared(key: &str) -> bool {
    COMPARED.contains(&key) || UNDECIDABLE.contains(&key)
}

/// Whether an object within the schema has a member of this name.
fn has_key(schema: &Value, key: &str) -> bool {
    let mut open = vec![schema];
    while let Some(part) = open.pop() {
        match part {
            Value::Object(members) if members.contains_key(key) => return true,
            Value::Object(members) => open.extend(members.values()),
            Value::Array(items) => open.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

fn below(place: &str, segment: &str) -> String {
    if place.len() > PLACE_BYTES { place.to_owned() } else { format!("{place}{segment}") }
}
