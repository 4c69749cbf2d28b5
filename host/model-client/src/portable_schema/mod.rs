//! JSON Schemas of tools, normalised for providers: one conservative form that every server takes.
//!
//! A schema that one server refuses costs every request to it, whatever is asked, so nothing is sent that any
//! of them is known to refuse. What each refuses, from its source or its error texts:
//!
//! | server | refuses |
//! |---|---|
//! | llama.cpp (`json-schema-to-grammar.cpp`, issues 19716, 25746, 27087) | a part with a description and no type ("Unrecognized schema"), boolean schemas, unknown types, a `pattern` without `^…$` or with syntax beyond its own, lengths and counts above about 2,000 also when multiplied, references that are not local; `{}` is taken for an object, siblings of `anyOf` are ignored |
//! | OpenAI, Azure | a root that is not `type: object`, `anyOf`, `oneOf`, `allOf`, `enum` or `not` at the root, an object without `properties`, an array without `items`, `items` that are a list, `exclusiveMinimum: true` and other forms of old drafts, more than 128 tools, a description above 1,024 characters |
//! | Anthropic | a root that is not `type: object`, `anyOf`, `oneOf` or `allOf` at the root, `$ref`, property names other than `[a-zA-Z0-9_.-]{1,64}` |
//! | Ollama (`api/types.go`, Go structs) | a property that is not an object, a description or root type that is no string, an `enum` that is no list; all keywords it has no field for are lost |
//! | vLLM with xgrammar | `minItems` (0.8.4), `multipleOf`, `uniqueItems`, `contains`, `patternProperties`, `propertyNames`, unknown formats |
//!
//! The form allows all that the tool's own schema does, and often more: servers that generate by a grammar
//! could not write an argument that it forbids. (A part without a type is taken for what its keywords are
//! about: one with `properties` for an object.) What a keyword said that is left out goes into the
//! description in words where it is short. Arguments are held against the tool's own schema by the tool host,
//! not here.

mod bounds;
mod combine;
mod descriptions;
#[cfg(test)]
mod server_checks;
#[cfg(test)]
mod tests;
mod types;

use std::collections::HashSet;

pub(crate) use descriptions::cut;

use json_schema::syntax::{Document, Keywords};
use serde_json::{Map, Value, json};

use combine::Reader;
use types::{MOST_CHOICES, Types};

/// The longest normalised schema, in bytes. It is part of every model call.
const MOST_BYTES: usize = 16 << 10;

/// The most parts that one schema is read as, references followed.
const MOST_PARTS: usize = 2_000;

/// The most parts that the schemas of one caller's functions are read as: each user may bring other ones with
/// each request, and whoever reads them serves others beside.
pub(crate) const MOST_PARTS_OF_A_CALLER: usize = 4 * MOST_PARTS;

/// How deep a schema is rendered: as deep as it fits. Below that only types are left.
const LEVELS: [u32; 4] = [12, 6, 3, 1];

/// A longer default is left out.
const MOST_DEFAULT_BYTES: usize = 64;

/// The normalised form of the schema of a tool's arguments. The parts that are read for it are taken off
/// `left`; where too few are left it is an object of any properties.
pub(crate) fn portable(schema: &Value, left: &mut usize) -> Value {
    for levels in LEVELS {
        let most = MOST_PARTS.min(*left);
        let mut reader = Reader { document: Document(schema), left: most };
        let form = reader.root(levels);
        *left -= most - reader.left;
        if reader.left > 0 && form.to_string().len() <= MOST_BYTES {
            return form;
        }
    }
    free_form()
}

/// Where a part stands, as far as that matters to its form.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// How many levels of it are rendered.
    levels: u32,
    /// The value may be left out, so that `null` need not be allowed: a model leaves out what it does not
    /// want to say.
    optional: bool,
}

