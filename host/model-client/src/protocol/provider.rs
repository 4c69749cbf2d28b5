//! The table of providers. A new one is a folder beside `openai` and a line in [`PROTOCOLS`].

use std::fmt;

use url::Url;

use super::Protocol;
use super::anthropic::Anthropic;
use super::openai::OpenAi;
use crate::connect_error::ConnectError;

/// Every provider.
static PROTOCOLS: &[&dyn Protocol] = &[&OpenAi, &Anthropic];

/// A provider of language models, or rather its protocol: many servers speak that of OpenAI or of Anthropic.
///
/// A base address may end with or without a slash, and is completed like this:
///
/// | the address given | OpenAI | Anthropic |
/// |---|---|---|
/// | none | `https://api.openai.com/v1/chat/completions` | `https://api.anthropic.com/v1/messages` |
/// | `http://host` | `http://host/v1/chat/completions` | `http://host/v1/messages` |
/// | `http://host/v1` | `http://host/v1/chat/completions` | `http://host/v1/messages` |
/// | `http://host/api` | `http://host/api/chat/completions` | `http://host/api/v1/messages` |
/// | the whole endpoint | as it is | as it is |
///
/// The two differ in the fourth row because their own SDKs do: OpenAI's base ends with the version, and
/// servers that speak its protocol under another path (`/api/v1`, `/openai`, `/v1beta/openai`) document all
/// of it; Anthropic's base ends before the version. A query is kept.
#[derive(Clone, Copy)]
pub struct Provider(&'static dyn Protocol);

impl Provider {
    /// Every provider.
    pub fn all() -> impl Iterator<Item = Self> {
        PROTOCOLS.iter().map(|protocol| Self(*protocol))
    }

    /// The provider with this [`prefix`](Self::prefix).
    pub fn with_prefix(prefix: &str) -> Option<Self> {
        Self::all().find(|provider| provider.prefix() == prefix)
    }

    /// The provider whose own models are named like this one (`gpt-5`, `claude-opus-4`).
    pub fn of_model(name: &str) -> Option<Self> {
        Self::all().find(|provider| provider.model_names().iter().any(|begin| name.starts_with(begin)))
    }

    /// The word before the slash in `LLM_MODEL`.
    pub fn prefix(self) -> &'static str {
        self.0.prefix()
    }

    /// How the names of the provider's own models begin.
    pub fn model_names(self) -> &'static [&'static str] {
        self.0.model_names()
    }

    pub(crate) fn protocol(self) -> &'static dyn Protocol {
        self.0
    }

    /// Where requests are posted to.
    pub(crate) fn endpoint(self, base: Option<&Url>) -> Result<Url, ConnectError> {
        let mut url = match base {
            Some(base) => base.clone(),
            None => {
                Url::parse(self.0.default_base()).map_err(|_| ConnectError::Base { problem: "is no URL" })?
            }
        };
        check(&url)?;
        let path = self.0.endpoint_path(url.path().trim_end_matches('/'));
        url.set_path(&path);
        url.set_fragment(None);
        Ok(url)
    }
}

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        self.prefix() == other.prefix()
    }
}

impl Eq for Provider {}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider({})", self.prefix())
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix())
    }
}

/// Refuses addresses that could only fail later, or leak a password.
fn check(url: &Url) -> Result<(), ConnectError> {
    let problem = if !matches!(url.scheme(), "http" | "https") {
        "is neither http nor https"
    } else if !url.has_host() {
        "names no host"
    } else if !url.username().is_empty() || url.password().is_some() {
        // A user name and a password would not be sent, and every error would show them.
        "holds a user name or a password; the key belongs into its own setting"
    } else {
        return Ok(());
    };
    Err(ConnectError::Base { problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENAI: Provider = Provider(&OpenAi);
    const ANTHROPIC: Provider = Provider(&Anthropic);

    fn endpoint(provider: Provider, base: &str) -> String {
        provider.endpoint(Some(&Url::parse(base).unwrap())).unwrap().to_string()
    }

    #[test]
    fn every_provider_is_found_by_its_prefix_and_by_the_names_of_its_models() {
        for provider in Provider::all() {
            assert_eq!(Provider::with_prefix(provider.prefix()), Some(provider));
            assert!(!provider.model_names().is_empty(), "{provider}");
            for begin in provider.model_names() {
                assert_eq!(Provider::of_model(&format!("{begin}-9")), Some(provider));
            }
        }
        assert_eq!(Provider::with_prefix("OpenAI"), None);
        assert_eq!(Provider::of_model("llama3"), None);
        assert_ne!(OPENAI, ANTHROPIC);
    }

    #[test]
    fn base_addresses_are_completed() {
        for (base, openai, anthropic) in [
            ("http://h:1", "http://h:1/v1/chat/completions", "http://h:1/v1/messages"),
            ("http://h/", "http://h/v1/chat/completions", "http://h/v1/messages"),
            ("http://h/v1", "http://h/v1/chat/completions", "http://h/v1/messages"),
            ("http://h/v1//", "http://h/v1/chat/completions", "http://h/v1/messages"),
            ("http://h/api/v1/", "http://h/api/v1/chat/completions", "http://h/api/v1/messages"),
            ("http://h/x/", "http://h/x/chat/completions", "http://h/x/v1/messages"),
            ("http://h/v1?v=1#f", "http://h/v1/chat/completions?v=1", "http://h/v1/messages?v=1"),
        ] {
            assert_eq!(endpoint(OPENAI, base), openai);
            assert_eq!(endpoint(ANTHROPIC, base), anthropic);
        }
    }

    #[test]
    fn a_whole_endpoint_is_taken_as_it_is() {
        let openai = "http://h/v1/chat/completions";
        assert_eq!(endpoint(OPENAI, openai), openai);
        let anthropic = "http://h/proxy/v1/messages";
        assert_eq!(endpoint(ANTHROPIC, &format!("{anthropic}/")), anthropic);
    }

    #[test]
    fn without_a_base_it_is_the_providers_own_address() {
        let endpoint = |provider: Provider| provider.endpoint(None).unwrap().to_string();
        assert_eq!(endpoint(OPENAI), "https://api.openai.com/v1/chat/completions");
        assert_eq!(endpoint(ANTHROPIC), "https://api.anthropic.com/v1/messages");
    }

    #[test]
    fn unusable_bases_are_refused_without_being_quoted() {
        for base in ["ftp://h/", "data:text/plain,x", "http://user:hunter2@h/", "http://hunter2@h/"] {
            let error = OPENAI.endpoint(Some(&Url::parse(base).unwrap())).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }
}
