//! The syntax of JSON Schema, the dialect 2020-12: a schema as its keywords, each of which is read here.
//!
//! The tree is the JSON itself, and what is here are views of it. So nothing of a schema is lost (keywords
//! that are unknown or wrong stay what they are), reading takes no memory, and a part has one address however
//! often references lead to it. Validating (`validation`), comparing, making portable, generating and linting
//! are walks over it. Each bounds how many parts it visits, because references make a short schema a large
//! one or an endless one.
//!
//! The views are lenient: a keyword of another form than it should have says nothing. Only `validation`
//! refuses it.

use std::collections::HashSet;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Number, Value, json};

use crate::number::Exact;

/// References to references, and combinations within combinations, are followed so far.
const MOST_STEPS: u32 = 8;

/// So many names in a schema count as one more schema that is read.
const NAMES_OF_A_PART: usize = 64;

/// Keywords that only mean something for values of one type.
const TELLING: [(&str, &[&str]); 4] = [
    ("object", &["properties", "required", "additionalProperties", "patternProperties"]),
    ("array", &["items", "prefixItems", "minItems", "maxItems", "uniqueItems"]),
    ("string", &["pattern", "minLength", "maxLength"]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];

/// A whole schema: what references within it lead to.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a>(pub &'a Value);

/// What stands where a schema may.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// `false`: no value matches.
    Never,
    /// Keywords that must all hold; `true` has none.
    Keywords(Keywords<'a>),
}

/// The keywords of a part.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keywords<'a>(Option<&'a Map<String, Value>>);

impl<'a> Document<'a> {
    /// The part that a reference names, if it is one of this document. Pointers are taken as they are
    /// written, and then as a URI's fragment, in which anything may be percent-encoded.
    pub fn target(self, reference: &str) -> Option<&'a Value> {
        let pointer = reference.strip_prefix('#')?;
        self.0.pointer(pointer).or_else(|| self.0.pointer(&percent_decode_str(pointer).decode_utf8().ok()?))
    }

    /// What a part's reference leads to, or the part itself.
    pub fn resolve(self, part: &'a Value) -> &'a Value {
        let mut found = part;
        for _ in 0..MOST_STEPS {
            let target = Keywords::of(found).text("$ref").and_then(|reference| self.target(reference));
            let Some(target) = target else { break };
            found = target;
        }
        found
    }

    /// A part's keywords with its references followed and its `allOf` taken together. Each schema that is
    /// read for that is taken off `left`, a long one several times, and nothing is added when none is left.
    /// What is no object of keywords says nothing.
    pub fn combined(self, part: &Value, left: &mut usize) -> Map<String, Value> {
        let mut all = Map::new();
        self.combine(&mut all, part, left, MOST_STEPS);
        all
    }

    /// Adds the keywords of one more schema that holds at the same time. Of two that differ the first stays:
    /// all of them hold, so whichever stays allows no less.
    fn combine(self, all: &mut Map<String, Value>, part: &Value, left: &mut usize, steps: u32) {
        let keywords = Keywords::of(part);
        *left = left.saturating_sub(1 + names_read(keywords, all) / NAMES_OF_A_PART);
        let Value::Object(map) = part else { return };
        if *left == 0 || steps == 0 {
            return;
        }
        for (key, value) in map {
            match key.as_str() {
                "$ref" | "allOf" | "$defs" | "definitions" => {}
                "properties" => add_properties(all, value),
                "required" => add_required(all, value),
                _ => {
                    all.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        let target = keywords.text("$ref").and_then(|reference| self.target(reference));
        for part in target.into_iter().chain(keywords.list("allOf")) {
            self.combine(all, part, left, steps - 1);
        }
    }
}

/// How many names are gone through when these keywords are added to `all`: the keywords, the names in their
/// lists, and those that are required already, because new ones are held against them.
fn names_read(new: Keywords<'_>, all: &Map<String, Value>) -> usize {
    let known = if new.has(&["required"]) { Keywords::from(all).list("required").len() } else { 0 };
    let own = new.0.map_or(0, Map::len) + new.members("properties").map_or(0, Map::len);
    own + new.list("required").len() + known
}

/// Adds named parts to the properties of combined keywords, as far as the names are new.
pub fn add_properties(all: &mut Map<String, Value>, value: &Value) {
    let Value::Object(more) = value else { return };
    if let Value::Object(known) = all.entry("properties").or_insert_with(|| json!({})) {
        for (name, part) in more {
            known.entry(name.clone()).or_insert_with(|| part.clone());
        }
    }
}

/// Adds names to those that combined keywords require.
pub fn add_required(all: &mut Map<String, Value>, value: &Value) {
    let Value::Array(more) = value else { return };
    if let Value::Array(known) = all.entry("required").or_insert_with(|| json!([])) {
        let new: Vec<_> = {
            let names: HashSet<&Value> = known.iter().collect();
            more.iter().filter(|name| !names.contains(name)).cloned().collect()
        };
        known.extend(new);
    }
}

impl<'a> Part<'a> {
    /// Nothing when it is no schema.
    pub fn of(part: &'a Value) -> Option<Self> {
        match part {
            Value::Bool(false) => Some(Self::Never),
            Value::Bool(true) => Some(Self::Keywords(Keywords::default())),
            Value::Object(map) => Some(Self::Keywords(map.into())),
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        }
    }
}

impl<'a> From<&'a Map<String, Value>> for Keywords<'a> {
    fn from(map: &'a Map<String, Value>) -> Self {
        Self(Some(map))
    }
}

impl<'a> Keywords<'a> {
    /// Those of a part; none where it is no object.
    pub fn of(part: &'a Value) -> Self {
        Self(part.as_object())
    }

    /// All of them, unknown ones too, by name.
    pub fn iter(self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.0.into_iter().flatten()
    }

    pub fn get(self, key: &str) -> Option<&'a Value> {
        self.0?.get(key)
    }

    /// Whether one of these is there, whatever it says.
    pub fn has(self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.get(key).is_some())
    }

    /// Whether a keyword is `true` or `false`, as asked.
    pub fn is(self, key: &str, flag: bool) -> bool {
        self.get(key) == Some(&Value::Bool(flag))
    }

    pub fn text(self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    pub fn number(self, key: &str) -> Option<&'a Number> {
        self.get(key)?.as_number()
    }

    /// A keyword that is a list; empty where it is none.
    pub fn list(self, key: &str) -> &'a [Value] {
        self.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// A keyword that is an object, such as one of named parts.
    pub fn members(self, key: &str) -> Option<&'a Map<String, Value>> {
        self.get(key)?.as_object()
    }

    pub fn property(self, name: &str) -> Option<&'a Value> {
        self.members("properties")?.get(name)
    }

    /// The names of the members that must be there.
    pub fn required(self) -> impl Iterator<Item = &'a str> {
        self.list("required").iter().filter_map(Value::as_str)
    }

    /// The types that `type` names, known or not; nothing when it is not there.
    pub fn types(self) -> Option<Vec<&'a str>> {
        Some(match self.get("type")? {
            Value::String(name) => vec![name],
            several => several.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
        })
    }

    /// The type that the keywords are about, whether or not `type` names it.
    pub fn told_type(self) -> Option<&'static str> {
        TELLING.into_iter().find(|(_, telling)| self.has(telling)).map(|(told, _)| told)
    }

    /// The only values that match, by `const` and `enum`.
    pub fn choices(self) -> Option<Vec<&'a Value>> {
        let listed = self.get("enum").and_then(Value::as_array);
        match (self.get("const"), listed) {
            (None, None) => None,
            (None, Some(listed)) => Some(listed.iter().collect()),
            (Some(only), None) => Some(vec![only]),
            (Some(only), Some(listed)) => {
                Some(if listed.iter().any(|one| is_same(one, only)) { vec![only] } else { vec![] })
            }
        }
    }
}

