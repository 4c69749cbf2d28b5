//! One setting: an environment variable, with what is needed to read it, to refuse it, and to document it.
//!
//! Each concern declares its own with [`settings!`], beside the code that reads them.

use std::time::Duration;

use super::value_type::{Kind, Unit};

/// The highest limit of a duration, in milliseconds: an hour. A larger number is a mistake in the unit.
pub const HOUR: u64 = 3_600_000;

/// Bytes of a MiB.
pub const MIB: u64 = 1 << 20;

/// One environment variable. The table of all of them is the server's.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub name: &'static str,
    /// What it is for, in sentences.
    pub about: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// What holds when it is not set.
    pub default: DefaultValue,
    /// Who cannot do without it.
    pub need: Need,
}

/// What holds when a setting is not set.
#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    /// Nothing: the feature is off.
    Absent,
    /// This text, read as if it had been set.
    Text(&'static str),
    /// This number. Where a crate owns the default, the function returns that crate's constant.
    Number(fn() -> u64),
    /// Something that follows from other variables, said in words.
    Derived(&'static str),
}

/// Who cannot do without a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nobody.
    Never,
    /// Variant B, alone or beside A.
    VariantB,
    /// Everybody.
    Always,
}

impl Setting {
    /// A setting without a default that nobody needs. Its name and its text are filled in by [`settings!`].
    const fn of(kind: Kind) -> Self {
        Self { name: "", about: "", kind, default: DefaultValue::Absent, need: Need::Never }
    }

    /// With this default.
    pub const fn or(self, value: &'static str) -> Self {
        Self { default: DefaultValue::Text(value), ..self }
    }

    /// With the default that a crate names.
    pub const fn or_number(self, value: fn() -> u64) -> Self {
        Self { default: DefaultValue::Number(value), ..self }
    }

    /// With a default that follows from other variables.
    pub const fn or_derived(self, words: &'static str) -> Self {
        Self { default: DefaultValue::Derived(words), ..self }
    }

    /// Needed by these.
    pub const fn needed(self, need: Need) -> Self {
        Self { need, ..self }
    }
}

impl DefaultValue {
    /// The text that is read when the setting is not set.
    pub fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.to_owned()),
            Self::Number(number) => Some(number().to_string()),
            Self::Absent | Self::Derived(_) => None,
        }
    }
}

/// Declares the settings of a concern, each as `NAME = kind(…)` with an optional `.or(default)`, and
/// `SETTINGS`, the list of them in the order in which they are documented and reported. The doc comment of an
/// entry is its text.
#[macro_export]
macro_rules! declare_settings {
    ($($(#[doc = $about:literal])+ $name:ident = $entry:expr;)+) => {
        $(
            $(#[doc = $about])+
            pub(super) static $name: $crate::settings::setting::Setting = $crate::settings::setting::Setting {
                name: stringify!($name),
                about: concat!($($about),+),
                ..$entry
            };
        )+

        /// The settings of this concern.
        pub static SETTINGS: &[&$crate::settings::setting::Setting] = &[$(&$name),+];
    };
}

pub use crate::declare_settings as settings;

/// A default of a setting in milliseconds.
pub const fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

/// A setting that may hold any text.
pub const fn text() -> Setting {
    Setting::of(Kind::Text)
}

/// A text that is never shown.
pub const fn secret() -> Setting {
    Setting::of(Kind::Secret)
}

/// A text that is never shown and goes into a header.
pub const fn key() -> Setting {
    Setting::of(Kind::Key)
}

pub const fn path() -> Setting {
    Setting::of(Kind::Path)
}

/// One of these words.
pub const fn one_of(words: &'static [&'static str]) -> Setting {
    Setting::of(Kind::OneOf(words))
}

/// A whole number.
pub const fn number(least: u64, most: u64) -> Setting {
    Setting::of(Kind::Number { least, most, unit: Unit::Things })
}

/// A number of milliseconds.
pub const fn milliseconds(least: u64, most: u64) -> Setting {
    Setting::of(Kind::Number { least, most, unit: Unit::Milliseconds })
}

/// A number of bytes.
pub const fn bytes(least: u64, most: u64) -> Setting {
    Setting::of(Kind::Number { least, most, unit: Unit::Bytes })
}

/// A URL with one of these schemes.
pub const fn url(schemes: &'static [&'static str]) -> Setting {
    Setting::of(Kind::Url(schemes))
}

/// Something with rules of its own, said in words.
pub const fn special(words: &'static str) -> Setting {
    Setting::of(Kind::Special(words))
}

/// Something with rules of its own, said in words, and never shown.
pub const fn hidden(words: &'static str) -> Setting {
    Setting::of(Kind::Hidden(words))
}
