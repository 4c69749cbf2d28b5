//! A provider's API key: goes into one header and nowhere else.

use std::fmt;

use reqwest::header::HeaderValue;

use crate::connect_error::ConnectError;

/// A key shorter than this is a stand-in for a server that wants none ("x", "none", "ollama"). It is no
/// secret, and replacing it wherever it occurs would garble every error text.
const SHORTEST_SECRET: usize = 8;

/// An API key. It cannot be printed.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// The key without the white space that a file or a shell may have left around it.
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    /// The key behind `prefix` as the value of a header that is never printed either.
    pub(crate) fn header(&self, prefix: &str) -> Result<HeaderValue, ConnectError> {
        let mut value =
            HeaderValue::from_str(&format!("{prefix}{}", self.0)).map_err(|_| ConnectError::Key)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// `text` without the key. Providers do quote it: "Incorrect API key provided: …".
    pub(crate) fn scrub(&self, text: &str) -> String {
        if self.0.len() < SHORTEST_SECRET { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey([key])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_cannot_be_printed_and_its_header_neither() {
        let key = ApiKey::new(" sk-very-secret\n");
        let header = key.header("Bearer ").unwrap();
        assert_eq!(header.to_str().unwrap(), "Bearer sk-very-secret");
        for printed in [format!("{key:?}"), format!("{header:?}")] {
            assert!(!printed.contains("secret"), "{printed}");
        }
    }

    #[test]
    fn a_key_that_is_no_header_value_is_an_error_without_the_key() {
        let error = ApiKey::new("sk-very\nsecret").header("").unwrap_err();
        assert!(matches!(error, ConnectError::Key));
        assert!(!format!("{error} {error:?}").contains("sk-very"));
    }

    #[test]
    fn stand_ins_are_not_scrubbed() {
        assert_eq!(ApiKey::new("sk-secret-1").scrub("got sk-secret-1, sk-secret-1"), "got [key], [key]");
        assert_eq!(ApiKey::new("x").scrub("context exceeded"), "context exceeded");
    }
}
