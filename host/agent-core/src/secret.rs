//! A text that cannot be printed by accident: the one secret type of the workspace.

use std::fmt;

/// An API key, a signing key, or an address with a password in it.
///
/// It has no `Display`, no `Serialize` and no comparison, and its `Debug` hides the text. Every use of the
/// text is a call of [`Secret::expose`], which a reviewer can search for.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Hides `text`, which is kept as it is.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself, to be sent or to sign with.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_cannot_be_printed() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?} {:#?}", Some(&secret)), "Secret(…) Some(\n    Secret(…),\n)");
        assert_eq!(secret.expose(), "hunter2");
    }
}
