//! From a schema's text to rules that can be run.
//!
//! The rules are a graph: each part of the schema is read once, and a `$ref` is an edge to what it refers to.
//! Whatever is too deep, too large with its references followed, or refers to itself is refused before
//! anything runs. Where a schema may refer to itself, each cycle has to lead to a part of the value: values
//! are finite, so that following it ends (`ends`). Every error says where in the schema it is.

mod ends;
mod location;
mod read;

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;

use serde_json::Value;

use super::pattern::Pattern;
use super::rules::{Id, Keyword, Members, Part, Rules};
use super::schema_budget::SchemaBudget;
use crate::brief::{PROBLEM_BYTES, brief};
use crate::number::Exact;
use crate::syntax::{self, Document, Keywords};
use crate::text_sanitizer::printable;
use ends::most_in_place;
use location::{At, wrong};
use read::{bounds, counts, list_of, object_of, text_of, texts_of, types, weigh_value};

/// Most parts of a schema when every reference is replaced by what it refers to.
const WEIGHT: u64 = 1_000;

/// Deepest nesting of schemas, each reference counting as a level. It bounds the stack of the recursive walks
/// over them.
const DEPTH: u32 = 64;

impl Rules {
    /// Reads a schema, or says what is wrong with it.
    pub(crate) fn compile(text: &Value, budget: &mut SchemaBudget) -> Result<Self, String> {
        let mut compiler = Compiler {
            document: Document(text),
            budget,
            parts: vec![],
            sizes: vec![],
            size: Size { weight: 0, height: 0 },
            known: HashMap::new(),
            depth: 0,
            recurs: false,
        };
        // The root may be referred to, and then refers to itself.
        compiler.known.insert("#", Known { id: 0, is_open: true });
        let root = compiler.schema(text, At::Root)?;
        let Size { weight, height } = compiler.size_of(root);
        if weight > WEIGHT {
            return Err(format!(
                "has {weight} parts with its references followed; it may have {WEIGHT}: leave out what the tool can check by itself"
            ));
        }
        if height > DEPTH {
            return Err(too_deep());
        }
        if compiler.recurs {
            let most = most_in_place(&compiler.parts);
            let most = most.ok_or("refers to itself without going on to a part of the value")?;
            if most > DEPTH {
                return Err(too_deep());
            }
        }
        Ok(Self::new(root, compiler.parts))
    }
}

fn too_deep() -> String {
    format!("is nested more than {DEPTH} levels deep with its references followed")
}

/// What a part comes to with all it refers to.
#[derive(Debug, Clone, Copy)]
struct Size {
    weight: u64,
    height: u32,
}

struct Compiler<'a, 'f> {
    document: Document<'a>,
    budget: &'f mut SchemaBudget,
    parts: Vec<Part>,
    sizes: Vec<Size>,
    /// What the part that is being read comes to so far.
    size: Size,
    /// What a reference comes to.
    known: HashMap<&'a str, Known>,
    depth: u32,
    /// Whether a part refers to itself.
    recurs: bool,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    id: Id,
    /// Whether its part is still being read.
    is_open: bool,
}

