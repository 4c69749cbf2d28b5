//! Holds a value against compiled rules, paying for every step.
//!
//! What this can cost is known from the code: each visit of a part, each member looked at, each value
//! compared and each byte matched is paid for before it is done, and nothing is copied but the text of a few
//! problems. The stack is bounded by how deep parts are held within parts ([`MOST_LEVELS`]), which only a
//! schema that refers to itself can reach, and by the depth of JSON values.

mod evaluated;
mod same;

use std::fmt::{self, Write};

use serde_json::{Map, Value};

use super::fuel::{Exhausted, Fuel};
use super::rules::{Id, Keyword, Members, Part, Rules, TYPES, Types};
use crate::brief::{PROBLEM_BYTES, brief};
use crate::number::Exact;
use crate::text_sanitizer::printable;

/// Most problems of one value that are named.
const PROBLEMS_NAMED: usize = 5;

/// Most members that one problem names.
const MEMBERS_NAMED: usize = 5;

/// Deepest nesting of parts that are held against a value and its parts.
const MOST_LEVELS: u32 = 256;

/// Bytes of text that are read or compared in one step.
const TEXT_BYTES_PER_STEP: usize = 32;

/// What comparing two texts or counting the characters of one costs.
fn text_steps(text: &str) -> u64 {
    1 + (text.len() / TEXT_BYTES_PER_STEP) as u64
}

/// What a list of marks costs, one for each item or member.
fn marks_steps(count: usize) -> u64 {
    (count / 8) as u64
}

/// A place in the value.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    Whole(&'a str),
    Member(&'a At<'a>, &'a str),
    Item(&'a At<'a>, usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn path(at: &At<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match at {
                At::Whole(_) => Ok(()),
                At::Member(parent, name) => {
                    path(parent, f)?;
                    write!(f, "/{}", printable(name, 64))
                }
                At::Item(parent, index) => {
                    path(parent, f)?;
                    write!(f, "/{index}")
                }
            }
        }
        match self {
            At::Whole(name) => f.write_str(name),
            part => path(part, f),
        }
    }
}

pub(crate) struct Check<'r, 'f> {
    rules: &'r Rules,
    fuel: &'f mut Fuel,
    /// What is wrong, as far as it is named.
    problems: Vec<String>,
    /// How many parts are being held within one another.
    levels: u32,
    /// Above 0 nobody wants to know why something does not hold.
    quiet: u32,
}

/// Whether something holds, if that could be found out.
type Holds = Result<bool, Exhausted>;

impl<'r, 'f> Check<'r, 'f> {
    /// What is wrong with a value: nothing, or the first few problems.
    pub(crate) fn run(
        rules: &'r Rules,
        value: &Value,
        whole: &str,
        fuel: &'f mut Fuel,
    ) -> Result<Vec<String>, Exhausted> {
        let mut check = Self { rules, fuel, problems: vec![], levels: 0, quiet: 0 };
        let holds = check.part(rules.root, value, &At::Whole(whole))?;
        if !holds && check.problems.is_empty() {
            check.problems.push(format!("{whole}: does not match the schema"));
        }
        Ok(check.problems)
    }

    /// Notes a problem. Says whether to stop looking for more.
    fn note(&mut self, at: &At<'_>, problem: impl fmt::Display) -> bool {
        if self.quiet > 0 {
            return true;
        }
        let place = printable(&at.to_string(), PROBLEM_BYTES);
        self.problems.push(format!("{place}: {}", printable(&problem.to_string(), PROBLEM_BYTES)));
        self.problems.len() >= PROBLEMS_NAMED
    }

    fn is_done(&self) -> bool {
        self.quiet > 0 || self.problems.len() >= PROBLEMS_NAMED
    }

    /// Whether a part holds, without saying why not.
    fn quietly(&mut self, id: Id, value: &Value, at: &At<'_>) -> Holds {
        self.quiet += 1;
        let holds = self.part(id, value, at);
        self.quiet -= 1;
        holds
    }

    fn part(&mut self, id: Id, value: &Value, at: &At<'_>) -> Holds {
        self.fuel.spend(1)?;
        self.levels += 1;
        if self.levels > MOST_LEVELS {
            return Err(Exhausted);
        }
        let holds = self.keywords(id, value, at);
        self.levels -= 1;
        holds
    }

