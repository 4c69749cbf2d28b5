//! Values of cells and expressions, and SQL's rules for them.

use std::cmp::Ordering;
use std::fmt;

use rust_decimal::Decimal;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Decimal places of a quotient, which seldom ends by itself. Of one below 1 the zeros behind the point do
/// not count.
const PLACES_OF_QUOTIENTS: u32 = 12;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
}

impl Value {
    /// The value of a cell: a number only if nothing is lost when it is written again, so that `007` stays
    /// text.
    pub(crate) fn of_cell(cell: &str) -> Self {
        let cell = cell.trim();
        if cell.is_empty() {
            return Self::Null;
        }
        let digits = cell.strip_prefix('-').unwrap_or(cell);
        let has_leading_zero =
            digits.strip_prefix('0').is_some_and(|rest| rest.starts_with(|one: char| one.is_ascii_digit()));
        if has_leading_zero || !digits.starts_with(|one: char| one.is_ascii_digit()) {
            return Self::Text(cell.to_owned());
        }
        read_number(cell).map_or_else(|| Self::Text(cell.to_owned()), Self::Number)
    }

    /// The number that a value is or is written as.
    pub(crate) fn number(&self) -> Option<Decimal> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => read_number(text.trim()),
            Self::Null | Self::Bool(_) => None,
        }
    }

    /// Whether a condition holds; none when that is not known.
    pub(crate) fn truth(&self) -> Option<bool> {
        match self {
            Self::Null => None,
            Self::Bool(value) => Some(*value),
            Self::Number(number) => Some(!number.is_zero()),
            Self::Text(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" => Some(true),
                _ => Some(false),
            },
        }
    }

    /// SQL's comparison: null compares with nothing, and text that is a number compares with numbers as one.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Null, _) | (_, Self::Null) => None,
            (Self::Number(_), Self::Text(_)) | (Self::Text(_), Self::Number(_)) => {
                match (self.number(), other.number()) {
                    (Some(one), Some(another)) => Some(one.cmp(&another)),
                    _ => Some(self.order(other)),
                }
            }
            (Self::Bool(truth), Self::Text(text)) | (Self::Text(text), Self::Bool(truth)) => {
                let is_same = text.eq_ignore_ascii_case(if *truth { "true" } else { "false" });
                Some(if is_same { Ordering::Equal } else { self.order(other) })
            }
            _ => Some(self.order(other)),
        }
    }

    /// The order of rows: nulls first, then truths, numbers and texts.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let rank = |value: &Self| match value {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Number(_) => 2,
            Self::Text(_) => 3,
        };
        match (self, other) {
            (Self::Bool(one), Self::Bool(another)) => one.cmp(another),
            (Self::Number(one), Self::Number(another)) => one.cmp(another),
            (Self::Text(one), Self::Text(another)) => one.cmp(another),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

/// Several values in one: what rows are grouped and told apart by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) Vec<Value>);

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let pairs = self.0.iter().zip(&other.0);
        let orders = pairs.map(|(one, another)| one.order(another));
        orders.fold(Ordering::Equal, Ordering::then).then(self.0.len().cmp(&other.0.len()))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Reads a number such as 12, -0.5 or 6e23.
pub(crate) fn read_number(text: &str) -> Option<Decimal> {
    let is_plain = |one: char| one.is_ascii_digit() || matches!(one, '.' | '-' | '+' | 'e' | 'E');
    if !text.chars().all(is_plain) || !text.ends_with(|one: char| one.is_ascii_digit()) {
        return None;
    }
    if text.contains(['e', 'E']) {
        Decimal::from_scientific(text).ok()
    } else {
        Decimal::from_str_exact(text).ok()
    }
}

/// Divides; none by zero.
pub(crate) fn divide(one: Decimal, another: Decimal) -> Option<Decimal> {
    let quotient = one.checked_div(another)?;
    let digits = quotient.mantissa().unsigned_abs().checked_ilog10().map_or(0, |power| power + 1);
    let places = (quotient.scale() + PLACES_OF_QUOTIENTS).saturating_sub(digits);
    Some(quotient.round_dp(places.max(PLACES_OF_QUOTIENTS)).normalize())
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("null"),
            Self::Bool(value) => value.fmt(formatter),
            Self::Number(number) => number.fmt(formatter),
            Self::Text(text) => formatter.write_str(text),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            // A decimal's text is a JSON number, all digits of which are to be kept.
            Self::Number(number) => RawValue::from_string(number.to_string())
                .map_err(serde::ser::Error::custom)?
                .serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::Value;

    #[test]
    fn cells_are_numbers_only_when_nothing_is_lost() {
        for number in ["0", "12", "-0.50", "1e3", "79228162514264337593543950335"] {
            assert!(matches!(Value::of_cell(number), Value::Number(_)), "{number}");
        }
        for text in [
            "007",
            "+49",
            "1,5",
            "1.",
            ".5",
            "-",
            "1e",
            "e3",
            "12 kg",
            "NaN",
            "1_000",
            "2026-01-02",
            "1e999",
            "79228162514264337593543950336",
        ] {
            assert_eq!(Value::of_cell(text), Value::Text(text.to_owned()), "{text}");
        }
        assert_eq!(Value::of_cell(" "), Value::Null);
    }

    #[test]
    fn text_compares_with_numbers_as_a_number() {
        let (number, text) = (Value::of_cell("7"), |text: &str| Value::Text(text.to_owned()));
        assert_eq!(number.compare(&text("007")), Some(Ordering::Equal));
        assert_eq!(number.compare(&text("x")), Some(Ordering::Less));
        assert_eq!(number.compare(&Value::Null), None);
        assert_eq!(Value::Bool(true).compare(&text("TRUE")), Some(Ordering::Equal));
        assert_eq!(Value::Null.order(&number), Ordering::Less);
    }
}
