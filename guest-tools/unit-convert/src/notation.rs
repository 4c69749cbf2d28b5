//! Decimals as exact fractions, and back.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One as _, Signed as _, Zero as _};

use crate::units::TWO_PI;

/// Digits of a result that is rounded.
const SIGNIFICANT: usize = 15;

/// Digits of a result that is exact.
const MOST_DIGITS: usize = 30;

/// Places that are tried before a result counts as without end.
const MOST_PLACES: usize = 60;

/// Powers of 10 that are written out.
const WRITTEN_OUT: std::ops::RangeInclusive<i64> = -9..=21;

pub(crate) fn power_of_ten(power: i32) -> BigRational {
    let size = BigRational::from_integer(BigInt::from(10).pow(power.unsigned_abs()));
    if power < 0 { size.recip() } else { size }
}

/// Reads a decimal with or without an exponent, or a quotient of two; π stands for a full turn.
pub(crate) fn read(text: &str) -> Option<BigRational> {
    match text.split_once('/') {
        Some((dividend, divisor)) => {
            let divisor = read_decimal(divisor).filter(|divisor| !divisor.is_zero())?;
            Some(read_decimal(dividend)? / divisor)
        }
        None => read_decimal(text),
    }
}

fn read_decimal(text: &str) -> Option<BigRational> {
    let text = if text == "π" { TWO_PI } else { text };
    let (mantissa, exponent) = match text.split_once('e') {
        // No number that is written here needs more, and a larger one would fill the memory.
        Some((mantissa, exponent)) => {
            (mantissa, exponent.parse().ok().filter(|power| (-999..=999).contains(power))?)
        }
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: BigInt = format!("{whole}{fraction}").parse().ok()?;
    Some(BigRational::from_integer(digits) * power_of_ten(exponent - i32::try_from(fraction.len()).ok()?))
}

/// Writes a number, and says whether that is all of it.
pub(crate) fn write(number: &BigRational) -> (String, bool) {
    let (digits, exponent, is_exact) = match terminate(number) {
        Some((digits, places)) => (digits, -places, true),
        None => {
            let (digits, exponent) = round(number);
            (digits, exponent, false)
        }
    };
    let sign = if number.is_negative() { "-" } else { "" };
    (format!("{sign}{}", place_point(&digits.magnitude().to_string(), exponent)), is_exact)
}

/// The digits and decimal places of a number that has not many.
fn terminate(number: &BigRational) -> Option<(BigInt, i64)> {
    let mut scaled = number.clone();
    for places in 0..=MOST_PLACES {
        if scaled.is_integer() {
            let digits = scaled.to_integer();
            let is_short = digits.magnitude().to_string().trim_end_matches('0').len() <= MOST_DIGITS;
            return is_short.then_some((digits, i64::try_from(places).ok()?));
        }
        scaled *= BigInt::from(10);
    }
    None
}

/// The first digits of a number, and the power of 10 that they count.
fn round(number: &BigRational) -> (BigInt, i64) {
    let length = |number: &BigInt| i32::try_from(number.magnitude().to_string().len()).unwrap_or(i32::MAX);
    let size = length(number.numer()) - length(number.denom());
    let wanted = i32::try_from(SIGNIFICANT).unwrap_or(15);
    // May have a digit more than wanted.
    let mut exponent = size - wanted;
    let mut digits = (number.abs() * power_of_ten(-exponent)).round().to_integer();
    if length(&digits) > wanted {
        exponent += 1;
        digits = (number.abs() * power_of_ten(-exponent)).round().to_integer();
    }
    (digits, i64::from(exponent))
}

/// Puts the point, or an exponent where too many noughts would have to be written.
fn place_point(digits: &str, exponent: i64) -> String {
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return "0".to_owned();
    }
    let dropped = i64::try_from(digits.len() - significant.len()).unwrap_or_default();
    let exponent = exponent + dropped;
    let length = i64::try_from(significant.len()).unwrap_or_default();
    // The power of 10 of the first digit.
    let first = exponent + length - 1;
    if !WRITTEN_OUT.contains(&first) {
        let (head, tail) = significant.split_at(1);
        return if tail.is_empty() { format!("{head}e{first}") } else { format!("{head}.{tail}e{first}") };
    }
    if exponent >= 0 {
        return format!("{significant}{}", "0".repeat(usize::try_from(exponent).unwrap_or_default()));
    }
    match usize::try_from(first) {
        Ok(first) => {
            let (whole, fraction) = significant.split_at(first + 1);
            format!("{whole}.{fraction}")
        }
        Err(_) => format!("0.{}{significant}", "0".repeat(usize::try_from(-first - 1).unwrap_or_default())),
    }
}

pub(crate) fn power_of_two(power: i32) -> BigRational {
    BigRational::from_integer(BigInt::one() << power.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{read, write};

    #[test]
    fn numbers_are_written_exactly_or_rounded() {
        for (number, written, is_exact) in [
            ("0", "0", true),
            ("-0.50", "-0.5", true),
            ("100", "100", true),
            ("1/3", "0.333333333333333", false),
            ("-200/3", "-66.6666666666667", false),
            ("2999999999999999999999/3", "1000000000000000000000", false),
            ("1/3000000000000", "3.33333333333333e-13", false),
            ("1000000000000000000000000", "1e24", true),
            ("0.0000000000000000001602176634", "1.602176634e-19", true),
            ("99999999999999999999999999999999/3", "3.33333333333333e31", false),
            ("0.000000001", "0.000000001", true),
            ("1/10000000000", "1e-10", true),
            ("-2.5e-3", "-0.0025", true),
            ("1.5e24", "1.5e24", true),
        ] {
            let (text, exact) = write(&read(number).unwrap());
            assert_eq!((text.as_str(), exact), (written, is_exact), "{number}");
        }
    }

    #[test]
    fn exponents_beyond_any_number_are_refused() {
        assert_eq!([read("1e1000"), read("1e99999999999"), read("1e"), read("e1")], [const { None }; 4]);
    }

    proptest! {
        #[test]
        fn decimals_are_written_as_they_were_read(
            whole in prop_oneof![-20_i64..20, -1_000_000_i64..1_000_000],
            places in 0_u32..12,
        ) {
            let text = format!("{whole}/{}", 10_i64.pow(places));
            let (written, is_exact) = write(&read(&text).unwrap());
            prop_assert!(is_exact);
            prop_assert_eq!(read(&written), read(&text));
        }
    }
}
