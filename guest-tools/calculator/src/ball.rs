//! Ball arithmetic: real numbers known to within a radius. Every operation widens the radius by whatever it
//! may have lost, so that the true value never leaves the ball, and what is printed of one is known to be
//! right.

use num_bigint::{BigInt, BigUint, Sign};
use num_integer::Integer as _;
use num_rational::BigRational;
use num_traits::{One as _, Signed as _, ToPrimitive as _, Zero as _};

use super::obstacle::Obstacle;
use super::series;

/// How many bits of a middle are kept: 34 digits need 113, the rest is for what a long calculation loses.
const PRECISION: u64 = 256;
/// How many bits of a radius are kept. More would only blur the same blur more precisely.
const RADIUS_BITS: u64 = 32;
/// Values stay below 2 to this power, a little more than 10^10000, and above its inverse.
const LARGEST: i64 = 33_220;
/// Units are not finer than 2 to this power: [`PRECISION`] bits below the smallest value.
const FINEST: i64 = -LARGEST - 2 * PRECISION as i64;
/// Bits beyond [`PRECISION`] in which a series is summed, to drown its rounding.
const GUARD: i64 = 64;
/// Angles stay below 2 to this power. Beyond, what is left of an angle after whole turns is mostly noise.
const LARGEST_ANGLE: i64 = 64;

/// All real numbers within `radius` of `middle`, both in units of 2^`exponent`.
#[derive(Clone, Debug)]
pub(crate) struct Ball {
    middle: BigInt,
    radius: BigUint,
    exponent: i64,
}

impl Ball {
    /// Cuts a ball to size. A cut moves the middle by less than a unit and widens the radius by as much.
    fn new(middle: BigInt, radius: BigUint, exponent: i64) -> Result<Self, Obstacle> {
        let ball = Self { middle, radius, exponent };
        if ball.top() > LARGEST {
            return Err(Obstacle::TooLarge);
        }
        if !ball.contains_zero() && ball.top() < -LARGEST {
            return Err(Obstacle::TooSmall);
        }
        let excess = (ball.middle.bits().saturating_sub(PRECISION))
            .max(ball.radius.bits().saturating_sub(RADIUS_BITS))
            .max(FINEST.saturating_sub(exponent).max(0).unsigned_abs());
        if excess == 0 {
            return Ok(ball);
        }
        let exponent = exponent + excess as i64;
        let (middle, radius) = ball.in_units_of(exponent);
        Ok(Self { middle, radius, exponent })
    }

    /// The ball around a fraction.
    pub(crate) fn around(ratio: &BigRational) -> Result<Self, Obstacle> {
        if ratio.is_zero() {
            return Ok(Self { middle: BigInt::ZERO, radius: BigUint::ZERO, exponent: FINEST });
        }
        let shift = (PRECISION + 2 + ratio.denom().bits()) as i64 - ratio.numer().bits() as i64;
        let (quotient, rest) = shifted(ratio.numer(), shift).div_rem(&shifted(ratio.denom(), -shift));
        Self::new(quotient, BigUint::from(u8::from(!rest.is_zero())), -shift)
    }

    /// The ball that holds everything between two fractions.
    pub(crate) fn between(lower: &BigRational, upper: &BigRational) -> Result<Self, Obstacle> {
        let two = BigInt::from(2);
        let middle = Self::around(&((lower + upper) / &two))?;
        let spread = Self::around(&((upper - lower) / &two))?;
        let (reach, blur) = spread.in_units_of(middle.exponent);
        let radius = &middle.radius + reach.magnitude() + blur;
        Self::new(middle.middle, radius, middle.exponent)
    }

    fn one() -> Self {
        Self { middle: BigInt::one(), radius: BigUint::ZERO, exponent: 0 }
    }

    pub(crate) fn pi() -> Result<Self, Obstacle> {
        let scale = PRECISION as i64 + GUARD;
        Self::new(series::pi(scale), series::error(), -scale)
    }

    /// The middle, as a fraction.
    pub(crate) fn middle(&self) -> BigRational {
        ratio_of(self.middle.clone(), self.exponent)
    }

    /// The least and the greatest number in the ball.
    pub(crate) fn bounds(&self) -> (BigRational, BigRational) {
        let radius = BigInt::from(self.radius.clone());
        (ratio_of(&self.middle - &radius, self.exponent), ratio_of(&self.middle + &radius, self.exponent))
    }

    /// Whether zero is in the ball.
    pub(crate) fn contains_zero(&self) -> bool {
        *self.middle.magnitude() <= self.radius
    }

    /// Whether all of the ball is so near to zero that it is a right answer, be it as a whole number.
    pub(crate) fn rounds_to_zero(&self) -> bool {
        self.contains_zero() && self.top() < 0
    }

    /// How many decimal digits of the middle are certain.
    pub(crate) fn certain_digits(&self) -> usize {
        let bits = self.middle.bits().saturating_sub(self.radius.bits() + 2);
        (bits as f64 * std::f64::consts::LOG10_2) as usize
    }

