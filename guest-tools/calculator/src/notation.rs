//! Writing a result down, and saying how much of the truth it is.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed as _, Zero as _};
use schemars::JsonSchema;
use serde::Serialize;

use super::ball::Ball;
use super::number::Number;
use super::obstacle::Obstacle;

/// The most significant digits of a rounded value: those of IEEE 754's decimal128.
const ROUNDED_DIGITS: usize = 34;
/// The most significant digits of an exact value with a fractional part, and the most trailing zeros written
/// out.
const EXACT_DIGITS: usize = 100;
/// The most zeros written between the point and the first digit.
const LEADING_ZEROS: i64 = 6;

/// The result.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// The value in decimal notation: `0.3`, `-1.5e-12`.
    pub(crate) value: String,
    /// Whether `value` is the exact result, not a rounded one.
    pub(crate) exact: bool,
    /// The exact result as a fraction, `1/3`, when `value` had to be rounded and there is a short one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fraction: Option<String>,
}

impl Answer {
    /// Writes a number down, unless nothing of it is certain.
    pub(crate) fn of(number: &Number) -> Result<Self, Obstacle> {
        match number {
            Number::Exact(ratio) => Ok(Self::of_ratio(ratio)),
            Number::Near(ball) => Ok(Self { value: write_ball(ball)?, exact: false, fraction: None }),
        }
    }

    fn of_ratio(ratio: &BigRational) -> Self {
        if let Some(value) = write_exactly(ratio) {
            return Self { value, exact: true, fraction: None };
        }
        let fraction = Some(ratio.to_string()).filter(|fraction| fraction.len() <= 2 * ROUNDED_DIGITS);
        Self { value: round_to(ratio, ROUNDED_DIGITS).write(ROUNDED_DIGITS), exact: false, fraction }
    }
}

/// `digits[0]`.`digits[1..]` × 10^`exponent`, without zeros at the end.
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn new(number: &BigInt, decimals: i64) -> Self {
        let mut digits = number.magnitude().to_string();
        let exponent = digits.len() as i64 - 1 - decimals;
        digits.truncate(digits.trim_end_matches('0').len().max(1));
        Self { is_negative: number.is_negative(), digits, exponent }
    }

    /// Writes the digits with a point, or in scientific notation where they would take too many zeros: more
    /// than six after the point, or more before it than make up `width`.
    fn write(&self, width: usize) -> String {
        let digits = &self.digits;
        let sign = if self.is_negative { "-" } else { "" };
        let zeros = self.exponent + 1 - digits.len() as i64;
        match self.exponent {
            exponent if exponent < -LEADING_ZEROS - 1 || (zeros > 0 && exponent >= width as i64) => {
                let (first, rest) = digits.split_at(1);
                let point = if rest.is_empty() { "" } else { "." };
                format!("{sign}{first}{point}{rest}e{exponent}")
            }
            exponent if exponent < 0 => {
                format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize))
            }
            _ if zeros >= 0 => format!("{sign}{digits}{}", "0".repeat(zeros as usize)),
            exponent => {
                let (whole, fraction) = digits.split_at(exponent as usize + 1);
                format!("{sign}{whole}.{fraction}")
            }
        }
    }
}

/// Writes a fraction in full, if its decimals come to an end soon enough.
fn write_exactly(ratio: &BigRational) -> Option<String> {
    let decimals = count_decimals(ratio.denom())?;
    let scaled = ratio * BigInt::from(10).pow(decimals);
    let decimal = Decimal::new(scaled.numer(), i64::from(decimals));
    let is_short = ratio.is_integer() || decimal.digits.len() <= EXACT_DIGITS;
    is_short.then(|| decimal.write(decimal.digits.len().max(ROUNDED_DIGITS) + EXACT_DIGITS))
}

/// How many decimals a fraction with this denominator has, if they come to an end: the denominator is then
/// 2^a 5^b.
fn count_decimals(denominator: &BigInt) -> Option<u32> {
    let twos = denominator.trailing_zeros()?;
    let rest = denominator >> twos;
    // 5^b has between (bits - 1) / log2(5) and bits / log2(5) factors, and there is room for one whole number
    // there.
    let fives = ((rest.bits() - 1) as f64 / 5_f64.log2()).ceil() as u32;
    (BigInt::from(5).pow(fives) == rest).then_some(fives.max(u32::try_from(twos).ok()?))
}

fn write_ball(ball: &Ball) -> Result<String, Obstacle> {
    if ball.rounds_to_zero() {
        return Ok("0".to_owned());
    }
    match ball.certain_digits().min(ROUNDED_DIGITS) {
        0 => Err(Obstacle::NoDigitLeft),
        digits => Ok(round_to(&ball.middle(), digits).write(ROUNDED_DIGITS)),
    }
}

/// Rounds to that many significant digits, halves away from zero.
fn round_to(ratio: &BigRational, digits: usize) -> Decimal {
    if ratio.is_zero() {
        return Decimal::new(&BigInt::zero(), 0);
    }
    let limit = BigInt::from(10).pow(digits as u32);
    // The bits tell the power of ten of the first digit to within one; rounding may carry into one more.
    let bits = ratio.numer().bits() as f64 - ratio.denom().bits() as f64;
    let mut exponent = ((bits - 1.0) * std::f64::consts::LOG10_2).floor() as i64;
    loop {
        let decimals = digits as i64 - 1 - exponent;
        let scaled = scale_by_ten(ratio, decimals).round().to_integer();
        if scaled.abs() < limit {
            return Decimal::new(&scaled, decimals);
        }
        exponent += 1;
    }
}

fn scale_by_ten(ratio: &BigRational, power: i64) -> BigRational {
    let ten = BigInt::from(10).pow(power.unsigned_abs() as u32);
    if power >= 0 { ratio * ten } else { ratio / ten }
}
