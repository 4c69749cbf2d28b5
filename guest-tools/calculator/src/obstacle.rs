//! What can stand in the way of a value.

use std::fmt;

/// Why an operation has no value here. Its text is for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The divisor is zero.
    DivisionByZero,
    /// The divisor is known only to be very near zero.
    DivisionByNearlyZero,
    /// The function is not defined there, over the real numbers.
    Undefined(&'static str),
    /// The value is beyond the largest that this calculator holds.
    TooLarge,
    /// The value is nearer to zero than the smallest that this calculator holds.
    TooSmall,
    /// The value is known, but not well enough to say on which side of a whole number it is.
    TooCloseToCall,
    /// So many digits were lost on the way that none are left.
    TooUncertain,
    /// None of the result's digits are certain.
    NoDigitLeft,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DivisionByZero => "division by zero",
            Self::DivisionByNearlyZero => "division by a value that cannot be told from zero",
            Self::Undefined(domain) => domain,
            Self::TooLarge => "the value is beyond 10^10000, the most this calculator works with",
            Self::TooSmall => "the value is nearer to zero than 10^-10000, the least this calculator works with",
            Self::TooCloseToCall => {
                "the value is irrational, or was rounded, and lies too close to a whole number to tell the side"
            }
            Self::TooUncertain => "the argument is not known precisely enough",
            Self::NoDigitLeft => {
                "no digit of the value is certain: nearly equal numbers were subtracted. Write it in another way"
            }
        })
    }
}
