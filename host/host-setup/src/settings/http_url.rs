//! The address of an HTTP server.

use std::fmt;

use url::Url;

/// An `http://` or `https://` address without a user name or password, which would end up in logs and in a
/// second `Authorization` header. Its query may hold a key all the same, so `Debug` leaves it out.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl(Url);

impl HttpUrl {
    /// Reads an address.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let usable = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none();
        usable.then_some(Self(url))
    }

    /// The address of `path` beneath this one.
    pub fn joined(&self, path: &str) -> Self {
        let mut url = self.0.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
        Self(url)
    }

    /// The address.
    pub fn as_url(&self) -> &Url {
        &self.0
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpUrl({}{})", self.0.origin().ascii_serialization(), self.0.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_http_and_without_credentials() {
        for (text, shown) in [
            ("https://host/v1?key=hunter2", Some("HttpUrl(https://host/v1)")),
            (" http://127.0.0.1:8080", Some("HttpUrl(http://127.0.0.1:8080/)")),
            ("http://user@host/", None),
            ("http://user:hunter2@host/", None),
            ("http://", None),
            ("host:8080", None),
            ("ftp://host/", None),
            ("/v1", None),
        ] {
            assert_eq!(HttpUrl::parse(text).map(|url| format!("{url:?}")).as_deref(), shown, "{text}");
        }
    }
}
