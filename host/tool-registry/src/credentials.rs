//! A user and a password, and the registry that they are for. They are shown to that one and to the token
//! service that it names, over TLS or within this machine, and to nobody else.

use agent_core::secret::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderValue;

/// Who somebody is to one registry.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// `host` or `host:port`, as references have it.
    pub registry: String,
    /// The user's name.
    pub user: String,
    /// Never shown.
    pub password: Secret,
}

impl Credentials {
    /// The header that logs in with them. Absent when they cannot be sent.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let pair = BASE64.encode(format!("{}:{}", self.user, self.password.expose()));
        sensitive(&format!("Basic {pair}"))
    }
}

/// A header that is not printed. Absent when the text cannot be one.
pub(crate) fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_sent_and_not_printed() {
        let own = Credentials {
            registry: "registry.example.org".into(),
            user: "Aladdin".into(),
            password: Secret::new("open sesame"),
        };
        let header = own.header().unwrap();
        assert_eq!(header.as_bytes(), b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let printed = format!("{own:?} {header:?}");
        assert!(!printed.contains("sesame") && !printed.contains("QWxh"), "{printed}");
        assert!(sensitive("Bearer a\nb").is_none());
    }
}
