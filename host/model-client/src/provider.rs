//! The providers: which protocol each speaks, and at which address. A third provider is a third arm in
//! every match of this file, and a module beside `openai` and `anthropic`.

use std::fmt;

use agent_core::ports::{ModelRequest, ToolChoice};
use agent_core::words::ModelReply;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

use crate::api_key::ApiKey;
use crate::connect_error::ConnectError;
use crate::shape::Shape;
use crate::{anthropic, openai};

/// A provider of language models, or rather its protocol: many servers speak one of the two.
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
/// servers that speak its protocol under another path (`/api/v1`, `/openai`, `/v1beta/openai`) document
/// all of it; Anthropic's base ends before the version. A query is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI chat completions: OpenAI itself and all the servers that speak like it.
    OpenAi,
    /// Anthropic Messages.
    Anthropic,
}

/// One call of a model, and how it is to be written down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt<'a> {
    /// The model's name as the provider knows it.
    pub(crate) model: &'a str,
    /// The conversation.
    pub(crate) request: &'a ModelRequest<'a>,
    /// The request's tools in the provider's form; absent when there are none.
    pub(crate) tools: Option<&'a RawValue>,
    /// Which parameters this model takes, and how many tokens.
    pub(crate) shape: Shape,
}

/// Why a body is no reply.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// What is wrong with it.
    pub(crate) detail: String,
    /// It is the beginning of a JSON text, and then it ends.
    pub(crate) cut_short: bool,
    /// It holds nothing, or not all of it: another try may bring a reply.
    pub(crate) may_pass: bool,
}

impl Prompt<'_> {
    /// Whether the model is to be told not to call the tools it is shown.
    pub(crate) fn forbids_calls(&self) -> bool {
        self.tools.is_some() && self.request.tool_choice == ToolChoice::None
    }
}

impl Provider {
    /// The word before the slash in `LLM_MODEL`.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// Where requests go.
    pub(crate) fn endpoint(self, base: Option<&Url>) -> Result<Url, ConnectError> {
        let own = match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
        };
        let mut url = match base {
            Some(base) => base.clone(),
            None => Url::parse(own).map_err(|_| ConnectError::Base { problem: "is no URL" })?,
        };
        check(&url)?;
        let path = url.path().trim_end_matches('/');
        let path = match self {
            Self::OpenAi if path.ends_with("/chat/completions") => path.to_owned(),
            Self::OpenAi if path.is_empty() => "/v1/chat/completions".to_owned(),
            Self::OpenAi => format!("{path}/chat/completions"),
            Self::Anthropic if path.ends_with("/v1/messages") => path.to_owned(),
            Self::Anthropic if path.ends_with("/v1") => format!("{path}/messages"),
            Self::Anthropic => format!("{path}/v1/messages"),
        };
        url.set_path(&path);
        url.set_fragment(None);
        Ok(url)
    }

    /// The headers that say who asks, and in which version of the protocol.
    pub(crate) fn headers(self, key: &ApiKey) -> Result<HeaderMap, ConnectError> {
        let mut headers = HeaderMap::new();
        match self {
            Self::OpenAi => {
                headers.insert(AUTHORIZATION, key.header("Bearer ")?);
            }
            Self::Anthropic => {
                headers.insert(HeaderName::from_static("x-api-key"), key.header("")?);
                headers.insert(
                    HeaderName::from_static("anthropic-version"),
                    HeaderValue::from_static("2023-06-01"),
                );
            }
        }
        Ok(headers)
    }

    /// How requests are shaped as long as the provider has not objected.
    pub(crate) fn shape(self, endpoint: &Url) -> Shape {
        match self {
            Self::OpenAi if openai::is_own_address(endpoint) => Shape::OPENAI,
            Self::OpenAi | Self::Anthropic => Shape::OTHER,
        }
    }

    /// A tool as an entry of `tools` in a request, `parameters` being its normalised schema.
    pub(crate) fn render_tool(
        self,
        name: &str,
        description: &str,
        parameters: &Value,
    ) -> serde_json::Result<Box<RawValue>> {
        match self {
            Self::OpenAi => openai::render_tool(name, description, parameters),
            Self::Anthropic => anthropic::render_tool(name, description, parameters),
        }
    }

    /// The body of a request.
    pub(crate) fn render(self, prompt: Prompt<'_>) -> serde_json::Result<Vec<u8>> {
        match self {
            Self::OpenAi => serde_json::to_vec(&openai::render(prompt)),
            Self::Anthropic => serde_json::to_vec(&anthropic::render(prompt)),
        }
    }

    /// The reply in the body of a successful response. `who` is what the reply says has replied.
    pub(crate) fn read(
        self,
        body: &[u8],
        request: &ModelRequest<'_>,
        who: &str,
    ) -> Result<ModelReply, Unreadable> {
        match self {
            Self::OpenAi => openai::read(body, request, who),
            Self::Anthropic => anthropic::read(body, request, who),
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix())
    }
}

impl Unreadable {
    /// A JSON text that promises something else than it holds.
    pub(crate) fn because(detail: &str) -> Self {
        Self { detail: detail.to_owned(), cut_short: false, may_pass: false }
    }

    /// A JSON text that holds no reply, though it might have.
    pub(crate) fn empty(detail: &str) -> Self {
        Self { detail: detail.to_owned(), cut_short: false, may_pass: true }
    }
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        use serde_json::error::Category;
        let detail = match error.classify() {
            Category::Data => format!("it has not the shape of a reply: {error}"),
            Category::Syntax | Category::Eof | Category::Io => format!("it is not JSON: {error}"),
        };
        Self { detail, cut_short: error.is_eof(), may_pass: error.is_eof() }
    }
}

/// Refuses what could only fail later, or leak.
fn check(url: &Url) -> Result<(), ConnectError> {
    let problem = if !matches!(url.scheme(), "http" | "https") {
        "is neither http nor https"
    } else if !url.has_host() {
        "names no host"
    } else if !url.username().is_empty() || url.password().is_some() {
        // reqwest would send them as a second Authorization header, and every error would show them.
        "holds a user name or a password; the key belongs into its own setting"
    } else {
        return Ok(());
    };
    Err(ConnectError::Base { problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(provider: Provider, base: &str) -> String {
        provider.endpoint(Some(&Url::parse(base).unwrap())).unwrap().to_string()
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
            assert_eq!(endpoint(Provider::OpenAi, base), openai);
            assert_eq!(endpoint(Provider::Anthropic, base), anthropic);
        }
    }

    #[test]
    fn a_whole_endpoint_is_taken_as_it_is() {
        let openai = "http://h/v1/chat/completions";
        assert_eq!(endpoint(Provider::OpenAi, openai), openai);
        let anthropic = "http://h/proxy/v1/messages";
        assert_eq!(endpoint(Provider::Anthropic, &format!("{anthropic}/")), anthropic);
    }

    #[test]
    fn without_a_base_it_is_the_providers_own_address() {
        let endpoint = |provider: Provider| provider.endpoint(None).unwrap().to_string();
        assert_eq!(endpoint(Provider::OpenAi), "https://api.openai.com/v1/chat/completions");
        assert_eq!(endpoint(Provider::Anthropic), "https://api.anthropic.com/v1/messages");
    }

    #[test]
    fn unusable_bases_are_refused_without_being_quoted() {
        for base in ["ftp://h/", "data:text/plain,x", "http://user:hunter2@h/", "http://hunter2@h/"] {
            let error = Provider::OpenAi.endpoint(Some(&Url::parse(base).unwrap())).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }
}
