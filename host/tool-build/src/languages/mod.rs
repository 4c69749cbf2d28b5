//! The languages that tools are written in: how a component is made in each.

pub(crate) mod javascript;
pub(crate) mod python;
pub mod rust;

use std::fmt;

/// What a tool is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `Cargo.toml`.
    Rust,
    /// `pyproject.toml`.
    Python,
    /// `package.json`; TypeScript too.
    JavaScript,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
        })
    }
}
