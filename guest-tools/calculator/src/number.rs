//! The numbers that a calculation is done in: exact as long as that is reasonable, a ball from there on.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_rational::BigRational;
use num_traits::{One as _, Signed as _, ToPrimitive as _, Zero as _};

use super::ball::Ball;
use super::obstacle::Obstacle;

/// Fractions stay exact while numerator and denominator have no more than these bits each: 2000 digits.
const EXACT_BITS: u64 = 6644;
/// Numbers with no more bits stay exact in a long calculation, too: those that people write.
const SHORT_BITS: u64 = 256;
/// Roots are tried for exactness up to this one.
const EXACT_ROOT: u32 = 64;
/// The most decimals that `round` rounds to, and the most zeros before the point.
const MOST_DECIMALS: i64 = 1000;

#[derive(Clone, Debug)]
pub(crate) enum Number {
    Exact(BigRational),
    /// One of these.
    Near(Ball),
}

use Number::{Exact, Near};

impl Default for Number {
    fn default() -> Self {
        Exact(BigRational::zero())
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Exact(BigRational::from(BigInt::from(value)))
    }
}

impl Number {
    /// An exact number, or the ball around it when it has too many digits to go on with.
    pub(crate) fn settle(ratio: BigRational) -> Result<Self, Obstacle> {
        if bits_of(&ratio) <= EXACT_BITS { Ok(Exact(ratio)) } else { Ball::around(&ratio).map(Near) }
    }

    /// How long an exact number is; what a ball costs does not count.
    pub(crate) fn exact_bits(&self) -> u64 {
        match self {
            Exact(x) => bits_of(x),
            Near(_) => 0,
        }
    }

    /// The ball around a long exact number, so that going on with it costs little.
    pub(crate) fn round_long(self) -> Result<Self, Obstacle> {
        if self.exact_bits() > SHORT_BITS { self.to_ball().map(Near) } else { Ok(self) }
    }

    pub(crate) fn negate(&self) -> Self {
        match self {
            Exact(x) => Exact(-x),
            Near(x) => Near(x.negate()),
        }
    }

    pub(crate) fn absolute(&self) -> Self {
        match self {
            Exact(x) => Exact(x.abs()),
            Near(x) => Near(x.absolute()),
        }
    }

    pub(crate) fn add(&self, other: &Self) -> Result<Self, Obstacle> {
        match (self, other) {
            (Exact(x), Exact(y)) => Self::settle(x + y),
            (x, y) => x.to_ball()?.add(&y.to_ball()?).map(Near),
        }
    }

    pub(crate) fn multiply(&self, other: &Self) -> Result<Self, Obstacle> {
        match (self, other) {
            (Exact(x), Exact(y)) => Self::settle(x * y),
            (Exact(zero), _) | (_, Exact(zero)) if zero.is_zero() => Ok(Self::default()),
            (x, y) => x.to_ball()?.multiply(&y.to_ball()?).map(Near),
        }
    }

    pub(crate) fn divide(&self, other: &Self) -> Result<Self, Obstacle> {
        match (self, other) {
            (_, Exact(y)) if y.is_zero() => Err(Obstacle::DivisionByZero),
            (Exact(x), Exact(y)) => Self::settle(x / y),
            (x, y) => x.to_ball()?.divide(&y.to_ball()?).map(Near),
        }
    }

    /// What is left of a division into whole parts; like a clock's hand, it has the divisor's sign.
    pub(crate) fn remainder(&self, divisor: &Self) -> Result<Self, Obstacle> {
        let parts = self.divide(divisor)?.to_whole(|ratio| ratio.floor())?;
        self.add(&parts.multiply(divisor)?.negate())
    }

    pub(crate) fn power(&self, exponent: &Self) -> Result<Self, Obstacle> {
        match (self, exponent) {
            (_, Exact(n)) if n.is_integer() => self.whole_power(n.numer()),
            (Exact(x), Exact(y)) if x.is_zero() => {
                if y.is_negative() {
                    Err(Obstacle::DivisionByZero)
                } else {
                    Ok(Self::default())
                }
            }
            (Exact(x), Exact(y)) => match exact_root(x, y.denom()) {
                Some(root) => Exact(root).whole_power(y.numer()),
                None => self.real_power(exponent),
            },
            _ => self.real_power(exponent),
        }
    }