impl<'a> Compiler<'a, '_> {
    fn size_of(&self, id: Id) -> Size {
        self.sizes.get(id).copied().unwrap_or(Size { weight: 0, height: 0 })
    }

    fn schema(&mut self, text: &'a Value, at: At<'_>) -> Result<Id, String> {
        self.budget.fuel.spend(1).map_err(|_exhausted| "takes too long to prepare".to_owned())?;
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(too_deep());
        }
        // Every part is reached from the root, so there are no more of them than the whole may weigh.
        if self.parts.len() as u64 >= WEIGHT {
            return Err(format!("has more than {WEIGHT} parts: leave out what the tool can check by itself"));
        }
        let parent = mem::replace(&mut self.size, Size { weight: 1, height: 1 });
        // What is read below it may refer to it.
        let id = self.parts.len();
        self.parts.push(Part::Never);
        self.sizes.push(self.size);
        let part = match syntax::Part::of(text) {
            Some(syntax::Part::Never) => Part::Never,
            Some(syntax::Part::Keywords(members)) => self.keywords(members, at)?,
            None => return Err(wrong(&at, format!("is {}, not a schema", brief(text)))),
        };
        self.depth -= 1;
        let size = mem::replace(&mut self.size, parent);
        if let (Some(of_part), Some(of_size)) = (self.parts.get_mut(id), self.sizes.get_mut(id)) {
            (*of_part, *of_size) = (part, size);
        }
        Ok(id)
    }

    /// A part of a part: it adds to what its parent comes to.
    fn child(&mut self, text: &'a Value, at: At<'_>) -> Result<Id, String> {
        let id = self.schema(text, at)?;
        self.add(id);
        Ok(id)
    }

    fn add(&mut self, id: Id) {
        let child = self.size_of(id);
        self.weigh(child.weight);
        self.size.height = self.size.height.max(child.height.saturating_add(1));
    }

    fn weigh(&mut self, weight: u64) {
        self.size.weight = self.size.weight.saturating_add(weight);
    }

    fn keywords(&mut self, members: Keywords<'a>, at: At<'_>) -> Result<Part, String> {
        let mut all = Vec::new();
        let mut last = Vec::new();
        for (key, value) in members.iter() {
            let here = At::Key(&at, key);
            let keyword = match key.as_str() {
                "$ref" => Some(Keyword::Ref(self.reference(value, here)?)),
                "$dynamicRef" | "$recursiveRef" | "$anchor" | "$dynamicAnchor" => {
                    return Err(format!("uses {key}, which is not allowed here"));
                }
                "$id" if !matches!(at, At::Root) => {
                    return Err("has an $id in one of its parts, which is not allowed here".into());
                }
                "$id" | "$schema" | "$comment" | "title" | "description" | "format" => {
                    text_of(value, &here)?;
                    None
                }
                "unevaluatedItems" => {
                    last.push(Keyword::UnevaluatedItems(self.child(value, here)?));
                    None
                }
                "unevaluatedProperties" => {
                    last.push(Keyword::UnevaluatedProperties(self.child(value, here)?));
                    None
                }
                _ => match self.applicator(key, value, here)? {
                    Some(keyword) => Some(keyword),
                    None => self.assertion(key, value, here)?,
                },
            };
            all.extend(keyword);
        }
        all.extend(counts(members, &at)?);
        all.extend(self.grouped(members, at)?);
        // The keywords in `last` need to know what the others looked at.
        all.extend(last);
        Ok(Part::All(all))
    }

    /// Keywords that are about the value alone.
    fn assertion(&mut self, key: &str, value: &'a Value, at: At<'_>) -> Result<Option<Keyword>, String> {
        let number = || match value {
            Value::Number(number) => Ok(Exact::of(number)),
            other => Err(wrong(&at, format!("is {}, not a number", brief(other)))),
        };
        let shown = || value.clone();
        let keyword = match key {
            "type" => Keyword::Type(types(value, &at)?),
            "enum" => {
                let values = list_of(value, &at)?;
                self.weigh(weigh_value(value));
                Keyword::Enum(values.clone())
            }
            "const" => {
                self.weigh(weigh_value(value));
                Keyword::Const(value.clone())
            }
            "minimum" => Keyword::Minimum { limit: number()?, exclusive: false, shown: shown() },
            "exclusiveMinimum" => Keyword::Minimum { limit: number()?, exclusive: true, shown: shown() },
            "maximum" => Keyword::Maximum { limit: number()?, exclusive: false, shown: shown() },
            "exclusiveMaximum" => Keyword::Maximum { limit: number()?, exclusive: true, shown: shown() },
            "multipleOf" => {
                let divisor = number()?;
                if divisor.compare(Exact::Whole(0)) != Some(std::cmp::Ordering::Greater) {
                    return Err(wrong(&at, "is not above 0"));
                }
                Keyword::MultipleOf { divisor, shown: shown() }
            }
            "pattern" => Keyword::Pattern(self.pattern(text_of(value, &at)?, &at)?),
            "uniqueItems" => match value {
                Value::Bool(true) => Keyword::UniqueItems,
                Value::Bool(false) => return Ok(None),
                other => return Err(wrong(&at, format!("is {}, not true or false", brief(other)))),
            },
            "required" => Keyword::Required(texts_of(value, &at)?),
            "dependentRequired" => {
                let mut dependents = Vec::new();
                for (name, needed) in object_of(value, &at)? {
                    dependents.push((name.clone(), texts_of(needed, &At::Key(&at, name))?));
                }
                Keyword::DependentRequired(dependents)
            }
            _ => return Ok(None),
        };
        Ok(Some(keyword))
    }

    /// Keywords that hold other schemas against the value or its parts.
    fn applicator(&mut self, key: &str, value: &'a Value, at: At<'_>) -> Result<Option<Keyword>, String> {
        Ok(Some(match key {
            "allOf" => Keyword::AllOf(self.schemas(value, at)?),
            "anyOf" => Keyword::AnyOf(self.schemas(value, at)?),
            "oneOf" => Keyword::OneOf(self.schemas(value, at)?),
            "not" => Keyword::Not(self.child(value, at)?),
            "prefixItems" => Keyword::PrefixItems(self.schemas(value, at)?),
            "propertyNames" => Keyword::PropertyNames(self.child(value, at)?),
            "dependentSchemas" => Keyword::DependentSchemas(self.named(value, at)?.into_iter().collect()),
            _ => return Ok(None),
        }))
    }

    /// Keywords that mean something only together.
    fn grouped(&mut self, members: Keywords<'a>, at: At<'_>) -> Result<Vec<Keyword>, String> {
        let mut found = Vec::new();
        if let Some(items) = members.get("items") {
            let from = members.list("prefixItems").len();
            found.push(Keyword::Items { from, schema: self.child(items, At::Key(&at, "items"))? });
        }
        if let Some(contained) = members.get("contains") {
            let (least, most) = bounds(members, "minContains", "maxContains", &at)?;
            let least = if members.has(&["minContains"]) { least } else { 1 };
            let schema = self.child(contained, At::Key(&at, "contains"))?;
            found.push(Keyword::Contains { schema, least, most });
        }
        if let Some(condition) = members.get("if") {
            let condition = self.child(condition, At::Key(&at, "if"))?;
            let mut branch = |key: &'static str| match members.get(key) {
                Some(branch) => self.child(branch, At::Key(&at, key)).map(Some),
                None => Ok(None),
            };
            let (then, otherwise) = (branch("then")?, branch("else")?);
            found.push(Keyword::If { condition, then, otherwise });
        }
        if let Some(dependencies) = members.get("dependencies") {
            self.dependencies(dependencies, At::Key(&at, "dependencies"), &mut found)?;
        }
        found.extend(self.members(members, at)?);
        Ok(found)
    }

    fn members(&mut self, members: Keywords<'a>, at: At<'_>) -> Result<Option<Keyword>, String> {
        let mut rules = Members::default();
        if let Some(named) = members.get("properties") {
            rules.named = self.named(named, At::Key(&at, "properties"))?;
        }
        if let Some(matching) = members.get("patternProperties") {
            let at = At::Key(&at, "patternProperties");
            for (source, schema) in object_of(matching, &at)? {
                let at = At::Key(&at, source);
                let pattern = self.pattern(source, &at)?;
                rules.matching.push((pattern, self.child(schema, at)?));
            }
        }
        if let Some(other) = members.get("additionalProperties") {
            rules.other = Some(self.child(other, At::Key(&at, "additionalProperties"))?);
        }
        let empty = rules.named.is_empty() && rules.matching.is_empty() && rules.other.is_none();
        Ok((!empty).then_some(Keyword::Members(rules)))
    }

    /// The older form of `dependentRequired` and `dependentSchemas` together.
    fn dependencies(&mut self, value: &'a Value, at: At<'_>, found: &mut Vec<Keyword>) -> Result<(), String> {
        let (mut names, mut schemas) = (vec![], vec![]);
        for (name, needed) in object_of(value, &at)? {
            let at = At::Key(&at, name);
            if needed.is_array() {
                names.push((name.clone(), texts_of(needed, &at)?));
            } else {
                schemas.push((name.clone(), self.child(needed, at)?));
            }
        }
        found.extend([Keyword::DependentRequired(names), Keyword::DependentSchemas(schemas)]);
        Ok(())
    }

    fn schemas(&mut self, value: &'a Value, at: At<'_>) -> Result<Vec<Id>, String> {
        let parts = list_of(value, &at)?;
        if parts.is_empty() {
            return Err(wrong(&at, "is empty"));
        }
        parts.iter().enumerate().map(|(index, part)| self.child(part, At::Index(&at, index))).collect()
    }

    fn named(&mut self, value: &'a Value, at: At<'_>) -> Result<BTreeMap<String, Id>, String> {
        let parts = object_of(value, &at)?;
        let mut named = BTreeMap::new();
        for (name, part) in parts {
            named.insert(name.clone(), self.child(part, At::Key(&at, name))?);
        }
        Ok(named)
    }

    fn pattern(&mut self, source: &str, at: &At<'_>) -> Result<Arc<Pattern>, String> {
        let pattern = Pattern::compile(source, &mut self.budget.patterns, &mut self.budget.fuel)
            .map_err(|problem| wrong(at, format!("{} {problem}", brief(&source.into()))))?;
        self.weigh(pattern.weight());
        Ok(pattern)
    }

    fn reference(&mut self, value: &'a Value, at: At<'_>) -> Result<Id, String> {
        let target = text_of(value, &at)?;
        let shown = || printable(target, PROBLEM_BYTES);
        let id = match self.known.get(target).copied() {
            Some(Known { id, is_open: false }) => id,
            // The fuel of a check bounds how often it is followed.
            Some(Known { id, is_open: true }) if self.budget.may_recur => {
                self.recurs = true;
                self.weigh(1);
                return Ok(id);
            }
            Some(_) => return Err(format!("refers to itself through {:?}", shown())),
            None => {
                let Some(part) = self.document.target(target) else {
                    return Err(format!(
                        "refers to {:?}, which is not a part of it: put that below its $defs",
                        shown()
                    ));
                };
                self.known.insert(target, Known { id: self.parts.len(), is_open: true });
                let id = self.schema(part, at)?;
                self.known.insert(target, Known { id, is_open: false });
                id
            }
        };
        self.add(id);
        // Refuses deep chains here, before a schema that refers to them nests deeper still.
        if self.size_of(id).height > DEPTH {
            return Err(too_deep());
        }
        Ok(id)
    }
}
