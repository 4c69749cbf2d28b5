//! Functions of many rows.

use std::collections::BTreeSet;

use rust_decimal::Decimal;

use crate::value::{Key, Value, divide};

/// A function of many values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Count,
    Sum,
    Average,
    Least,
    Greatest,
    Median,
}

impl Kind {
    /// The function of that name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "count" => Self::Count,
            "sum" => Self::Sum,
            "avg" | "mean" => Self::Average,
            "min" => Self::Least,
            "max" => Self::Greatest,
            "median" => Self::Median,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Average => "avg",
            Self::Least => "min",
            Self::Greatest => "max",
            Self::Median => "median",
        }
    }

    /// The function's value of a group's values, of which nulls do not count.
    pub(crate) fn of(self, mut values: Vec<Value>, is_distinct: bool) -> Result<Value, String> {
        values.retain(|value| *value != Value::Null);
        if is_distinct {
            let mut seen = BTreeSet::new();
            values.retain(|value| seen.insert(Key(vec![value.clone()])));
        }
        if let Self::Count = self {
            return Ok(Value::Number(values.len().into()));
        }
        if values.is_empty() {
            return Ok(Value::Null);
        }
        match self {
            Self::Least => return Ok(values.into_iter().min_by(Value::order).unwrap_or(Value::Null)),
            Self::Greatest => return Ok(values.into_iter().max_by(Value::order).unwrap_or(Value::Null)),
            Self::Count | Self::Sum | Self::Average | Self::Median => {}
        }
        let mut numbers =
            values.iter().map(|value| self.wanted_number(value)).collect::<Result<Vec<_>, _>>()?;
        Ok(Value::Number(match self {
            Self::Median => median(&mut numbers)?,
            Self::Average => average(&numbers)?,
            _ => sum(&numbers)?,
        }))
    }

    fn wanted_number(self, value: &Value) -> Result<Decimal, String> {
        value.number().ok_or_else(|| {
            let name = self.name();
            format!(
                "{name} needs numbers and got `{value}`: use {name}(number(…)) for texts such as `1,250 €`, or leave \
                 such rows out with WHERE"
            )
        })
    }
}

fn sum(numbers: &[Decimal]) -> Result<Decimal, String> {
    let sum = numbers.iter().try_fold(Decimal::ZERO, |sum, number| sum.checked_add(*number));
    sum.ok_or_else(|| "a sum has more than 28 digits".to_owned())
}

fn average(numbers: &[Decimal]) -> Result<Decimal, String> {
    let quotient = divide(sum(numbers)?, numbers.len().into());
    quotient.ok_or_else(|| "an average has more than 28 digits".to_owned())
}

fn median(numbers: &mut [Decimal]) -> Result<Decimal, String> {
    numbers.sort_unstable();
    let middle = numbers.len() / 2;
    let from = middle - usize::from(numbers.len().is_multiple_of(2));
    average(numbers.get(from..=middle).unwrap_or_default())
}
