//! The language models: which, where, and how patiently they are asked.

use std::fmt;
use std::time::Duration;

use agent_core::secret::Secret;
use model_client::{CALL_TIMEOUT, Provider, RETRIES};

use super::http_url::HttpUrl;
use super::problem::Problem;
use super::reader::{Reader, Reported};
use super::setting::{HOUR, Need, Setting, key, millis, milliseconds, number, settings, special, url};

settings! {
    /// The key of the language-model provider. The demo model needs none.
    LLM_API_KEY = key().needed(Need::Always);
    /// The language model. A name without a provider is understood when it begins like those of OpenAI
    /// (gpt, o1, o3, o4, chatgpt) or Anthropic (claude). demo/… answers by rules and is for first contact.
    LLM_MODEL = special(ALLOWED).or("openai/gpt-4o-mini");
    /// The provider's address, for servers that speak its protocol elsewhere.
    LLM_BASE_URL = url(&["https", "http"]);
    /// The key of the second provider, which is asked when the first one fails.
    ALT_LLM_API_KEY = key();
    /// The second provider's language model. Setting it switches the second provider on.
    ALT_LLM_MODEL = special(ALLOWED);
    /// The second provider's address.
    ALT_LLM_BASE_URL = url(&["https", "http"]);
    /// How long one model call may take. When it is not set and AGENT_TIMEOUT_MS is more, that holds. The
    /// model's health check may take as long.
    LLM_TIMEOUT_MS = milliseconds(1, HOUR).or_number(|| millis(CALL_TIMEOUT));
    /// How often a failed model call is made again.
    LLM_RETRIES = number(0, 10).or_number(|| u64::from(RETRIES));
    /// How long a good answer of the model's health check is kept; 0 asks every time. A reply to a run counts
    /// as one. A failure is kept for 5 s at most.
    LLM_HEALTH_TTL_MS = milliseconds(0, HOUR).or_number(|| 30_000);
}

/// What `LLM_MODEL` and `ALT_LLM_MODEL` may hold.
const ALLOWED: &str = "anthropic/<model>, openai/<model> or, except in production, demo/<model>; without a provider only a name \
     that begins with gpt, o1, o3, o4, chatgpt or claude";
const ALLOWED_IN_PRODUCTION: &str =
    "anthropic/<model> or openai/<model>: the demo model is no language model";

/// The word before the slash for the model that answers by rules.
const DEMO: &str = "demo";

/// The models, and how they are asked.
#[derive(Debug, Clone)]
pub struct Models {
    /// The model that is asked.
    pub first: ModelAccess,
    /// The model that is asked when the first one's retries are used up.
    pub second: Option<ModelAccess>,
    /// How long one call may take (`LLM_TIMEOUT_MS`).
    pub timeout: Duration,
    /// How often a failed call is made again (`LLM_RETRIES`).
    pub retries: u32,
    /// How long the answer of the health check is kept (`LLM_HEALTH_TTL_MS`).
    pub health_ttl: Duration,
}

/// One model, and how to get at it.
#[derive(Debug, Clone)]
pub struct ModelAccess {
    pub id: ModelId,
    /// The provider's key.
    pub api_key: Secret,
    /// The provider's address, if it is not the usual one.
    pub base_url: Option<HttpUrl>,
}

/// `provider/model`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelId {
    /// Who answers.
    pub provider: ModelProvider,
    /// The model, as its provider names it. It may contain slashes.
    pub name: String,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelProvider {
    /// A server that speaks the protocol of this provider.
    Remote(Provider),
    /// The built-in model that answers by rules.
    Demo,
}

impl Models {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        read_all!(Self {
            first: read_first(reader),
            second: read_second(reader),
            timeout: reader.duration(&LLM_TIMEOUT_MS),
            retries: reader.number(&LLM_RETRIES),
            health_ttl: reader.duration(&LLM_HEALTH_TTL_MS),
        })
    }
}

fn read_first(reader: &mut Reader<'_>) -> Result<ModelAccess, Reported> {
    let id = read_id(reader, &LLM_MODEL);
    let is_demo = matches!(&id, Ok(Some(id)) if id.provider == ModelProvider::Demo);
    let api_key = if is_demo && !reader.is_set(&LLM_API_KEY) {
        Ok(Some(Secret::new("")))
    } else {
        reader.key(&LLM_API_KEY)
    };
    let base_url = reader.http_url(&LLM_BASE_URL);
    let (Some(api_key), Some(id)) = (api_key?, id?) else {
        // The key is always needed and the model has a default, so this is a mistake in the table.
        return Err(reader.report(Problem::missing(&LLM_API_KEY, false)));
    };
    Ok(ModelAccess { id, api_key, base_url: base_url? })
}

