//! Numbers as JSON Schema compares them: by value, whatever they were written as.

use std::cmp::Ordering;

use serde_json::Number;

/// A number by its value: `1`, `1.0` and `1e0` are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exact {
    /// A whole number. Every one that JSON text can give fits, or is too large to be told from its
    /// neighbours.
    Whole(i128),
    /// The bits of any other.
    Other(u64),
}

impl Exact {
    /// Of a number as it was read.
    pub fn of(number: &Number) -> Self {
        if let Some(whole) = number.as_i64() {
            return Self::Whole(i128::from(whole));
        }
        if let Some(whole) = number.as_u64() {
            return Self::Whole(i128::from(whole));
        }
        let float = number.as_f64().unwrap_or(f64::NAN);
        if is_whole(float) && float.abs() < MOST_WHOLE {
            return Self::Whole(truncated(float));
        }
        Self::Other(float.to_bits())
    }

    /// Whether it is an integer in JSON Schema's sense.
    pub fn is_integer(self) -> bool {
        match self {
            Self::Whole(_) => true,
            // Floats beyond the largest that is kept whole have no fraction.
            Self::Other(bits) => is_whole(f64::from_bits(bits)),
        }
    }

    /// The number, if it is a whole one of that range.
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::Whole(whole) => u64::try_from(whole).ok(),
            Self::Other(_) => None,
        }
    }

    /// How two numbers compare; nothing if one is not a number, which JSON text cannot give.
    pub fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => Some(a.cmp(&b)),
            (Self::Other(a), Self::Other(b)) => f64::from_bits(a).partial_cmp(&f64::from_bits(b)),
            (Self::Whole(a), Self::Other(b)) => compare_whole(a, f64::from_bits(b)),
            (Self::Other(a), Self::Whole(b)) => compare_whole(b, f64::from_bits(a)).map(Ordering::reverse),
        }
    }

    /// What [`Self::is_multiple_of`] costs in steps: floats are written down and divided digit by digit.
    pub fn division_steps(self, divisor: Self) -> u64 {
        match (self, divisor) {
            (Self::Whole(value), Self::Whole(divisor))
                if is_read_as_integer(value) && is_read_as_integer(divisor) =>
            {
                1
            }
            _ => LONG_DIVISION_STEPS,
        }
    }

    /// Whether it is a multiple of a number above zero. Fractions, and whole numbers beyond 64 bits, are read
    /// as floats and count as the shortest decimals that give these floats, which is how they were written:
    /// `0.3` is a multiple of `0.1`, and `1e23` of `10`, although the float nearest to `1e23` is below it. A
    /// whole number may have been written with all its digits instead: 2^70 is a multiple of `1024` as well.
    pub fn is_multiple_of(self, divisor: Self) -> bool {
        if let (Self::Whole(value), Self::Whole(divisor)) = (self, divisor)
            && value.checked_rem(divisor) == Some(0)
        {
            return true;
        }
        let (value, divisor) = (Decimal::of(self), Decimal::of(divisor));
        if value.digits == 0 || divisor.digits == 0 {
            return value.digits == 0;
        }
        let powers = value.exponent - divisor.exponent;
        if powers < 0 {
            // What does not even fit is larger than the value.
            let divisor =
                10_u128.checked_pow(powers.unsigned_abs()).and_then(|ten| ten.checked_mul(divisor.digits));
            return divisor.is_some_and(|divisor| value.digits % divisor == 0);
        }
        // Long division: at most some six hundred zeros are brought down.
        let times_ten = |rest: u128, _| (rest * 10) % divisor.digits;
        (0..powers).fold(value.digits % divisor.digits, times_ten) == 0
    }
}

/// Steps of a division of floats: some six hundred digits at most, and two texts.
const LONG_DIVISION_STEPS: u64 = 700;

/// Below this a whole float fits into `i128`.
const MOST_WHOLE: f64 = 1e38;

/// Whether a whole number is read as an integer. Those beyond are read as floats.
fn is_read_as_integer(whole: i128) -> bool {
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&whole)
}

