//! A schema that was read, as rules: a graph in which each part of the schema stands once. A cycle in it
//! leads to a part of the value.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::pattern::Pattern;
use crate::number::Exact;

/// Where a part's rules are.
pub(crate) type Id = usize;

#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) root: Id,
    parts: Vec<Part>,
}

/// One schema: `false`, or keywords that must all hold.
#[derive(Debug)]
pub(crate) enum Part {
    Never,
    All(Vec<Keyword>),
}

/// One keyword, or several that need each other.
#[derive(Debug)]
pub(crate) enum Keyword {
    Ref(Id),
    Type(Types),
    Enum(Vec<Value>),
    Const(Value),
    Minimum {
        limit: Exact,
        exclusive: bool,
        shown: Value,
    },
    Maximum {
        limit: Exact,
        exclusive: bool,
        shown: Value,
    },
    MultipleOf {
        divisor: Exact,
        shown: Value,
    },
    Length {
        least: u64,
        most: u64,
    },
    Pattern(Arc<Pattern>),
    ItemCount {
        least: u64,
        most: u64,
    },
    UniqueItems,
    PrefixItems(Vec<Id>),
    /// Holds for the items from `from` on.
    Items {
        from: usize,
        schema: Id,
    },
    Contains {
        schema: Id,
        least: u64,
        most: u64,
    },
    MemberCount {
        least: u64,
        most: u64,
    },
    Required(Vec<String>),
    Members(Members),
    PropertyNames(Id),
    DependentRequired(Vec<(String, Vec<String>)>),
    DependentSchemas(Vec<(String, Id)>),
    AllOf(Vec<Id>),
    AnyOf(Vec<Id>),
    OneOf(Vec<Id>),
    Not(Id),
    If {
        condition: Id,
        then: Option<Id>,
        otherwise: Option<Id>,
    },
    UnevaluatedItems(Id),
    UnevaluatedProperties(Id),
}

impl Keyword {
    /// The parts that it holds against the very value that it stands for.
    pub(crate) fn in_place(&self) -> Vec<Id> {
        match self {
            Self::Ref(part) | Self::Not(part) => vec![*part],
            Self::AllOf(parts) | Self::AnyOf(parts) | Self::OneOf(parts) => parts.clone(),
            Self::If { condition, then, otherwise } => {
                [Some(*condition), *then, *otherwise].into_iter().flatten().collect()
            }
            Self::DependentSchemas(dependents) => dependents.iter().map(|(_, part)| *part).collect(),
            _ => vec![],
        }
    }
}

/// `properties`, `patternProperties` and `additionalProperties`.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) named: BTreeMap<String, Id>,
    pub(crate) matching: Vec<(Arc<Pattern>, Id)>,
    pub(crate) other: Option<Id>,
}

/// The types of JSON, in the order in which problems name them.
pub(crate) const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// Which of them a value may have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Types(pub(crate) [bool; TYPES.len()]);

impl Rules {
    pub(crate) fn new(root: Id, parts: Vec<Part>) -> Self {
        Self { root, parts }
    }

    pub(crate) fn part(&self, id: Id) -> Option<&Part> {
        self.parts.get(id)
    }
}