    fn whole_power(&self, exponent: &BigInt) -> Result<Self, Obstacle> {
        if exponent.is_negative() {
            return Self::from(1).divide(self)?.whole_power(&-exponent);
        }
        if exponent.is_zero() {
            return Ok(Self::from(1));
        }
        if let Exact(x) = self {
            if x.is_one() {
                return Ok(Self::from(1));
            }
            if x.is_zero() || (-x).is_one() {
                return Ok(if exponent.is_odd() { self.clone() } else { self.absolute() });
            }
            // The power of an n-bit number has more than n - 1 times as many bits as the exponent says.
            let small = exponent.to_u32().filter(|&n| u64::from(n) * (bits_of(x) - 1) <= EXACT_BITS);
            if let Some(small) = small.and_then(|small| i32::try_from(small).ok()) {
                return Self::settle(x.pow(small));
            }
        }
        match exponent.to_u64() {
            Some(exponent) => self.to_ball()?.power(exponent).map(Near),
            None => {
                let size = self.absolute().real_power(&Exact(exponent.clone().into()))?;
                Ok(if self.to_ball()?.is_negative() && exponent.is_odd() { size.negate() } else { size })
            }
        }
    }

    /// x^y = e^(y ln x), for x > 0.
    fn real_power(&self, exponent: &Self) -> Result<Self, Obstacle> {
        if self.to_ball()?.is_negative() {
            return Err(Obstacle::Undefined(
                "a negative number to a power that is not whole has no real value",
            ));
        }
        exponent.multiply(&self.logarithm()?)?.exponential()
    }

    pub(crate) fn square_root(&self) -> Result<Self, Obstacle> {
        if let Exact(x) = self
            && let Some(root) = exact_root(x, &BigInt::from(2))
        {
            return Ok(Exact(root));
        }
        self.to_ball()?.square_root().map(Near)
    }

    pub(crate) fn cube_root(&self) -> Result<Self, Obstacle> {
        let third = Exact(BigRational::new(BigInt::one(), BigInt::from(3)));
        let size = self.absolute().power(&third)?;
        let is_negative = match self {
            Exact(x) => x.is_negative(),
            Near(x) => x.is_negative(),
        };
        Ok(if is_negative { size.negate() } else { size })
    }

    pub(crate) fn exponential(&self) -> Result<Self, Obstacle> {
        match self {
            Exact(x) if x.is_zero() => Ok(Self::from(1)),
            x => x.to_ball()?.exponential().map(Near),
        }
    }

    pub(crate) fn logarithm(&self) -> Result<Self, Obstacle> {
        match self {
            Exact(x) if x.is_zero() => Err(Obstacle::Undefined("zero has no logarithm")),
            Exact(x) if x.is_one() => Ok(Self::default()),
            x => x.to_ball()?.logarithm().map(Near),
        }
    }

    pub(crate) fn logarithm_to(&self, base: u32) -> Result<Self, Obstacle> {
        if let Exact(x) = self
            && let Some(exponent) = exact_logarithm(x, base)
        {
            return Ok(Self::from(exponent));
        }
        self.logarithm()?.divide(&Self::from(i64::from(base)).logarithm()?)
    }

    pub(crate) fn sine(&self) -> Result<Self, Obstacle> {
        match self {
            Exact(x) if x.is_zero() => Ok(Self::default()),
            x => x.to_ball()?.sine().map(Near),
        }
    }

    pub(crate) fn cosine(&self) -> Result<Self, Obstacle> {
        match self {
            Exact(x) if x.is_zero() => Ok(Self::from(1)),
            x => x.to_ball()?.cosine().map(Near),
        }
    }

    pub(crate) fn tangent(&self) -> Result<Self, Obstacle> {
        self.sine()?.divide(&self.cosine()?).map_err(|obstacle| match obstacle {
            Obstacle::DivisionByNearlyZero => Obstacle::Undefined("the tangent of this angle is infinite"),
            other => other,
        })
    }

