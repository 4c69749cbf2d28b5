//! Making a [`Failure`]: a word for programs and a sentence for the model.

use crate::Failure;

/// The codes that the contract names. A tool may use words of its own beside them.
pub mod code {
    /// The arguments are not such as the tool can work with; other arguments may do.
    pub const INVALID_ARGUMENTS: &str = "invalid-arguments";
    /// What the arguments name does not exist.
    pub const NOT_FOUND: &str = "not-found";
    /// The tool may not do this.
    pub const DENIED: &str = "denied";
    /// The tool cannot do this now; the same call may work later.
    pub const UNAVAILABLE: &str = "unavailable";
}

impl Failure {
    /// A failure with a code of the tool's own. The message is read by the model: say what is wrong and what
    /// would do instead.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), meta: Vec::new() }
    }

    /// The arguments are not such as the tool can work with.
    #[must_use]
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_ARGUMENTS, message)
    }

    /// What the arguments name does not exist.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(code::NOT_FOUND, message)
    }

    /// The tool may not do this.
    #[must_use]
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(code::DENIED, message)
    }

    /// The tool cannot do this now; the same call may work later.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(code::UNAVAILABLE, message)
    }

    /// Adds how long to wait before the same call may work; for [`Failure::unavailable`].
    #[must_use]
    pub fn retry_after_ms(self, milliseconds: u64) -> Self {
        self.with_meta("retry-after-ms", milliseconds.to_string())
    }

    /// Adds one more key/value pair to the failure, for programs that read it.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.meta.push((key.into(), value.into()));
        self
    }
}