    fn keywords(&mut self, id: Id, value: &Value, at: &At<'_>) -> Holds {
        let rules = self.rules;
        match rules.part(id) {
            None => Ok(true),
            Some(Part::Never) => {
                self.note(at, format_args!("{} is not allowed here", brief(value)));
                Ok(false)
            }
            Some(Part::All(keywords)) => {
                let mut holds = true;
                for keyword in keywords {
                    self.fuel.spend(1)?;
                    holds &= self.keyword(id, keyword, value, at)?;
                    if !holds && self.is_done() {
                        break;
                    }
                }
                Ok(holds)
            }
        }
    }

    fn keyword(&mut self, id: Id, keyword: &'r Keyword, value: &Value, at: &At<'_>) -> Holds {
        match (keyword, value) {
            (Keyword::Ref(target), _) => self.part(*target, value, at),
            (Keyword::Type(types), _) => Ok(self.must(types.allow(value), at, value, &Typed(types))),
            (Keyword::Enum(values), _) => self.one_of_values(values, value, at),
            (Keyword::Const(expected), _) => {
                let holds = self.equal(expected, value)?;
                Ok(holds || !self.fails(at, format_args!("{} was expected", brief(expected))))
            }
            (Keyword::AllOf(parts), _) => self.all_of(parts, value, at),
            (Keyword::AnyOf(parts), _) => self.any_of(parts, value, at),
            (Keyword::OneOf(parts), _) => self.one_of(parts, value, at),
            (Keyword::Not(part), _) => {
                let holds = !self.quietly(*part, value, at)?;
                Ok(self.must(holds, at, value, &"should not be valid under the schema of 'not'"))
            }
            (Keyword::If { condition, then, otherwise }, _) => {
                let branch = if self.quietly(*condition, value, at)? { then } else { otherwise };
                branch.map_or(Ok(true), |branch| self.part(branch, value, at))
            }
            (number, Value::Number(found)) => {
                if let Keyword::MultipleOf { divisor, .. } = number {
                    self.fuel.spend(Exact::of(found).division_steps(*divisor))?;
                }
                Ok(self.number(number, Exact::of(found), value, at))
            }
            (text, Value::String(found)) => self.text(text, found, value, at),
            (array, Value::Array(_)) => self.array(id, array, value, at),
            (object, Value::Object(_)) => self.object(id, object, value, at),
            // The others are about values of another type.
            (_, Value::Null | Value::Bool(_)) => Ok(true),
        }
    }

    /// Notes what a value is not, unless it is.
    fn must(&mut self, holds: bool, at: &At<'_>, value: &Value, problem: &dyn fmt::Display) -> bool {
        holds || !self.fails(at, format_args!("{} {problem}", brief(value)))
    }

    /// Notes a problem; always true.
    fn fails(&mut self, at: &At<'_>, problem: fmt::Arguments<'_>) -> bool {
        self.note(at, problem);
        true
    }