    /// asin x = 2 atan(x / (1 + √(1 - x²))).
    pub(crate) fn arc_sine(&self) -> Result<Self, Obstacle> {
        let one = Self::from(1);
        let rest =
            one.add(&self.multiply(self)?.negate())?.square_root().map_err(|obstacle| match obstacle {
                Obstacle::Undefined(_) => {
                    Obstacle::Undefined("only numbers from -1 to 1 have a real arc sine")
                }
                other => other,
            })?;
        Self::from(2).multiply(&self.divide(&one.add(&rest)?)?.arc_tangent()?)
    }

    /// acos x = π/2 - asin x.
    pub(crate) fn arc_cosine(&self) -> Result<Self, Obstacle> {
        let right_angle = Near(Ball::pi()?).divide(&Self::from(2))?;
        right_angle.add(&self.arc_sine()?.negate())
    }

    pub(crate) fn arc_tangent(&self) -> Result<Self, Obstacle> {
        match self {
            Exact(x) if x.is_zero() => Ok(Self::default()),
            x => x.to_ball()?.arc_tangent().map(Near),
        }
    }

    /// Rounds to so many decimals, halves away from zero.
    pub(crate) fn round(&self, decimals: Option<&Self>) -> Result<Self, Obstacle> {
        let decimals = match decimals {
            None => Some(0),
            Some(Exact(decimals)) if decimals.is_integer() => decimals.numer().to_i64(),
            Some(_) => None,
        };
        let decimals = decimals
            .filter(|decimals| decimals.abs() <= MOST_DECIMALS)
            .ok_or(Obstacle::Undefined("decimals must be a whole number from -1000 to 1000"))?;
        let scale = BigRational::from(BigInt::from(10)).pow(decimals as i32);
        self.to_whole(|ratio| (ratio * &scale).round() / &scale)
    }

    /// Applies a function whose value goes up in steps. A ball must lie on one step for it to have a value.
    pub(crate) fn to_whole(&self, step: impl Fn(&BigRational) -> BigRational) -> Result<Self, Obstacle> {
        match self {
            Exact(x) => Self::settle(step(x)),
            Near(x) => {
                let (lower, upper) = x.bounds();
                let value = step(&lower);
                if value == step(&upper) { Self::settle(value) } else { Err(Obstacle::TooCloseToCall) }
            }
        }
    }

    pub(crate) fn smaller(&self, other: &Self) -> Result<Self, Obstacle> {
        Ok(self.negate().larger(&other.negate())?.negate())
    }

    pub(crate) fn larger(&self, other: &Self) -> Result<Self, Obstacle> {
        let ((lower, upper), (other_lower, other_upper)) = (self.bounds(), other.bounds());
        if lower >= other_upper {
            Ok(self.clone())
        } else if other_lower >= upper {
            Ok(other.clone())
        } else {
            Ball::between(&lower.max(other_lower), &upper.max(other_upper)).map(Near)
        }
    }

    fn bounds(&self) -> (BigRational, BigRational) {
        match self {
            Exact(x) => (x.clone(), x.clone()),
            Near(x) => x.bounds(),
        }
    }

    fn to_ball(&self) -> Result<Ball, Obstacle> {
        match self {
            Exact(x) => Ball::around(x),
            Near(x) => Ok(x.clone()),
        }
    }
}

fn bits_of(ratio: &BigRational) -> u64 {
    ratio.numer().bits().max(ratio.denom().bits())
}

/// The root of that degree, if it is a fraction.
fn exact_root(ratio: &BigRational, degree: &BigInt) -> Option<BigRational> {
    let degree = degree.to_u32().filter(|&degree| degree <= EXACT_ROOT && !ratio.is_negative())?;
    let root = |whole: &BigInt| Some(whole.nth_root(degree)).filter(|root| root.pow(degree) == *whole);
    Some(BigRational::new_raw(root(ratio.numer())?, root(ratio.denom())?))
}

/// The logarithm, if it is whole.
fn exact_logarithm(ratio: &BigRational, base: u32) -> Option<i64> {
    let (power, sign) = match (ratio.numer(), ratio.denom()) {
        (numerator, one) if one.is_one() => (numerator, 1),
        (one, denominator) if one.is_one() => (denominator, -1),
        _ => return None,
    };
    let guess = ((power.bits().saturating_sub(1)) as f64 / f64::from(base).log2()).ceil();
    (BigInt::from(base).pow(guess as u32) == *power).then_some(guess as i64 * sign)
}
