//! The API key as the value of a header.

use agent_core::secret::Secret;
use http::header::HeaderValue;

use crate::connect_error::ConnectError;

/// `prefix` and the key. The value is marked as sensitive, so that it is left out wherever a request is
/// printed.
pub(crate) fn auth_header(prefix: &str, key: &Secret) -> Result<HeaderValue, ConnectError> {
    let mut value =
        HeaderValue::from_str(&format!("{prefix}{}", key.expose())).map_err(|_| ConnectError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_key_cannot_be_printed() {
        let header = auth_header("Bearer ", &Secret::new("sk-very-secret")).unwrap();
        assert_eq!(header.to_str().unwrap(), "Bearer sk-very-secret");
        assert!(!format!("{header:?}").contains("secret"), "{header:?}");
    }

    #[test]
    fn a_key_that_is_no_header_value_is_an_error_without_the_key() {
        let error = auth_header("", &Secret::new("sk-very\nsecret")).unwrap_err();
        assert!(matches!(error, ConnectError::Key));
        assert!(!format!("{error} {error:?}").contains("sk-very"));
    }
}