    fn number(&mut self, keyword: &Keyword, found: Exact, value: &Value, at: &At<'_>) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        match keyword {
            Keyword::Minimum { limit, exclusive, shown } => {
                let order = found.compare(*limit);
                let holds = order == Some(Greater) || (!exclusive && order == Some(Equal));
                self.must(holds, at, value, &Bound("less than", *exclusive, "the minimum of", shown))
            }
            Keyword::Maximum { limit, exclusive, shown } => {
                let order = found.compare(*limit);
                let holds = order == Some(Less) || (!exclusive && order == Some(Equal));
                self.must(holds, at, value, &Bound("greater than", *exclusive, "the maximum of", shown))
            }
            Keyword::MultipleOf { divisor, shown } => {
                let holds = found.is_multiple_of(*divisor);
                self.must(holds, at, value, &format_args!("is not a multiple of {}", brief(shown)))
            }
            _ => true,
        }
    }

    fn text(&mut self, keyword: &Keyword, text: &str, value: &Value, at: &At<'_>) -> Holds {
        match keyword {
            Keyword::Length { least, most } => {
                self.fuel.spend(text_steps(text))?;
                let length = text.chars().count() as u64;
                Ok(self.must(
                    length >= *least,
                    at,
                    value,
                    &format_args!("is shorter than {least} characters"),
                ) && self.must(
                    length <= *most,
                    at,
                    value,
                    &format_args!("is longer than {most} characters"),
                ))
            }
            Keyword::Pattern(pattern) => {
                let holds = pattern.is_match(text, self.fuel)?;
                Ok(self.must(holds, at, value, &format_args!("does not match {:?}", pattern.source())))
            }
            _ => Ok(true),
        }
    }

    fn array(&mut self, id: Id, keyword: &Keyword, value: &Value, at: &At<'_>) -> Holds {
        let Value::Array(items) = value else { return Ok(true) };
        match keyword {
            Keyword::ItemCount { least, most } => {
                let count = items.len() as u64;
                Ok(self.must(count >= *least, at, value, &format_args!("has less than {least} items"))
                    && self.must(count <= *most, at, value, &format_args!("has more than {most} items")))
            }
            Keyword::UniqueItems => {
                let holds = self.all_different(items)?;
                Ok(self.must(holds, at, value, &"has non-unique elements"))
            }
            Keyword::PrefixItems(parts) => {
                let pairs = parts.iter().zip(items).enumerate();
                self.each(pairs, |check, (index, (part, item))| check.part(*part, item, &At::Item(at, index)))
            }
            Keyword::Items { from, schema } => {
                let items = items.iter().enumerate().skip(*from);
                self.each(items, |check, (index, item)| check.part(*schema, item, &At::Item(at, index)))
            }
            Keyword::Contains { schema, least, most } => {
                let mut count = 0;
                for (index, item) in items.iter().enumerate() {
                    count += u64::from(self.quietly(*schema, item, &At::Item(at, index))?);
                }
                let holds = (*least..=*most).contains(&count);
                Ok(self.must(
                    holds,
                    at,
                    value,
                    &format_args!("contains {count} items as 'contains' wants them"),
                ))
            }
            Keyword::UnevaluatedItems(schema) => {
                self.fuel.spend(marks_steps(items.len()))?;
                let mut seen = vec![false; items.len()];
                self.mark_beside(id, value, &mut seen, at)?;
                let rest = items.iter().enumerate().zip(seen).filter(|(_, seen)| !seen);
                self.each(rest, |check, ((index, item), _)| check.part(*schema, item, &At::Item(at, index)))
            }
            _ => Ok(true),
        }
    }

    fn object(&mut self, id: Id, keyword: &Keyword, value: &Value, at: &At<'_>) -> Holds {
        let Value::Object(members) = value else { return Ok(true) };
        match keyword {
            Keyword::MemberCount { least, most } => {
                let count = members.len() as u64;
                Ok(self.must(count >= *least, at, value, &format_args!("has less than {least} properties"))
                    && self.must(count <= *most, at, value, &format_args!("has more than {most} properties")))
            }
            Keyword::Required(names) => self.required(names, members, at),
            Keyword::Members(rules) => self.members(rules, members, at),
            Keyword::PropertyNames(schema) => self.each(members.keys(), |check, name| {
                check.fuel.spend(text_steps(name))?;
                let holds = check.quietly(*schema, &Value::String(name.clone()), at)?;
                Ok(holds || !check.fails(at, format_args!("the name {name:?} is not allowed")))
            }),
            Keyword::DependentRequired(dependents) => self.each(dependents, |check, (name, needed)| {
                check.fuel.spend(text_steps(name))?;
                if members.contains_key(name) { check.required(needed, members, at) } else { Ok(true) }
            }),
            Keyword::DependentSchemas(dependents) => self.each(dependents, |check, (name, schema)| {
                check.fuel.spend(text_steps(name))?;
                if members.contains_key(name) { check.part(*schema, value, at) } else { Ok(true) }
            }),
            Keyword::UnevaluatedProperties(schema) => {
                self.fuel.spend(marks_steps(members.len()))?;
                let mut seen = vec![false; members.len()];
                self.mark_beside(id, value, &mut seen, at)?;
                let rest = members.iter().zip(seen).filter(|(_, seen)| !seen);
                self.each(rest, |check, ((name, member), _)| {
                    check.part(*schema, member, &At::Member(at, name))
                })
            }
            _ => Ok(true),
        }
    }

    /// Whether all of them hold; goes on after one that does not, as long as problems are wanted.
    fn each<T>(
        &mut self,
        all: impl IntoIterator<Item = T>,
        mut holds: impl FnMut(&mut Self, T) -> Holds,
    ) -> Holds {
        let mut all_hold = true;
        for one in all {
            self.fuel.spend(1)?;
            all_hold &= holds(self, one)?;
            if !all_hold && self.is_done() {
                break;
            }
        }
        Ok(all_hold)
    }

    fn required(&mut self, names: &[String], members: &Map<String, Value>, at: &At<'_>) -> Holds {
        self.each(names, |check, name| {
            check.fuel.spend(text_steps(name))?;
            let holds = members.contains_key(name);
            Ok(holds || !check.fails(at, format_args!("{name:?} is a required property")))
        })
    }

    fn members(&mut self, rules: &Members, members: &Map<String, Value>, at: &At<'_>) -> Holds {
        let mut unexpected = Vec::new();
        let holds = self.each(members, |check, (name, member)| {
            let here = At::Member(at, name);
            let (mut holds, mut known) = (true, false);
            check.fuel.spend(text_steps(name))?;
            if let Some(part) = rules.named.get(name) {
                known = true;
                holds &= check.part(*part, member, &here)?;
            }
            for (pattern, part) in &rules.matching {
                if pattern.is_match(name, check.fuel)? {
                    known = true;
                    holds &= check.part(*part, member, &here)?;
                }
            }
            match rules.other {
                Some(other) if !known => match check.rules.part(other) {
                    // All of them are one problem.
                    Some(Part::Never) => {
                        unexpected.push(name);
                        Ok(check.quiet == 0)
                    }
                    _ => check.part(other, member, &here),
                },
                _ => Ok(holds),
            }
        })?;
        if unexpected.is_empty() {
            return Ok(holds);
        }
        let mut names = String::new();
        for name in unexpected.iter().take(MEMBERS_NAMED) {
            let comma = if names.is_empty() { "" } else { ", " };
            let _never_fails = write!(names, "{comma}'{}'", printable(name, 64));
        }
        if unexpected.len() > MEMBERS_NAMED {
            names.push_str(", …");
        }
        let verb = if unexpected.len() == 1 { "was" } else { "were" };
        self.note(at, format_args!("Additional properties are not allowed ({names} {verb} unexpected)"));
        Ok(false)
    }

    fn one_of_values(&mut self, values: &[Value], value: &Value, at: &At<'_>) -> Holds {
        for expected in values {
            if self.equal(expected, value)? {
                return Ok(true);
            }
        }
        if self.quiet > 0 {
            return Ok(false);
        }
        let mut shown: Vec<_> =
            values.iter().take(MEMBERS_NAMED).map(|value| brief(value).to_string()).collect();
        if values.len() > MEMBERS_NAMED {
            shown.push(format!("{} others", values.len() - MEMBERS_NAMED));
        }
        Ok(self.must(false, at, value, &format_args!("is not one of {}", shown.join(", "))))
    }

    fn all_of(&mut self, parts: &[Id], value: &Value, at: &At<'_>) -> Holds {
        self.each(parts, |check, part| check.part(*part, value, at))
    }

    fn any_of(&mut self, parts: &[Id], value: &Value, at: &At<'_>) -> Holds {
        for part in parts {
            if self.quietly(*part, value, at)? {
                return Ok(true);
            }
        }
        let problem = "is not valid under any of the schemas listed in the 'anyOf' keyword";
        Ok(self.must(false, at, value, &problem))
    }

    fn one_of(&mut self, parts: &[Id], value: &Value, at: &At<'_>) -> Holds {
        let mut count = 0;
        for part in parts {
            count += u32::from(self.quietly(*part, value, at)?);
            if count > 1 {
                let problem = "is valid under more than one of the schemas listed in the 'oneOf' keyword";
                return Ok(self.must(false, at, value, &problem));
            }
        }
        let problem = "is not valid under any of the schemas listed in the 'oneOf' keyword";
        Ok(self.must(count == 1, at, value, &problem))
    }
}

impl Types {
    fn allow(&self, value: &Value) -> bool {
        let [null, boolean, integer, number, string, array, object] = self.0;
        match value {
            Value::Null => null,
            Value::Bool(_) => boolean,
            Value::Number(found) => number || (integer && Exact::of(found).is_integer()),
            Value::String(_) => string,
            Value::Array(_) => array,
            Value::Object(_) => object,
        }
    }
}

/// "is not of type …" in words.
struct Typed<'a>(&'a Types);

impl fmt::Display for Typed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = TYPES.iter().zip(self.0.0).filter(|(_, allowed)| *allowed);
        let names: Vec<_> = allowed.map(|(name, _)| format!("\"{name}\"")).collect();
        let types = if names.len() == 1 { "type" } else { "types" };
        write!(f, "is not of {types} {}", names.join(", "))
    }
}

/// "is less than the minimum of …" in words.
struct Bound<'a>(&'a str, bool, &'a str, &'a Value);

impl fmt::Display for Bound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(relation, exclusive, limit, shown) = self;
        let or_equal = if *exclusive { " or equal to" } else { "" };
        write!(f, "is {relation}{or_equal} {limit} {}", brief(shown))
    }
}
