//! The functions and constants that an expression may name.

use std::ops::RangeInclusive;

use super::ball::Ball;
use super::number::Number;
use super::obstacle::Obstacle;

/// A function: its name, how many arguments it takes, and what it does.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) arguments: RangeInclusive<usize>,
    pub(crate) apply: fn(&[Number]) -> Result<Number, Obstacle>,
}

/// A constant's value.
pub(crate) type Constant = fn() -> Result<Number, Obstacle>;

static FUNCTIONS: &[Function] = &[
    Function { name: "sqrt", arguments: 1..=1, apply: |x| x[0].square_root() },
    Function { name: "cbrt", arguments: 1..=1, apply: |x| x[0].cube_root() },
    Function { name: "abs", arguments: 1..=1, apply: |x| Ok(x[0].absolute()) },
    Function { name: "round", arguments: 1..=2, apply: |x| x[0].round(x.get(1)) },
    Function { name: "floor", arguments: 1..=1, apply: |x| x[0].to_whole(|ratio| ratio.floor()) },
    Function { name: "ceil", arguments: 1..=1, apply: |x| x[0].to_whole(|ratio| ratio.ceil()) },
    Function { name: "trunc", arguments: 1..=1, apply: |x| x[0].to_whole(|ratio| ratio.trunc()) },
    Function { name: "min", arguments: 1..=usize::MAX, apply: |x| fold(x, Number::smaller) },
    Function { name: "max", arguments: 1..=usize::MAX, apply: |x| fold(x, Number::larger) },
    Function { name: "exp", arguments: 1..=1, apply: |x| x[0].exponential() },
    Function { name: "ln", arguments: 1..=1, apply: |x| x[0].logarithm() },
    Function { name: "log10", arguments: 1..=1, apply: |x| x[0].logarithm_to(10) },
    Function { name: "log2", arguments: 1..=1, apply: |x| x[0].logarithm_to(2) },
    Function { name: "sin", arguments: 1..=1, apply: |x| x[0].sine() },
    Function { name: "cos", arguments: 1..=1, apply: |x| x[0].cosine() },
    Function { name: "tan", arguments: 1..=1, apply: |x| x[0].tangent() },
    Function { name: "asin", arguments: 1..=1, apply: |x| x[0].arc_sine() },
    Function { name: "acos", arguments: 1..=1, apply: |x| x[0].arc_cosine() },
    Function { name: "atan", arguments: 1..=1, apply: |x| x[0].arc_tangent() },
];

static CONSTANTS: &[(&str, Constant)] =
    &[("pi", || Ball::pi().map(Number::Near)), ("e", || Number::from(1).exponential())];

/// The function of that name.
pub(crate) fn find_function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// The constant of that name.
pub(crate) fn find_constant(name: &str) -> Option<Constant> {
    CONSTANTS.iter().find(|(constant, _)| *constant == name).map(|&(_, value)| value)
}

/// Refuses a name with those that there are.
pub(crate) fn refuse_name(name: &str) -> String {
    let names = FUNCTIONS.iter().map(|function| function.name).chain(CONSTANTS.iter().map(|(name, _)| *name));
    let hint = if name == "log" { "log is taken for both: write ln or log10. " } else { "" };
    format!("`{name}` is not known. {hint}There are: {}", names.collect::<Vec<_>>().join(", "))
}

fn fold(
    operands: &[Number],
    choose: fn(&Number, &Number) -> Result<Number, Obstacle>,
) -> Result<Number, Obstacle> {
    let (first, others) = operands.split_first().ok_or(Obstacle::Undefined("of nothing"))?;
    others.iter().try_fold(first.clone(), |best, other| choose(&best, other))
}
