//! What is logged, and how.

use super::problem::Problems;
use super::process_env::EnvVars;
use super::reader::{self, Reader, Reported};
use super::setting::{one_of, settings};

settings! {
    /// The least serious entries that are logged.
    LOG_LEVEL = one_of(&["debug", "info", "warn", "error"]).or("info");
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// The least serious entries that are logged (`LOG_LEVEL`).
    pub level: LogLevel,
    /// Follows from `NODE_ENV`.
    pub format: LogFormat,
}

/// How serious an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// For whoever looks for a mistake.
    Debug,
    /// What happened.
    Info,
    /// What should not have happened and could be dealt with.
    Warn,
    /// What failed.
    Error,
}

/// What a line of the log looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object, for machines.
    Json,
    /// For people.
    Text,
}

impl Log {
    /// Reads the level, and the format that the environment wants.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let level = reader.value(&LOG_LEVEL, LogLevel::parse);
        let format = if reader.is_production() { LogFormat::Json } else { LogFormat::Text };
        Ok(Self { level: level?, format })
    }

    /// Reads nothing but the level, for commands that a person runs at a terminal.
    pub fn from_vars(vars: &impl EnvVars) -> Result<Self, Problems> {
        reader::collect(vars, SETTINGS, |reader| {
            let level = reader.value(&LOG_LEVEL, LogLevel::parse)?;
            Ok(Self { level, format: LogFormat::Text })
        })
    }
}

impl LogLevel {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "debug" => Some(Self::Debug),
            "info" => Some(Self::Info),
            "warn" => Some(Self::Warn),
            "error" => Some(Self::Error),
            _ => None,
        }
    }
}
