//! The value of an expression in a row.

use std::cmp::Ordering;

use rust_decimal::Decimal;

use crate::query::{Expression, Operator};
use crate::value::{Value, divide};

/// The longest text that an expression makes, in bytes.
const LONGEST_TEXT: usize = 64 << 10;

/// What an expression is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// The row; of a group its first one.
    pub(crate) row: &'a [Value],
    /// The values of the query's aggregates; none outside groups.
    pub(crate) aggregates: &'a [Value],
}

impl Expression {
    /// Works out a value, or says why there is none.
    pub(crate) fn value(&self, scope: Scope<'_>) -> Result<Value, String> {
        Ok(match self {
            Self::Value(value) => value.clone(),
            Self::Column(index) => scope.row.get(*index).cloned().unwrap_or(Value::Null),
            Self::Aggregate(index) => scope.aggregates.get(*index).cloned().unwrap_or(Value::Null),
            Self::Negative(part) => match part.value(scope)? {
                Value::Null => Value::Null,
                value => Value::Number(-wanted_number("-", &value)?),
            },
            Self::Not(part) => of_truth(part.value(scope)?.truth().map(|truth| !truth)),
            Self::Binary(Operator::And, one, another) => and(one, another, scope, false)?,
            Self::Binary(Operator::Or, one, another) => and(one, another, scope, true)?,
            Self::Binary(operator, one, another) => {
                binary(*operator, &one.value(scope)?, &another.value(scope)?)?
            }
            Self::IsNull(part) => Value::Bool(part.value(scope)? == Value::Null),
            Self::In(part, list) => is_in(part, list, scope)?,
            Self::Like(part, pattern) => match (part.value(scope)?, pattern.value(scope)?) {
                (Value::Null, _) | (_, Value::Null) => Value::Null,
                (text, pattern) => Value::Bool(is_like(&text.to_string(), &pattern.to_string())),
            },
            Self::Between(part, low, high) => {
                let value = part.value(scope)?;
                let (low, high) = (value.compare(&low.value(scope)?), value.compare(&high.value(scope)?));
                match (low.map(Ordering::is_ge), high.map(Ordering::is_le)) {
                    (Some(false), _) | (_, Some(false)) => Value::Bool(false),
                    (Some(true), Some(true)) => Value::Bool(true),
                    _ => Value::Null,
                }
            }
            Self::Case(cases, otherwise) => {
                for (condition, value) in cases {
                    if condition.value(scope)?.truth() == Some(true) {
                        return value.value(scope);
                    }
                }
                otherwise.value(scope)?
            }
            Self::Call(function, arguments) => {
                let arguments: Result<Vec<_>, _> = arguments.iter().map(|part| part.value(scope)).collect();
                function.call(&arguments?)?
            }
        })
    }
}

fn of_truth(truth: Option<bool>) -> Value {
    truth.map_or(Value::Null, Value::Bool)
}

/// AND, which one false decides; OR when `decisive` is true, which one true decides.
fn and(one: &Expression, another: &Expression, scope: Scope<'_>, decisive: bool) -> Result<Value, String> {
    let one = one.value(scope)?.truth();
    if one == Some(decisive) {
        return Ok(Value::Bool(decisive));
    }
    let another = another.value(scope)?.truth();
    Ok(if another == Some(decisive) { Value::Bool(decisive) } else { of_truth(one.and(another)) })
}

fn binary(operator: Operator, one: &Value, another: &Value) -> Result<Value, String> {
    if *one == Value::Null || *another == Value::Null {
        return Ok(Value::Null);
    }
    let compare = |holds: fn(Ordering) -> bool| of_truth(one.compare(another).map(holds));
    let calculate = |sign: &str, of: fn(Decimal, Decimal) -> Option<Decimal>| {
        let result = of(wanted_number(sign, one)?, wanted_number(sign, another)?);
        result.map(Value::Number).ok_or_else(|| format!("`{one} {sign} {another}` has more than 28 digits"))
    };
    Ok(match operator {
        Operator::Equal => compare(Ordering::is_eq),
        Operator::NotEqual => compare(Ordering::is_ne),
        Operator::Less => compare(Ordering::is_lt),
        Operator::LessOrEqual => compare(Ordering::is_le),
        Operator::Greater => compare(Ordering::is_gt),
        Operator::GreaterOrEqual => compare(Ordering::is_ge),
        Operator::Add => calculate("+", Decimal::checked_add)?,
        Operator::Subtract => calculate("-", Decimal::checked_sub)?,
        Operator::Multiply => calculate("*", Decimal::checked_mul)?,
        // By zero there is no value, as in SQLite.
        Operator::Divide | Operator::Remainder if another.number().is_some_and(|number| number.is_zero()) => {
            Value::Null
        }
        Operator::Divide => calculate("/", divide)?,
        Operator::Remainder => calculate("%", Decimal::checked_rem)?,
        Operator::Concatenate => {
            let text = format!("{one}{another}");
            if text.len() > LONGEST_TEXT {
                return Err(format!("|| would make a text of more than {LONGEST_TEXT} bytes"));
            }
            Value::Text(text)
        }
        Operator::And | Operator::Or => Value::Null,
    })
}

fn wanted_number(sign: &str, value: &Value) -> Result<Decimal, String> {
    value.number().ok_or_else(|| {
        format!("`{sign}` needs numbers and got `{value}`: number(…) reads texts such as `1,250 €`, || joins texts")
    })
}

fn is_in(part: &Expression, list: &[Expression], scope: Scope<'_>) -> Result<Value, String> {
    let value = part.value(scope)?;
    let mut found = Some(false);
    for other in list {
        match value.compare(&other.value(scope)?) {
            Some(Ordering::Equal) => return Ok(Value::Bool(true)),
            Some(_) => {}
            None => found = None,
        }
    }
    Ok(of_truth(found))
}

/// Whether a text is like a pattern, in which `%` is any text and `_` any character. Capitals do not count.
/// Goes back to the last `%` only, so it takes at most as many steps as the product of the lengths.
fn is_like(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.to_lowercase().chars().collect();
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let (mut at, mut of) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    while let Some(one) = text.get(at) {
        match pattern.get(of) {
            Some('%') => {
                last = Some((at, of + 1));
                of += 1;
            }
            Some(other) if other == one || *other == '_' => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((from, behind)) = last else { return false };
                last = Some((from + 1, behind));
                (at, of) = (from + 1, behind);
            }
        }
    }
    pattern.get(of..).is_some_and(|rest| rest.iter().all(|one| *one == '%'))
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn patterns_are_matched() {
        for (text, pattern, expected) in [
            ("Berlin", "b%", true),
            ("Berlin", "%LIN", true),
            ("Berlin", "B_r%n", true),
            ("Berlin", "%e%l%", true),
            ("Berlin", "erl", false),
            ("", "%", true),
            ("", "_", false),
            ("ab", "%ab%_", false),
            ("Ä", "ä", true),
        ] {
            assert_eq!(is_like(text, pattern), expected, "{text} {pattern}");
        }
        assert!(!is_like(&"a".repeat(5_000), &format!("{}b", "%a".repeat(500))));
    }
}