/// Whether two values are the same, as `1` and `1.0` are.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => Exact::of(one) == Exact::of(other),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_to_parts_of_the_same_document() {
        let root = json!({"$defs": {"a b": {"$ref": "#/$defs/a%25b"}, "a%b": {"type": "null"}, "c": {"$ref": "#/$defs/c"}}});
        let document = Document(&root);
        let null = &json!({"type": "null"});
        assert_eq!(document.target("#/$defs/a%b"), Some(null));
        assert_eq!(document.resolve(&json!({"$ref": "#/$defs/a%20b"})), null);
        assert_eq!(document.target("#"), Some(&root));
        for reference in ["#/nowhere", "#c", "/$defs/c", "http://h/s#/$defs/c", "#/$defs/%"] {
            assert_eq!(document.target(reference), None, "{reference}");
        }
        let circle = &json!({"$ref": "#/$defs/c"});
        assert_eq!(document.resolve(circle), circle);
    }

    #[test]
    fn what_holds_together_is_one_set_of_keywords() {
        let root = json!({
            "allOf": [{"$ref": "#/$defs/a"}, {"minimum": 2, "properties": {"p": {}, "q": {"const": 1}}, "required": ["q", "p"]}],
            "properties": {"p": {"const": 0}}, "required": ["p"],
            "$defs": {"a": {"minimum": 1, "maximum": 3, "required": true}},
        });
        let all = Document(&root).combined(&root, &mut 10);
        let expected = json!({"minimum": 1, "maximum": 3, "properties": {"p": {"const": 0}, "q": {"const": 1}}, "required": ["p", "q"]});
        assert_eq!(Value::Object(all), expected);
        let names: Vec<_> = (0..640).map(|n| n.to_string()).collect();
        let long = json!({"required": names});
        let mut left = 100;
        let all = Document(&long).combined(&json!({"allOf": [{"$ref": "#"}, {}]}), &mut left);
        assert_eq!((Value::Object(all), left), (long.clone(), 100 - 3 - 11));
        // New names are held against those that are there.
        let mut left = 100;
        Document(&long).combined(&json!({"allOf": [{"$ref": "#"}, {"required": []}]}), &mut left);
        assert_eq!(left, 100 - 3 - 10 - 11);
        let keywords: Map<_, _> = (0..640).map(|n| (format!("x-{n}"), json!(n))).collect();
        let mut left = 100;
        Document(&json!({ "long": keywords })).combined(&json!({"$ref": "#/long"}), &mut left);
        assert_eq!(left, 100 - 1 - 11);
        let endless = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]});
        let mut left = 20;
        assert_eq!(Document(&endless).combined(&endless, &mut left), Map::new());
        assert_eq!(left, 0);
    }

    #[test]
    fn a_keyword_of_another_form_says_nothing() {
        let part = json!({"type": 5, "required": ["a", 1], "enum": [1], "const": 1.0, "items": [], "properties": true});
        let keywords = Keywords::of(&part);
        assert_eq!(keywords.types(), Some(vec![]));
        assert_eq!(keywords.required().collect::<Vec<_>>(), ["a"]);
        assert_eq!(keywords.choices(), Some(vec![&json!(1.0)]));
        assert_eq!((keywords.members("items"), keywords.property("a")), (None, None));
        assert_eq!((keywords.told_type(), Keywords::default().types()), (Some("object"), None));
        assert_eq!(Keywords::of(&json!({"enum": [2], "const": 1})).choices(), Some(vec![]));
    }
}
