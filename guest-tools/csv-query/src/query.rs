//! A query: what the parser makes and [`run`](crate::run) carries out. Names are resolved to columns.

use crate::aggregate::Kind;
use crate::functions::Function;
use crate::value::Value;

/// A SELECT.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) is_distinct: bool,
    pub(crate) items: Vec<Item>,
    pub(crate) filter: Option<Expression>,
    pub(crate) group_by: Vec<Expression>,
    pub(crate) having: Option<Expression>,
    pub(crate) order_by: Vec<Sorting>,
    pub(crate) limit: Option<usize>,
    pub(crate) offset: usize,
    /// What [`Expression::Aggregate`] counts from 0.
    pub(crate) aggregates: Vec<Aggregate>,
}

impl Query {
    /// Whether rows are put together, so that an answer's row is a group's.
    pub(crate) fn is_grouped(&self) -> bool {
        !self.group_by.is_empty() || !self.aggregates.is_empty()
    }
}

/// What is asked of a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) kind: Kind,
    /// None for `count(*)`.
    pub(crate) argument: Option<Expression>,
    pub(crate) is_distinct: bool,
}

/// A column of the answer.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) expression: Expression,
}

/// A part of ORDER BY.
#[derive(Debug)]
pub(crate) struct Sorting {
    pub(crate) expression: Expression,
    pub(crate) is_descending: bool,
}

/// What has a value in a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Value(Value),
    /// The column of that index.
    Column(usize),
    Aggregate(usize),
    Negative(Box<Self>),
    Not(Box<Self>),
    Binary(Operator, Box<Self>, Box<Self>),
    IsNull(Box<Self>),
    In(Box<Self>, Vec<Self>),
    Like(Box<Self>, Box<Self>),
    Between(Box<Self>, Box<Self>, Box<Self>),
    /// Conditions with their values, and the value when none holds.
    Case(Vec<(Self, Self)>, Box<Self>),
    Call(Function, Vec<Self>),
}

impl Expression {
    /// Whether the value is a group's.
    pub(crate) fn has_aggregate(&self) -> bool {
        matches!(self, Self::Aggregate(_)) || self.parts().into_iter().any(Self::has_aggregate)
    }

    /// The expressions that it is made of.
    pub(crate) fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Value(_) | Self::Column(_) | Self::Aggregate(_) => Vec::new(),
            Self::Negative(part) | Self::Not(part) | Self::IsNull(part) => vec![part],
            Self::Binary(_, one, another) | Self::Like(one, another) => vec![one, another],
            Self::In(part, list) => std::iter::once(&**part).chain(list).collect(),
            Self::Between(part, low, high) => vec![part, low, high],
            Self::Case(cases, otherwise) => {
                let cases = cases.iter().flat_map(|(condition, value)| [condition, value]);
                cases.chain([&**otherwise]).collect()
            }
            Self::Call(_, arguments) => arguments.iter().collect(),
        }
    }
}

/// What stands between two expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Concatenate,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    /// Reads a symbol with how tightly it binds. What binds at 4 compares and cannot be repeated.
    pub(crate) fn of_symbol(symbol: &str) -> Option<(u8, Self)> {
        Some(match symbol {
            "=" | "==" => (4, Self::Equal),
            "<>" | "!=" => (4, Self::NotEqual),
            "<" => (4, Self::Less),
            "<=" => (4, Self::LessOrEqual),
            ">" => (4, Self::Greater),
            ">=" => (4, Self::GreaterOrEqual),
            "+" => (5, Self::Add),
            "-" => (5, Self::Subtract),
            "||" => (5, Self::Concatenate),
            "*" => (6, Self::Multiply),
            "/" => (6, Self::Divide),
            "%" => (6, Self::Remainder),
            _ => return None,
        })
    }
}
