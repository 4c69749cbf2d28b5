//! Types of schemas: which are said, and which follow from other keywords.

use std::collections::HashSet;

use json_schema::syntax::Keywords;
use serde_json::{Map, Value, json};

/// All types, in the order in which they are written.
const ALL: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// The longest list of alternatives, or of values of an `enum`. A longer one is not cut, which would forbid
/// the rest, but left out.
pub(super) const MOST_CHOICES: usize = 250;

/// The most bytes of an `enum` as text.
const MOST_ENUM_BYTES: usize = 4 << 10;

/// The longest property name that Anthropic takes.
const LONGEST_NAME: usize = 64;

/// The types that a value may have; never none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Types(Vec<&'static str>);

impl Types {
    /// The types of a part: those it names, else the one its keywords are about, else all.
    pub(super) fn of(keywords: Keywords<'_>, optional: bool) -> Self {
        let named = keywords.types().unwrap_or_default();
        let mut types: Vec<_> = ALL.into_iter().filter(|known| named.contains(known)).collect();
        // One that is not known may mean anything.
        if types.is_empty() || types.len() < named.len() && named.iter().any(|name| !ALL.contains(name)) {
            match keywords.told_type() {
                Some(told) if named.is_empty() => types = vec![told],
                _ => return Self::any(optional),
            }
        }
        if types.contains(&"number") {
            types.retain(|name| *name != "integer");
        }
        Self(types).without_null_if(optional)
    }

    /// Every type.
    pub(super) fn any(optional: bool) -> Self {
        Self(ALL.into_iter().filter(|name| *name != "integer").collect()).without_null_if(optional)
    }

    fn without_null_if(mut self, optional: bool) -> Self {
        if optional && self.0.len() > 1 {
            self.0.retain(|name| *name != "null");
        }
        self
    }

    /// The one type, if there is only one.
    pub(super) fn only(&self) -> Option<&'static str> {
        match self.0.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// All but one.
    pub(super) fn without(&self, name: &str) -> Self {
        Self(self.0.iter().copied().filter(|other| *other != name).collect())
    }

    /// Whether values of this type are allowed.
    pub(super) fn allow(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    /// The value of `type`.
    pub(super) fn render(&self) -> Value {
        match self.only() {
            Some(one) => one.into(),
            None => self.0.clone().into(),
        }
    }
}

/// Whether a form allows any value.
pub(super) fn is_anything(form: &Value) -> bool {
    let types = form.get("type").and_then(Value::as_array);
    types.is_some_and(|types| types.iter().filter(|name| **name != "null").count() == ALL.len() - 2)
}

/// A part with a list of values, `const` included.
pub(super) fn enumeration(keywords: Keywords<'_>, optional: bool) -> Option<Value> {
    let mut values = keywords.choices()?;
    if optional && values.iter().any(|value| !value.is_null()) {
        values.retain(|value| !value.is_null());
    }
    render_values(values)
}

/// Several lists of values as one, if all forms are such lists.
pub(super) fn merged_enumeration(forms: &[Value]) -> Option<Value> {
    if forms.len() < 2 {
        return None;
    }
    let (mut values, mut texts) = (Vec::new(), Vec::new());
    for form in forms {
        let listed = form.get("enum")?.as_array()?;
        if let (Some(text), [value]) = (form.get("description").and_then(Value::as_str), listed.as_slice()) {
            texts
                .push(format!("{}: {text}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
        let new = listed.iter().filter(|value| !values.contains(value));
        values.extend(new.collect::<Vec<_>>());
        if values.len() > MOST_CHOICES {
            return None;
        }
    }
    let mut form = render_values(values)?;
    if !texts.is_empty() {
        form["description"] = texts.join("; ").into();
    }
    Some(form)
}

fn render_values(listed: Vec<&Value>) -> Option<Value> {
    if !(1..=MOST_CHOICES).contains(&listed.len()) {
        return None;
    }
    let mut values: Vec<&Value> = Vec::new();
    for value in listed {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    if values.iter().map(|value| value.to_string().len()).sum::<usize>() > MOST_ENUM_BYTES {
        return None;
    }
    let mut types: Vec<_> =
        ALL.into_iter().filter(|name| values.iter().any(|value| is_a(value, name))).collect();
    if types.contains(&"number") {
        types.retain(|name| *name != "integer");
    }
    let mut form = Map::new();
    // Where objects or arrays are among the values, a type would ask for their parts.
    if !types.contains(&"object") && !types.contains(&"array") {
        form.insert("type".into(), Types(types).render());
    }
    form.insert("enum".into(), json!(values));
    Some(Value::Object(form))
}

fn is_a(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => name == if number.is_f64() { "number" } else { "integer" },
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

/// The properties that must be there, each once.
pub(super) fn required(keywords: Keywords<'_>) -> Vec<&str> {
    let mut names = HashSet::new();
    keywords.required().filter(|name| names.insert(*name)).collect()
}

/// Whether every provider takes this as the name of a property.
pub(super) fn is_portable_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(fits)
}
