//! Functions of one row.

use rust_decimal::prelude::ToPrimitive as _;
use rust_decimal::{Decimal, RoundingStrategy};

use crate::value::{Value, read_number};

/// Characters that people write into numbers, which `number` leaves out.
const DECORATION: [char; 10] = ['\'', '_', ' ', '\u{a0}', '\u{202f}', '$', '€', '£', '¥', '%'];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Coalesce,
    Integer,
    Length,
    Lower,
    NullIf,
    Number,
    Replace,
    Round,
    Substr,
    Text,
    Trim,
    Upper,
}

/// Names, functions, and how many arguments they take.
const FUNCTIONS: [(&str, Function, usize, usize); 17] = [
    ("abs", Function::Abs, 1, 1),
    ("coalesce", Function::Coalesce, 1, 20),
    ("ifnull", Function::Coalesce, 2, 2),
    ("integer", Function::Integer, 1, 1),
    ("len", Function::Length, 1, 1),
    ("length", Function::Length, 1, 1),
    ("lower", Function::Lower, 1, 1),
    ("nullif", Function::NullIf, 2, 2),
    ("number", Function::Number, 1, 1),
    ("replace", Function::Replace, 3, 3),
    ("round", Function::Round, 1, 2),
    ("substr", Function::Substr, 2, 3),
    ("substring", Function::Substr, 2, 3),
    ("text", Function::Text, 1, 1),
    ("trim", Function::Trim, 1, 1),
    ("ucase", Function::Upper, 1, 1),
    ("upper", Function::Upper, 1, 1),
];

impl Function {
    /// Finds a function for so many arguments, or says what is wrong.
    pub(crate) fn find(name: &str, arguments: usize) -> Result<Self, String> {
        let found = FUNCTIONS.iter().find(|(own, ..)| own.eq_ignore_ascii_case(name));
        let Some(&(name, function, least, most)) = found else {
            let names: Vec<_> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
            return Err(format!(
                "there is no function `{name}`, only: count, sum, avg, min, max, median, {}, and CAST(… AS …)",
                names.join(", ")
            ));
        };
        if (least..=most).contains(&arguments) {
            return Ok(function);
        }
        let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Err(format!("`{name}` takes {wanted} arguments, not {arguments}"))
    }

    /// The function's value; null of null, but for `coalesce` and `nullif`.
    pub(crate) fn call(self, arguments: &[Value]) -> Result<Value, String> {
        if let Self::Coalesce = self {
            return Ok(arguments.iter().find(|value| **value != Value::Null).cloned().unwrap_or(Value::Null));
        }
        if let (Self::NullIf, [one, another]) = (self, arguments) {
            let is_same = one.compare(another).is_some_and(std::cmp::Ordering::is_eq);
            return Ok(if is_same { Value::Null } else { one.clone() });
        }
        if arguments.contains(&Value::Null) {
            return Ok(Value::Null);
        }
        let [first, others @ ..] = arguments else { return Ok(Value::Null) };
        Ok(match self {
            Self::Abs => Value::Number(wanted_number("abs", first)?.abs()),
            Self::Integer => Value::Number(wanted_number("CAST AS integer", first)?.trunc()),
            Self::Length => Value::Number(first.to_string().chars().count().into()),
            Self::Lower => Value::Text(first.to_string().to_lowercase()),
            Self::Upper => Value::Text(first.to_string().to_uppercase()),
            Self::Trim => Value::Text(first.to_string().trim().to_owned()),
            Self::Text => Value::Text(first.to_string()),
            Self::Number => Value::Number(undecorated_number(first)?),
            Self::Replace => Value::Text(replace(first, others)?),
            Self::Round => Value::Number(round(first, others)?),
            Self::Substr => Value::Text(substr(first, others)?),
            Self::Coalesce | Self::NullIf => Value::Null,
        })
    }
}

fn wanted_number(function: &str, value: &Value) -> Result<Decimal, String> {
    value.number().ok_or_else(|| {
        format!(
            "{function} needs a number and got `{value}`: number(…) reads one with signs such as `1,250 €`"
        )
    })
}

fn undecorated_number(value: &Value) -> Result<Decimal, String> {
    if let Some(number) = value.number() {
        return Ok(number);
    }
    let text: String = value.to_string().chars().filter(|one| !DECORATION.contains(one)).collect();
    let number = read_number(&text.replace(',', ""));
    let number =
        number.ok_or_else(|| format!("number cannot read `{value}`: leave such rows out with WHERE"))?;
    if has_decimal_comma(&text) {
        return Err(format!(
            "number reads commas as thousands, and in `{value}` there is another: write number(replace(replace(…, '.', ''), \
             ',', '.')) if it is a decimal comma"
        ));
    }
    Ok(number)
}

/// Whether a comma stands where none between thousands does: those have three digits behind the last one, and
/// two or three between others (India's `12,34,567`).
fn has_decimal_comma(number: &str) -> bool {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let Some((first, groups)) = whole.split_once(',') else { return decimals.contains(',') };
    let first = first.trim_start_matches(['-', '+']);
    let mut groups = groups.rsplit(',').map(str::len);
    let is_grouped = (1..=3).contains(&first.len())
        && !first.starts_with('0')
        && groups.next() == Some(3)
        && groups.all(|digits| matches!(digits, 2 | 3));
    !is_grouped || decimals.contains(',')
}

fn replace(text: &Value, others: &[Value]) -> Result<String, String> {
    /// So that no text grows without end.
    const LONGEST: usize = 64 << 10;
    let [from, to] = others else { return Ok(text.to_string()) };
    let (text, from, to) = (text.to_string(), from.to_string(), to.to_string());
    if from.is_empty() {
        return Ok(text);
    }
    let length = text.len() + text.matches(&from).count() * to.len();
    if length > LONGEST {
        return Err(format!("replace would make a text of more than {LONGEST} bytes"));
    }
    Ok(text.replace(&from, &to))
}

fn round(number: &Value, others: &[Value]) -> Result<Decimal, String> {
    let number = wanted_number("round", number)?;
    let places = others.first().map_or(Ok(Decimal::ZERO), |places| wanted_number("round", places))?;
    let places = places.to_u32().filter(|places| *places <= 28);
    let places = places.ok_or("round takes 0 to 28 decimal places")?;
    Ok(number.round_dp_with_strategy(places, RoundingStrategy::MidpointAwayFromZero))
}

/// Characters count from 1; a start below zero counts from the end.
fn substr(text: &Value, others: &[Value]) -> Result<String, String> {
    let text = text.to_string();
    let mut numbers = others.iter().map(|value| {
        let number = wanted_number("substr", value)?;
        number.trunc().to_i64().ok_or_else(|| format!("substr cannot count to {number}"))
    });
    let start = numbers.next().unwrap_or(Ok(1))?;
    // In WebAssembly a `usize` has 32 bits: what does not fit is more characters than any text has.
    let length = numbers.next().unwrap_or(Ok(i64::MAX))?.max(0);
    let characters = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let from = if start < 0 { (characters.saturating_add(start)).max(0) } else { (start - 1).max(0) };
    let skip = usize::try_from(from).unwrap_or(usize::MAX);
    Ok(text.chars().skip(skip).take(usize::try_from(length).unwrap_or(usize::MAX)).collect())
}