/// The second provider is there as soon as a model is named for it.
///
/// A key alone is no mistake: the interface has `ALT_LLM_API_KEY` and no other variable for the second
/// provider (host/docs/interface/errors-and-limits.md#configuration), so a deployment that was written for it
/// must start. Its operator is told that nothing will be asked with that key.
fn read_second(reader: &mut Reader<'_>) -> Result<Option<ModelAccess>, Reported> {
    let wanted = reader.is_set(&ALT_LLM_MODEL) || reader.is_set(&ALT_LLM_BASE_URL);
    if wanted {
        // Whether something is missing does not depend on whether the rest is right.
        report_missing(reader, &ALT_LLM_API_KEY);
        report_missing(reader, &ALT_LLM_MODEL);
    }
    let api_key = reader.key(&ALT_LLM_API_KEY);
    let id = read_id(reader, &ALT_LLM_MODEL);
    let base_url = reader.http_url(&ALT_LLM_BASE_URL);
    match (api_key?, id?, base_url?) {
        (Some(api_key), Some(id), base_url) => Ok(Some(ModelAccess { id, api_key, base_url })),
        (Some(_), None, None) => {
            reader.warn("ALT_LLM_API_KEY is set and ALT_LLM_MODEL is not: there is no second provider");
            Ok(None)
        }
        // Either nothing is set, or what is missing was reported above.
        (_, None, _) | (None, Some(_), _) => Ok(None),
    }
}

fn report_missing(reader: &mut Reader<'_>, setting: &Setting) {
    if !reader.is_set(setting) {
        let other = if reader.is_set(&ALT_LLM_MODEL) { &ALT_LLM_MODEL } else { &ALT_LLM_BASE_URL };
        reader.report(Problem::missing_beside(setting, other));
    }
}

fn read_id(reader: &mut Reader<'_>, setting: &Setting) -> Result<Option<ModelId>, Reported> {
    let id = reader.optional(setting, ModelId::parse)?;
    let Some(id) = id else { return Ok(None) };
    if id.provider == ModelProvider::Demo && reader.is_production() {
        let mut problem = Problem::refused(setting, &id.to_string());
        ALLOWED_IN_PRODUCTION.clone_into(&mut problem.allowed);
        return Err(reader.report(problem));
    }
    Ok(Some(id))
}

impl ModelId {
    /// Reads `provider/model`, or finds the provider that names its own models like this one.
    fn parse(text: &str) -> Option<Self> {
        let prefixed = text.split_once('/');
        let prefixed = prefixed.and_then(|(prefix, name)| Some((ModelProvider::with_prefix(prefix)?, name)));
        let (provider, name) = match prefixed {
            Some(prefixed) => prefixed,
            None => (ModelProvider::Remote(Provider::of_model(text)?), text),
        };
        let usable = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control());
        usable.then(|| Self { provider, name: name.to_owned() })
    }
}

impl ModelProvider {
    fn with_prefix(prefix: &str) -> Option<Self> {
        if prefix == DEMO { Some(Self::Demo) } else { Provider::with_prefix(prefix).map(Self::Remote) }
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)
    }
}

impl fmt::Display for ModelProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Remote(provider) => provider.prefix(),
            Self::Demo => DEMO,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_named_with_or_without_their_provider() {
        for (text, id) in [
            ("openai/gpt-4o-mini", "openai/gpt-4o-mini"),
            ("anthropic/claude-sonnet-4", "anthropic/claude-sonnet-4"),
            ("openai/meta-llama/Llama-3:free", "openai/meta-llama/Llama-3:free"),
            ("openai/claude-3", "openai/claude-3"),
            ("demo/calculator", "demo/calculator"),
            ("gpt-5", "openai/gpt-5"),
            ("o1", "openai/o1"),
            ("o3-mini", "openai/o3-mini"),
            ("o4-mini", "openai/o4-mini"),
            ("chatgpt-4o-latest", "openai/chatgpt-4o-latest"),
            ("claude-opus-4", "anthropic/claude-opus-4"),
        ] {
            assert_eq!(ModelId::parse(text).unwrap().to_string(), id);
        }
    }

    #[test]
    fn every_provider_is_named_in_what_is_allowed() {
        for provider in Provider::all() {
            for allowed in [ALLOWED, ALLOWED_IN_PRODUCTION] {
                assert!(allowed.contains(&format!("{provider}/<model>")), "{provider}: {allowed}");
            }
            for name in provider.model_names() {
                assert!(ALLOWED.contains(&format!(" {name}")), "{name}");
            }
        }
    }

    #[test]
    fn other_names_are_refused() {
        for text in
            ["", "/", "openai/", "demo", "llama3", "mistral/large", "OpenAI/gpt-5", "gpt 5", "o2", " gpt-5"]
        {
            assert_eq!(ModelId::parse(text), None, "{text:?}");
        }
    }
}
