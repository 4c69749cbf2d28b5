//! TOML as a tree whose nodes know their lines, and the list of what is wrong with it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Deepest nesting that is read.
const MOST_DEPTH: usize = 64;

/// A value and the line where it begins.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Scalar(Value),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

/// Everything that is wrong with a case file, each with its line and what to write instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<(usize, String)>);

impl Problems {
    /// Something is wrong in a line.
    pub(super) fn report(&mut self, line: usize, text: impl Into<String>) {
        self.0.push((line, text.into()));
    }

    /// The value, if nothing was wrong.
    pub(super) fn finish<T>(mut self, value: T) -> Result<T, Self> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort();
        Err(self)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(|(line, text)| format!("line {line}: {text}")).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}

/// Reads a text as a tree.
pub(super) fn parse(text: &str) -> Result<Node, Problems> {
    let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
    let lines: Vec<usize> = std::iter::once(0).chain(breaks).collect();
    let line_of = |at: usize| lines.partition_point(|begin| *begin <= at).max(1);
    let mut problems = Problems::default();
    match DeTable::parse(text) {
        Ok(document) => {
            let mut reading = Reading { line_of: &line_of, problems };
            let kind = reading.table(document.get_ref(), 0);
            reading.problems.finish(Node { line: 1, kind })
        }
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            problems
                .report(line_of(at), format!("{}: the file must be TOML (https://toml.io)", error.message()));
            Err(problems)
        }
    }
}

struct Reading<'a> {
    line_of: &'a dyn Fn(usize) -> usize,
    problems: Problems,
}

impl Reading<'_> {
    fn table(&mut self, table: &DeTable<'_>, depth: usize) -> Kind {
        let entry = |(key, value): (&Spanned<_>, &Spanned<_>)| {
            let mut node = self.node(value, depth + 1);
            // A table of several lines begins where its header does.
            node.line = node.line.min((self.line_of)(key.span().start).max(1)).max(1);
            (AsRef::<str>::as_ref(key.get_ref()).to_owned(), node)
        };
        let entries: Vec<_> = table.iter().map(entry).collect();
        Kind::Table(entries.into_iter().collect())
    }

    fn node(&mut self, value: &Spanned<DeValue<'_>>, depth: usize) -> Node {
        let line = (self.line_of)(value.span().start);
        if depth > MOST_DEPTH {
            self.problems.report(line, format!("nested deeper than {MOST_DEPTH} levels"));
            return Node { line, kind: Kind::Scalar(Value::Null) };
        }
        let kind = match value.get_ref() {
            DeValue::String(text) => Kind::Scalar(Value::String(text.to_string())),
            DeValue::Boolean(truth) => Kind::Scalar(Value::Bool(*truth)),
            DeValue::Integer(number) => self.integer(line, number.as_str(), number.radix()),
            DeValue::Float(number) => self.float(line, number.as_str()),
            DeValue::Datetime(moment) => Kind::Scalar(Value::String(moment.to_string())),
            DeValue::Array(items) => {
                Kind::List(items.iter().map(|item| self.node(item, depth + 1)).collect())
            }
            DeValue::Table(table) => self.table(table, depth),
        };
        Node { line, kind }
    }

    fn integer(&mut self, line: usize, digits: &str, radix: u32) -> Kind {
        let signed = i64::from_str_radix(digits, radix).map(Number::from);
        match signed.or_else(|_| u64::from_str_radix(digits, radix).map(Number::from)) {
            Ok(number) => Kind::Scalar(Value::Number(number)),
            Err(_) => {
                self.problems.report(line, format!("the number {digits} does not fit in 64 bits"));
                Kind::Scalar(Value::Null)
            }
        }
    }

    fn float(&mut self, line: usize, digits: &str) -> Kind {
        match digits.parse().ok().and_then(Number::from_f64) {
            Some(number) => Kind::Scalar(Value::Number(number)),
            None => {
                self.problems.report(line, format!("{digits} is no number that JSON has"));
                Kind::Scalar(Value::Null)
            }
        }
    }
}

impl Node {
    pub(super) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Kind::Table(entries) => {
                let members = entries.iter().map(|(key, node)| (key.clone(), node.to_json()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    /// What it is, for messages.
    pub(super) fn sort(&self) -> &'static str {
        match &self.kind {
            Kind::Scalar(Value::String(_)) => "a text",
            Kind::Scalar(Value::Bool(_)) => "true or false",
            Kind::Scalar(_) => "a number",
            Kind::List(_) => "a list",
            Kind::Table(_) => "a table",
        }
    }
}
