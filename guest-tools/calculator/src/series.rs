//! The power series, in fixed point: a whole number `x` with a `scale` stands for x / 2^scale.
//!
//! Each function is off by less than [`error`] units, for arguments such as its callers in [`super::ball`]
//! reduce theirs to: there are fewer than 500 terms, each cut off by a unit or two.

use num_bigint::{BigInt, BigUint};
use num_traits::{One as _, Signed as _, Zero as _};

/// What any of these may be off by, in units: some hundred terms of a unit or two each, times eight for those
/// that are multiplied, and then some.
pub(crate) fn error() -> BigUint {
    BigUint::from(1_u32 << 14)
}

/// π = 16 arctan(1/5) - 4 arctan(1/239), by Machin.
pub(crate) fn pi(scale: i64) -> BigInt {
    inverse_series(5, scale, true) * 16 - inverse_series(239, scale, true) * 4
}

/// ln 2 = 2 artanh(1/3).
pub(crate) fn ln_2(scale: i64) -> BigInt {
    inverse_series(3, scale, false) * 2
}

/// e^x for 0 <= x < 1.
pub(crate) fn exp(x: &BigInt, scale: i64) -> BigInt {
    let mut term = BigInt::one() << scale;
    let mut sum = term.clone();
    let mut n = 1_u32;
    while !term.is_zero() {
        term = ((term * x) >> scale) / n;
        sum += &term;
        n += 1;
    }
    sum
}

/// sin x for |x| < 1.
pub(crate) fn sin(x: &BigInt, scale: i64) -> BigInt {
    alternate(x.clone(), x, 1, scale)
}

/// cos x for |x| < 1.
pub(crate) fn cos(x: &BigInt, scale: i64) -> BigInt {
    alternate(BigInt::one() << scale, x, 0, scale)
}

/// artanh x for 0 <= x < 1/2.
pub(crate) fn artanh(x: &BigInt, scale: i64) -> BigInt {
    odd_powers(x, scale, false)
}

/// arctan x for |x| < 1/2.
pub(crate) fn arctan(x: &BigInt, scale: i64) -> BigInt {
    // A negative number shifted to the right never becomes zero, so the sum is taken on the positive side.
    let sum = odd_powers(&x.abs(), scale, true);
    if x.is_negative() { -sum } else { sum }
}

/// `term` - `term` x²/((k+1)(k+2)) + …
fn alternate(mut term: BigInt, x: &BigInt, mut k: u32, scale: i64) -> BigInt {
    let square = (x * x) >> scale;
    let mut sum = term.clone();
    while !term.is_zero() {
        term = -((term * &square) >> scale) / ((k + 1) * (k + 2));
        sum += &term;
        k += 2;
    }
    sum
}

/// x ± x³/3 + x⁵/5 ± …
fn odd_powers(x: &BigInt, scale: i64, alternating: bool) -> BigInt {
    let square = (x * x) >> scale;
    let mut power = x.clone();
    let mut sum = x.clone();
    let mut n = 1_u32;
    while !power.is_zero() {
        power = (power * &square) >> scale;
        n += 2;
        if alternating && n % 4 == 3 {
            sum -= &power / n;
        } else {
            sum += &power / n;
        }
    }
    sum
}

/// [`odd_powers`] at x = 1/`n`, where a small division takes the place of a long multiplication.
fn inverse_series(inverse: u32, scale: i64, alternating: bool) -> BigInt {
    let mut power = (BigInt::one() << scale) / inverse;
    let mut sum = power.clone();
    let mut n = 1_u32;
    while !power.is_zero() {
        power /= inverse * inverse;
        n += 2;
        if alternating && n % 4 == 3 {
            sum -= &power / n;
        } else {
            sum += &power / n;
        }
    }
    sum
}
