//! What other settings depend on: which variants are served, and in which environment.
//!
//! The reader holds both once they are known; a setting that is needed by Variant B, or narrowed in
//! production, asks it.

use std::fmt;

/// The endpoints that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Variant A, the primary service.
    A,
    /// Variant B, the extended service.
    B,
    Both,
}

/// The environment the service runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    /// A developer's machine.
    Development,
    /// The rehearsal for production (Variant B only).
    Staging,
    /// The real thing.
    Production,
    /// A test run (Variant A only).
    Test,
}

impl Variant {
    /// Whether Variant A is among what is served.
    pub fn serves_a(self) -> bool {
        matches!(self, Self::A | Self::Both)
    }

    /// Whether Variant B is among what is served.
    pub fn serves_b(self) -> bool {
        matches!(self, Self::B | Self::Both)
    }

    /// Reads a word of `SERVICE_VARIANT`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "a" => Some(Self::A),
            "b" => Some(Self::B),
            "both" => Some(Self::Both),
            _ => None,
        }
    }
}

impl Environment {
    /// Every environment.
    pub const ALL: [Self; 4] = [Self::Development, Self::Staging, Self::Production, Self::Test];

    /// The variable that names the environment. The server declares it as a setting.
    pub const VARIABLE: &str = "NODE_ENV";

    /// Reads a word of `NODE_ENV`, whatever the variant.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }

    /// The word in `NODE_ENV`, and in the label of the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::Staging => "staging",
            Self::Production => "production",
            Self::Test => "test",
        }
    }

    /// The sets of the two variants differ (host/docs/interface/errors-and-limits.md#configuration). Where
    /// both are served, a value must be in both sets.
    pub fn exists(self, variant: Variant) -> bool {
        match self {
            Self::Development | Self::Production => true,
            Self::Staging => !variant.serves_a(),
            Self::Test => !variant.serves_b(),
        }
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
