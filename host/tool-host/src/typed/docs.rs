//! What a component's authors wrote above its functions and types: the custom section `package-docs`.
//!
//! The binary format has no place for documentation, so WIT tools keep it as JSON in a custom section of the
//! outermost component, keyed by the names of worlds, interfaces, functions and types. Linkers do not write
//! it by themselves; tools such as `wit-docs-inject` add it afterwards. The text is a stranger's: the section
//! and each text are bounded, what cannot be seen is taken out, and a section that cannot be read is the same
//! as none.
//!
//! Types have lost their names by the time a component is loaded, and equal types are one. So [`TypeDocs`]
//! finds a type by what it is made of, and knows nothing of types that are made alike and described
//! differently.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use json_schema::MemoryBudget;
use json_schema::text_sanitizer::visible;
use serde_json::Value;
use wasmparser::{Parser, Payload};

use super::names;
use super::wit_type::WitType;

/// Longest section that is read. It takes some ten times that in memory while a component is loaded.
const SECTION_BYTES: usize = 256 << 10;

/// Most worlds of a package that are looked at. Each type of the component is looked up in all of them.
const WORLDS: usize = 16;

/// Longest description of a function or an interface, and of anything else, in bytes.
const FUNCTION_BYTES: usize = 2 << 10;
const ITEM_BYTES: usize = 512;

#[derive(Debug, Default)]
pub(super) struct PackageDocs {
    root: Value,
}

impl PackageDocs {
    /// Reads what a component carries. What cannot be read is nothing.
    pub(super) fn read(component: &[u8]) -> Self {
        let root = section(component).and_then(parse).unwrap_or_default();
        Self { root }
    }

    /// What is said of a function of an exported instance, or of the world.
    pub(super) fn function(&self, instance: Option<&str>, function: &str) -> Option<String> {
        let found = match instance {
            Some(instance) => {
                unanimous(self.interfaces(instance).filter_map(|found| found.get("funcs")?.get(function)))
            }
            None => unanimous(
                self.worlds()
                    .flat_map(|world| ["func_exports", "funcs"].map(|key| world.get(key)?.get(function)))
                    .flatten(),
            ),
        }?;
        // The first version of the section had the text in the place of the object.
        cut(found.get("docs").unwrap_or(found), FUNCTION_BYTES)
    }

    /// What is said of an interface.
    pub(super) fn interface(&self, instance: &str) -> Option<String> {
        cut(unanimous(self.interfaces(instance).filter_map(|found| found.get("docs")))?, FUNCTION_BYTES)
    }

    /// What is said of the world that the component was built for, if only one world is described.
    pub(super) fn world(&self) -> Option<String> {
        cut(unanimous(self.worlds().filter_map(|world| world.get("docs")))?, FUNCTION_BYTES)
    }

    /// What is said of a type of an instance, or of the world, and of its fields or cases.
    pub(super) fn named_type(&self, instance: Option<&str>, name: &str) -> Option<TypeDoc> {
        let found = match instance {
            Some(instance) => {
                unanimous(self.interfaces(instance).filter_map(|found| found.get("types")?.get(name)))
            }
            None => unanimous(self.worlds().filter_map(|world| world.get("types")?.get(name))),
        }?;
        let items = found.get("items").and_then(Value::as_object).into_iter().flatten();
        let doc = TypeDoc {
            text: found.get("docs").and_then(|text| cut(text, ITEM_BYTES)),
            items: items.filter_map(|(name, text)| Some((name.clone(), cut(text, ITEM_BYTES)?))).collect(),
        };
        (doc != TypeDoc::default()).then_some(doc)
    }

    fn worlds(&self) -> impl Iterator<Item = &Value> {
        let worlds = self.root.get("worlds").and_then(Value::as_object);
        worlds.into_iter().flat_map(|worlds| worlds.values()).take(WORLDS)
    }

    /// What is described under the name of an instance: an interface of the package, or one that stands in a
    /// world.
    fn interfaces<'a>(&'a self, instance: &'a str) -> impl Iterator<Item = &'a Value> {
        let is_inline = !instance.contains('/');
        let named =
            (!is_inline).then(|| self.root.get("interfaces")?.get(names::interface(instance))).flatten();
        let inline = self
            .worlds()
            .flat_map(|world| ["interface_exports", "interfaces"].map(|key| world.get(key)))
            .filter_map(move |interfaces| if is_inline { interfaces?.get(instance) } else { None });
        named.into_iter().chain(inline)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TypeDoc {
    text: Option<String>,
    items: BTreeMap<String, String>,
}

impl TypeDoc {
    /// Of the type itself.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Of a field or a case.
    pub(super) fn item(&self, name: &str) -> Option<&str> {
        self.items.get(name).map(String::as_str)
    }
}

/// What is said of types, by what they are made of.
#[derive(Debug, Default)]
pub(super) struct TypeDocs {
    /// Nothing where two types that are made alike are described differently.
    known: HashMap<WitType, Option<TypeDoc>>,
}

impl TypeDocs {
    /// Adds what is said of a type that has fields or cases of its own. Of others, such as `string`, every
    /// use would be described by whichever name was given to them somewhere.
    pub(super) fn add(&mut self, ty: WitType, doc: TypeDoc) {
        if !matches!(ty, WitType::Record(_) | WitType::Variant(_) | WitType::Enum(_) | WitType::Flags(_)) {
            return;
        }
        match self.known.entry(ty) {
            Entry::Vacant(place) => {
                place.insert(Some(doc));
            }
            Entry::Occupied(mut known) if known.get().as_ref() != Some(&doc) => {
                known.insert(None);
            }
            Entry::Occupied(_) => {}
        }
    }

    pub(super) fn of(&self, ty: &WitType) -> Option<&TypeDoc> {
        self.known.get(ty)?.as_ref()
    }
}

/// The section of the outermost component: those of what is composed into it are about other packages.
fn section(component: &[u8]) -> Option<&[u8]> {
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(component) {
        match payload.ok()? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) if depth == 0 && section.name() == "package-docs" => {
                return Some(section.data());
            }
            _ => {}
        }
    }
    None
}

/// A byte for the version, then JSON. serde_json reads it to a depth of 128.
fn parse(section: &[u8]) -> Option<Value> {
    match section.split_first()? {
        (0 | 1, json) if json.len() <= SECTION_BYTES => MemoryBudget::default().read(json).ok(),
        _ => None,
    }
}

/// What all agree on who say something: several worlds of a package may export things of one name, and the
/// component does not say which of them it was built for.
fn unanimous<'a>(mut found: impl Iterator<Item = &'a Value>) -> Option<&'a Value> {
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// A text without what cannot be seen, and not too long; nothing where it is empty.
fn cut(text: &Value, most: usize) -> Option<String> {
    let text = visible(text.as_str()?);
    let text = text.trim();
    if text.len() <= most {
        return (!text.is_empty()).then(|| text.to_owned());
    }
    let kept = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    Some(format!("{}…", kept.trim_end()))
}
