//! Why a tool cannot be made or built: what happened, where, why, and what to do about it. Every error of
//! this crate has at least the first and the last.

use std::fmt;
use std::path::{Path, PathBuf};

/// An error that names its mend. It is shown as one line and then one for each of `where`, `why` and `mend`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Box<Parts>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    what: String,
    place: Option<PathBuf>,
    why: Vec<String>,
    mends: Vec<String>,
}

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What happened, in a line.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(Box::new(Parts { what: what.into(), place: None, why: Vec::new(), mends: Vec::new() }))
    }

    /// In which file or folder.
    #[must_use]
    pub(crate) fn at(mut self, place: &Path) -> Self {
        self.0.place = Some(std::path::absolute(place).unwrap_or_else(|_| place.to_owned()));
        self
    }

    /// Why; may be said more than once, and may have several lines.
    #[must_use]
    pub(crate) fn why(mut self, why: impl fmt::Display) -> Self {
        self.0.why.extend(why.to_string().trim_end().lines().map(str::to_owned));
        self
    }

    /// What to do; any one of several mends is enough.
    #[must_use]
    pub(crate) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.0.mends.push(mend.into());
        self
    }

    /// A file that could not be read or written.
    pub(crate) fn file(doing: &str, path: &Path, error: &std::io::Error) -> Self {
        let mend = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path: nothing of that name is there",
            std::io::ErrorKind::PermissionDenied => "give the user who runs this the right to do that",
            std::io::ErrorKind::StorageFull => "free some disk space and try again",
            _ => "mend what the system says and try again",
        };
        Self::new(format!("{doing} failed")).at(path).why(error).mend(mend)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { what, place, why, mends } = &*self.0;
        write!(f, "{what}")?;
        if let Some(place) = place {
            write!(f, "\n  where  {}", place.display())?;
        }
        for (at, line) in why.iter().enumerate() {
            write!(f, "\n  {:<5}  {line}", if at == 0 { "why" } else { "" })?;
        }
        for (at, mend) in mends.iter().enumerate() {
            write!(f, "\n  {:<5}  {mend}", if at == 0 { "mend" } else { "or" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