    pub(crate) fn negate(&self) -> Self {
        Self { middle: -&self.middle, ..self.clone() }
    }

    /// The absolute value. Around zero the middle may be anywhere near, since | |x| - |m| | <= |x - m|.
    pub(crate) fn absolute(&self) -> Self {
        Self { middle: self.middle.abs(), ..self.clone() }
    }

    /// Whether all of the ball is below zero.
    pub(crate) fn is_negative(&self) -> bool {
        self.middle.is_negative() && !self.contains_zero()
    }

    pub(crate) fn add(&self, other: &Self) -> Result<Self, Obstacle> {
        // Where one is so small that the other's blur covers it, there is no need to write out all the zeros
        // between.
        let coarse = self.top().max(other.top()) - 2 * PRECISION as i64;
        let exponent = self.exponent.min(other.exponent).max(coarse);
        let (middle, radius) = self.in_units_of(exponent);
        let (other_middle, other_radius) = other.in_units_of(exponent);
        Self::new(middle + other_middle, radius + other_radius, exponent)
    }

    pub(crate) fn multiply(&self, other: &Self) -> Result<Self, Obstacle> {
        let radius = self.middle.magnitude() * &other.radius
            + other.middle.magnitude() * &self.radius
            + &self.radius * &other.radius;
        Self::new(&self.middle * &other.middle, radius, self.exponent + other.exponent)
    }

    pub(crate) fn divide(&self, other: &Self) -> Result<Self, Obstacle> {
        if other.contains_zero() {
            return Err(Obstacle::DivisionByNearlyZero);
        }
        let shift = (PRECISION + 2 + other.middle.bits()).saturating_sub(self.middle.bits());
        let quotient = (&self.middle << shift) / &other.middle;
        // |a/b - m/n| <= (|m| s + |n| r) / (|n| (|n| - s)) for a within r of m, b within s of n.
        let (m, n) = (self.middle.magnitude(), other.middle.magnitude());
        let spread = (m * &other.radius + n * &self.radius) << shift;
        let radius = spread.div_ceil(&(n * (n - &other.radius))) + 1_u8;
        Self::new(quotient, radius, self.exponent - other.exponent - shift as i64)
    }

    /// A whole power, by repeated squaring.
    pub(crate) fn power(&self, mut exponent: u64) -> Result<Self, Obstacle> {
        let mut square = self.clone();
        let mut product: Option<Self> = None;
        loop {
            if exponent & 1 == 1 {
                product = Some(match product {
                    Some(product) => product.multiply(&square)?,
                    None => square.clone(),
                });
            }
            exponent >>= 1;
            if exponent == 0 {
                break;
            }
            square = square.multiply(&square)?;
        }
        Ok(product.unwrap_or_else(Self::one))
    }

    pub(crate) fn square_root(&self) -> Result<Self, Obstacle> {
        if self.is_negative() {
            return Err(Obstacle::Undefined("a negative number has no real square root"));
        }
        let wanted = (2 * PRECISION + 2).saturating_sub(self.middle.bits()) as i64;
        let shift = wanted + (self.exponent - wanted).rem_euclid(2);
        let exponent = (self.exponent - shift) / 2;
        if self.contains_zero() {
            // Where there is a root at all, it is between zero and that of the greatest number in the ball.
            let greatest = &self.middle + BigInt::from(self.radius.clone());
            let half: BigInt = (((greatest << shift).sqrt() + 1_u8) >> 1_u8) + 1_u8;
            let radius = half.magnitude().clone();
            return Self::new(half, radius, exponent);
        }
        let root = (&self.middle << shift).sqrt();
        // |√(x + d) - √x| <= |d| / √x
        let radius = (&self.radius << shift).div_ceil(root.magnitude()) + 1_u8;
        Self::new(root, radius, exponent)
    }

    pub(crate) fn exponential(&self) -> Result<Self, Obstacle> {
        // e^(2^15) is beyond every bound, and a ball as wide as that has no digits.
        if self.top() > 15 {
            return Err(match self.middle.sign() {
                _ if self.contains_zero() => Obstacle::TooUncertain,
                Sign::Minus => Obstacle::TooSmall,
                Sign::NoSign | Sign::Plus => Obstacle::TooLarge,
            });
        }
        let scale = PRECISION as i64 + GUARD;
        let (x, radius) = self.in_units_of(-scale);
        if radius.bits() as i64 > scale {
            return Err(Obstacle::TooUncertain);
        }
        let ln_2 = series::ln_2(scale);
        let (twos, rest) = x.div_mod_floor(&ln_2);
        let value = series::exp(&rest, scale);
        // |e^d - 1| <= 2 |d| for |d| <= 1; and the error of ln 2 came in once for each of at most 2^16 twos.
        let radius =
            ((value.magnitude() * (radius + (series::error() << 16_u8))) >> (scale - 1)) + series::error();
        Self::new(value, radius, twos.to_i64().ok_or(Obstacle::TooLarge)? - scale)
    }

