//! Converts a value, exactly where that is possible.

use num_rational::BigRational;
use num_traits::{Signed as _, Zero as _};
use schemars::JsonSchema;
use serde::Serialize;

use crate::names::{Found, find, symbols_of};
use crate::notation::{read, write};

/// The result.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Answer {
    value: String,
    /// Whether these are all digits.
    exact: bool,
    from: String,
    to: String,
}

/// The longest number that is read, in bytes: every float is shorter.
const LONGEST_VALUE: usize = 400;

/// Converts between two units, given by name.
pub(crate) fn convert(value: &str, from: &str, to: &str) -> Result<Answer, String> {
    let value = Some(value).filter(|value| value.len() <= LONGEST_VALUE);
    let value = value.and_then(|value| read(&value.to_ascii_lowercase()));
    let value = value.ok_or("`value` is no finite number")?;
    let (ours, theirs) = (find(from)?, find(to)?);
    let pair = ours.iter().find_map(|from| {
        let to = theirs.iter().find(|to| to.quantity == from.quantity)?;
        Some((from, to))
    });
    let Some((from, to)) = pair else { return Err(refuse(&ours, &theirs)) };
    let in_base = (value + &from.offset) * &from.factor;
    if from.quantity == "temperature" && in_base.is_negative() {
        return Err("that is below absolute zero, 0 K or -273.15 °C".to_owned());
    }
    let converted: BigRational = in_base / &to.factor - &to.offset;
    let (value, is_all) = write(&converted);
    let is_exact = (from.is_exact && to.is_exact) || from.name == to.name || converted.is_zero();
    Ok(Answer { value, exact: is_all && is_exact, from: from.name.clone(), to: to.name.clone() })
}

fn refuse(ours: &[Found], theirs: &[Found]) -> String {
    let (Some(from), Some(to)) = (ours.first(), theirs.first()) else {
        return "there is no such unit".to_owned();
    };
    format!(
        "`{}` measures {} and `{}` {}: units of {} are {}",
        from.name,
        from.quantity,
        to.name,
        to.quantity,
        from.quantity,
        symbols_of(from.quantity)
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Answer;
    use crate::units::QUANTITIES;

    fn convert(value: f64, from: &str, to: &str) -> Result<Answer, String> {
        super::convert(&value.to_string(), from, to)
    }

    #[test]
    fn all_digits_that_were_written_count() {
        for (value, bits) in [
            ("9007199254740993", "72057594037927944"),
            ("18446744073709551615", "147573952589676412920"),
            ("1.25E3", "10000"),
            ("1e-1", "0.8"),
        ] {
            let answer = super::convert(value, "B", "bit").unwrap();
            assert_eq!((answer.value.as_str(), answer.exact), (bits, true), "{value}");
        }
    }

    #[test]
    fn values_are_converted() {
        for (value, from, to, converted, is_exact) in [
            (1.0, "mi", "km", "1.609344", true),
            (100.0, "km/h", "mph", "62.1371192237334", false),
            (5.0, "ft", "cm", "152.4", true),
            (98.6, "F", "C", "37", true),
            (-40.0, "°C", "°F", "-40", true),
            (0.0, "kelvin", "celsius", "-273.15", true),
            (1.0, "GiB", "MB", "1073.741824", true),
            (100.0, "Mbps", "MB/s", "12.5", true),
            (8.0, "oz", "ml", "236.5882365", true),
            (8.0, "oz", "g", "226.796185", true),
            (1.0, "atm", "psi", "14.6959487755134", false),
            (180.0, "deg", "rad", "3.14159265358979", false),
            (90.0, "°", "turn", "0.25", true),
            (1.0, "hp", "W", "745.69987158227022", true),
            (30.0, "'", "degree", "0.5", true),
            (250.0, "Cal", "kJ", "1046", true),
            (1.0, "Calories", "calories", "1000", true),
            (1.0, "kcal", "kilocalories", "1", true),
            (1.0, "year", "days", "365.2425", true),
            (1.0, "ly", "km", "9460730472580.8", true),
            (0.1, "m", "mm", "100", true),
            (30.0, "mpg", "km/l", "12.7543112229082", false),
        ] {
            let answer = convert(value, from, to).unwrap();
            assert_eq!((answer.value.as_str(), answer.exact), (converted, is_exact), "{value} {from} {to}");
        }
        assert_eq!(convert(1.0, "eV", "J").unwrap().value, "1.602176634e-19");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (value, from, to, reason) in [
            (1.0, "kg", "m", "`kilogram` measures mass and `meter` length: units of mass are g, t, lb, oz,"),
            (1.0, "kg", "metr", "there is no unit `metr`: did you mean `meter`?"),
            (-300.0, "C", "F", "that is below absolute zero, 0 K or -273.15 °C"),
            (f64::NAN, "m", "m", "`value` is no finite number"),
        ] {
            let refusal = convert(value, from, to).unwrap_err();
            assert!(refusal.starts_with(reason), "{refusal}");
        }
    }

    #[test]
    fn there_and_back_is_the_same_for_every_unit() {
        for quantity in &QUANTITIES {
            let others = quantity.units.iter().cycle().skip(1);
            for (one, next) in quantity.units.iter().zip(others) {
                for another in [&quantity.units[0], next] {
                    let there = convert(300.0, one.name, another.name).unwrap();
                    let back = convert(there.value.parse().unwrap(), another.name, one.name).unwrap();
                    let back: f64 = back.value.parse().unwrap();
                    assert!((back - 300.0).abs() < 1e-9, "{} {}: {back}", one.name, another.name);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_value_and_name_ends(value in any::<f64>(), from in "\\PC{0,8}", to in "(k|m|M|i|B|b|s|/| ){0,5}") {
            drop(convert(value, &from, &to));
            drop(convert(value, "mi", "nm"));
        }
    }
}