impl Reader<'_> {
    /// Arguments are an object, and combinations of alternatives become one list of properties.
    fn root(&mut self, levels: u32) -> Value {
        let mut keywords = self.combined(self.document.0);
        combine::fold_alternatives(self, &mut keywords);
        self.object(Keywords::from(&keywords), levels, true)
    }

    /// Any other part.
    fn part(&mut self, schema: &Value, place: Place) -> Value {
        let mut keywords = self.combined(schema);
        if keywords.contains_key("properties") {
            combine::fold_alternatives(self, &mut keywords);
        }
        let keywords = Keywords::from(&keywords);
        let form = match combine::alternatives(keywords) {
            Some(alternatives) if place.levels > 0 => self.one_of(keywords, alternatives, place),
            Some(_) => anything(place),
            None => self.typed(keywords, place),
        };
        described(form, keywords)
    }

    fn typed(&mut self, keywords: Keywords<'_>, place: Place) -> Value {
        if let Some(form) = types::enumeration(keywords, place.optional) {
            return form;
        }
        let types = Types::of(keywords, place.optional);
        match types.only() {
            Some("object") => return self.object(keywords, place.levels, false),
            Some("array") => return self.array(keywords, place.levels),
            _ => {}
        }
        if types.allow("object") && keywords.has(&["properties"]) && place.levels > 0 {
            let others = self.plain(keywords, &types.without("object"), place);
            return json!({ "anyOf": [self.object(keywords, place.levels, false), others] });
        }
        self.plain(keywords, &types, place)
    }

    /// A part of which nothing more is said than its types and their bounds.
    fn plain(&mut self, keywords: Keywords<'_>, types: &Types, place: Place) -> Value {
        let mut form = Map::from_iter([("type".to_owned(), types.render())]);
        if types.allow("array") {
            form.insert("items".into(), self.items(keywords, place.levels));
        }
        bounds::insert(&mut form, keywords, types);
        Value::Object(form)
    }

    fn object(&mut self, keywords: Keywords<'_>, levels: u32, is_root: bool) -> Value {
        let required = types::required(keywords);
        let needed: HashSet<&str> = required.iter().copied().collect();
        let mut properties = Map::new();
        let named = keywords.members("properties");
        if levels > 0 {
            for (name, schema) in named.into_iter().flatten() {
                let place = Place { levels: levels - 1, optional: !needed.contains(name.as_str()) };
                if types::is_portable_name(name) && *schema != Value::Bool(false) {
                    properties.insert(name.clone(), self.part(schema, place));
                }
            }
        }
        let is_left_out = |name: &String| !properties.contains_key(name);
        let hides_some = named.is_some_and(|named| named.keys().any(is_left_out));
        let additional = self.additional(keywords, levels, hides_some || (!is_root && named.is_none()));
        let required: Vec<_> = required.into_iter().filter(|name| properties.contains_key(*name)).collect();
        let mut form = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            form["required"] = json!(required);
        }
        if let Some(additional) = additional {
            form["additionalProperties"] = additional;
        }
        if is_root { described(form, keywords) } else { form }
    }

    /// Which properties there may be beside those with a name: absent for none. `open` says what holds when
    /// the schema does not.
    fn additional(&mut self, keywords: Keywords<'_>, levels: u32, open: bool) -> Option<Value> {
        let form = match keywords.get("additionalProperties") {
            Some(Value::Bool(false)) if !open || !keywords.has(&["properties"]) => return None,
            Some(schema @ Value::Object(_)) if levels > 0 && !open => {
                self.part(schema, Place { levels: levels - 1, optional: false })
            }
            Some(Value::Object(_) | Value::Bool(true)) => Value::Bool(true),
            _ if open || keywords.has(&["patternProperties"]) => Value::Bool(true),
            _ => return None,
        };
        Some(if types::is_anything(&form) { Value::Bool(true) } else { form })
    }

    fn array(&mut self, keywords: Keywords<'_>, levels: u32) -> Value {
        json!({ "type": "array", "items": self.items(keywords, levels) })
    }

    /// What an array holds: always said, and never a list of parts.
    fn items(&mut self, keywords: Keywords<'_>, levels: u32) -> Value {
        let place = Place { levels: levels.saturating_sub(1), optional: false };
        match keywords.get("items") {
            Some(schema @ Value::Object(_)) if levels > 0 && !keywords.has(&["prefixItems"]) => {
                self.part(schema, place)
            }
            _ => any_item(),
        }
    }

    /// One of several alternatives.
    fn one_of(&mut self, keywords: Keywords<'_>, alternatives: &[Value], place: Place) -> Value {
        let below = Place { levels: place.levels - 1, ..place };
        let mut forms: Vec<Value> = Vec::new();
        for alternative in alternatives {
            let form = self.part(&combine::beside(keywords, alternative), below);
            if types::is_anything(&form) {
                return anything(place);
            }
            let is_needless = place.optional && form.get("type") == Some(&json!("null"));
            if !is_needless && !forms.contains(&form) {
                forms.push(form);
            }
            if forms.len() > MOST_CHOICES {
                // Each further one would be held against all before it.
                return anything(place);
            }
        }
        if let Some(form) = types::merged_enumeration(&forms) {
            return form;
        }
        match forms.len() {
            0 => json!({ "type": "null" }),
            1 => forms.swap_remove(0),
            _ => json!({ "anyOf": forms }),
        }
    }
}

/// Adds the description, and in words what else a part says of its values.
fn described(mut form: Value, keywords: Keywords<'_>) -> Value {
    let own = form.get("description").and_then(Value::as_str);
    if let Some(text) = descriptions::description(keywords, own) {
        form["description"] = text.into();
    }
    let default = keywords.get("default").filter(|value| !value.is_null() && !value.is_object());
    if let Some(default) = default.filter(|value| value.to_string().len() <= MOST_DEFAULT_BYTES) {
        form["default"] = default.clone();
    }
    form
}

/// An object of any properties. Without `properties` OpenAI refuses it; without `additionalProperties`
/// llama.cpp would take it for an empty one.
fn free_form() -> Value {
    json!({ "type": "object", "properties": {}, "additionalProperties": true })
}

/// Any value. Without a type llama.cpp refuses it; without `items` OpenAI does.
fn anything(place: Place) -> Value {
    let types = Types::any(place.optional);
    json!({ "type": types.render(), "items": any_item() })
}

/// Any value but an array, or there would be no end of `items`.
fn any_item() -> Value {
    json!({ "type": ["string", "number", "boolean", "object", "null"] })
}