    pub(crate) fn logarithm(&self) -> Result<Self, Obstacle> {
        if self.is_negative() {
            return Err(Obstacle::Undefined("a negative number has no real logarithm"));
        }
        let least =
            self.distance_from_zero().filter(|least| !least.is_zero()).ok_or(Obstacle::TooUncertain)?;
        let scale = PRECISION as i64 + GUARD;
        let bits = self.middle.bits() as i64;
        // x = m 2^twos with 1 <= m < 2, and ln m = 2 artanh((m - 1) / (m + 1)).
        let twos = bits - 1 + self.exponent;
        let m = shifted(&self.middle, scale + 1 - bits);
        let one = BigInt::one() << scale;
        let value =
            series::artanh(&(((&m - &one) << scale) / (m + one)), scale) * 2 + series::ln_2(scale) * twos;
        // |ln(x + d) - ln x| <= |d| / (x - |d|)
        let radius = (&self.radius << scale).div_ceil(&least) + (series::error() << 17_u8);
        Self::new(value, radius, -scale)
    }

    pub(crate) fn sine(&self) -> Result<Self, Obstacle> {
        self.wave(0)
    }

    pub(crate) fn cosine(&self) -> Result<Self, Obstacle> {
        self.wave(1)
    }

    /// sin(x + `quarters` π/2).
    fn wave(&self, quarters: u8) -> Result<Self, Obstacle> {
        if self.top() > LARGEST_ANGLE {
            return Err(Obstacle::Undefined("angles beyond 10^19 are not worked with"));
        }
        // Bits for the whole turns of a large angle, and for the many zeros of a small one.
        let scale = PRECISION as i64 + GUARD + self.top().abs();
        let (x, radius) = self.in_units_of(-scale);
        let mut turns = BigInt::from(quarters);
        let mut rest = x;
        if self.top() >= 0 {
            let half_pi = series::pi(scale) >> 1_u8;
            let nearest = (&rest + (&half_pi >> 1_u8)).div_floor(&half_pi);
            rest -= &nearest * half_pi;
            turns += nearest;
        }
        let value = match turns.mod_floor(&BigInt::from(4)).to_u8() {
            Some(0) => series::sin(&rest, scale),
            Some(1) => series::cos(&rest, scale),
            Some(2) => -series::sin(&rest, scale),
            _ => -series::cos(&rest, scale),
        };
        // Neither wave is steeper than 1; and the error of π came in once for each quarter turn.
        let radius = radius + (series::error() << self.top().max(0)) + series::error();
        Self::new(value, radius, -scale)
    }

    pub(crate) fn arc_tangent(&self) -> Result<Self, Obstacle> {
        if self.top() > 1 && !self.contains_zero() {
            let pi = Self::pi()?;
            let right_angle = Self { exponent: pi.exponent - 1, ..pi };
            let right_angle = if self.middle.is_negative() { right_angle.negate() } else { right_angle };
            return right_angle.add(&Self::one().divide(self)?.arc_tangent()?.negate());
        }
        // atan x = 2 atan(x / (1 + √(1 + x²))), twice, brings x below 0.5, where the series is short.
        let quarter = self.halve_angle()?.halve_angle()?;
        let scale = PRECISION as i64 + GUARD + (-quarter.top()).max(0);
        let (x, radius) = quarter.in_units_of(-scale);
        Self::new(series::arctan(&x, scale), radius + series::error(), 2 - scale)
    }

    fn halve_angle(&self) -> Result<Self, Obstacle> {
        let one = Self::one();
        self.divide(&one.add(&one.add(&self.multiply(self)?)?.square_root()?)?)
    }

    /// The power of two that nothing in the ball reaches.
    fn top(&self) -> i64 {
        self.middle.bits().max(self.radius.bits()) as i64 + self.exponent
    }

    /// How far the whole ball is above zero, in its units.
    fn distance_from_zero(&self) -> Option<BigUint> {
        let middle = self.middle.to_biguint()?;
        (middle >= self.radius).then(|| middle - &self.radius)
    }

    /// Middle and radius in other units. Cutting off bits moves the middle by less than one unit, and the
    /// radius too.
    fn in_units_of(&self, exponent: i64) -> (BigInt, BigUint) {
        let shift = self.exponent - exponent;
        if shift >= 0 {
            (&self.middle << shift, &self.radius << shift)
        } else {
            (&self.middle >> -shift, (&self.radius >> -shift) + 2_u8)
        }
    }
}

fn shifted(number: &BigInt, shift: i64) -> BigInt {
    number << shift.max(0)
}

fn ratio_of(number: BigInt, exponent: i64) -> BigRational {
    if exponent >= 0 {
        BigRational::from(number << exponent)
    } else {
        BigRational::new(number, BigInt::one() << -exponent)
    }
}