fn is_whole(float: f64) -> bool {
    float.is_finite() && float.trunc() == float
}

/// Without the fraction. Floats beyond the range saturate, which keeps their order.
fn truncated(float: f64) -> i128 {
    float as i128
}

/// Compares with a float that is no whole number or is larger than any of them.
fn compare_whole(whole: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    let floor = truncated(float.floor());
    // The fraction decides between equals.
    Some(whole.cmp(&floor).then(if is_whole(float) { Ordering::Equal } else { Ordering::Less }))
}

/// `digits * 10^exponent`, without a sign. There are 20 digits at most, so that ten times as much still fits.
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    fn of(number: Exact) -> Self {
        let (mut digits, mut exponent) = match number {
            Exact::Whole(whole) if is_read_as_integer(whole) => (whole.unsigned_abs(), 0),
            // Made of a float, and gives that back.
            Exact::Whole(whole) => shortest(whole as f64),
            Exact::Other(bits) => shortest(f64::from_bits(bits)),
        };
        while digits != 0 && digits % 10 == 0 {
            digits /= 10;
            exponent += 1;
        }
        Self { digits, exponent }
    }
}

/// Digits and exponent of the shortest text that gives this float back, 17 digits at most. The exact value of
/// the float has digits that nobody wrote.
fn shortest(float: f64) -> (u128, i32) {
    // A digit, its fraction, and an exponent.
    let text = format!("{:e}", float.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let shift = i32::try_from(fraction.len()).unwrap_or(0);
    let digits = format!("{whole}{fraction}").parse().unwrap_or(0);
    (digits, exponent.parse::<i32>().unwrap_or(0) - shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(text: &str) -> Exact {
        Exact::of(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert_eq!(exact("1"), exact("1.0"));
        assert_eq!(exact("-0.0"), exact("0"));
        assert_ne!(exact("9007199254740993"), exact("9007199254740992"));
        assert!(exact("1e300").is_integer() && !exact("1.5").is_integer());
    }

    #[test]
    fn order_is_exact_where_floats_are_not() {
        for (small, large) in [
            ("1", "1.5"),
            ("1.5", "2"),
            ("-1.5", "-1"),
            ("-2", "-1.5"),
            ("9007199254740992.0", "9007199254740993"),
            ("18446744073709551615", "1e300"),
            ("-1e300", "-9223372036854775808"),
            ("18446744073709551615", "18446744073709551616.0"),
        ] {
            assert_eq!(exact(small).compare(exact(large)), Some(Ordering::Less), "{small} {large}");
            assert_eq!(exact(large).compare(exact(small)), Some(Ordering::Greater), "{large} {small}");
        }
    }

    #[test]
    fn multiples_are_those_of_decimals() {
        for (number, divisor) in [
            ("0.3", "0.1"),
            ("6", "1.5"),
            ("1e300", "2"),
            ("1e300", "0.1"),
            ("0", "0.7"),
            ("-4.02", "0.01"),
            ("12", "4"),
            ("12391239123", "1e-7"),
            ("1e23", "10"),
            ("-1e23", "10"),
            ("1e24", "10"),
            ("1e37", "10"),
            ("1e37", "1e23"),
            ("1e23", "0.1"),
            ("1180591620717411303424", "1024"),
            ("18446744073709551615", "5"),
            ("-9223372036854775807", "7"),
        ] {
            assert!(exact(number).is_multiple_of(exact(divisor)), "{number} {divisor}");
        }
        for (number, divisor) in [
            ("0.35", "0.1"),
            ("7", "1.5"),
            ("13", "4"),
            ("1.5", "1"),
            ("1", "1e300"),
            ("1e300", "7"),
            ("1e23", "3"),
            ("1e23", "1e24"),
            ("1180591620717411303424", "7"),
            ("18446744073709551615", "10"),
            ("18446744073709551615", "2"),
            ("-9223372036854775807", "10"),
        ] {
            assert!(!exact(number).is_multiple_of(exact(divisor)), "{number} {divisor}");
        }
    }
}
