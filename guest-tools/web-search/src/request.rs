//! The URL of a search, after SearxNG's API (<https://docs.searxng.org/dev/search_api.html>).

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

/// The longest query, in bytes.
const LONGEST_QUERY: usize = 500;

/// The last page that may be asked for.
const LAST_PAGE: u16 = 20;

/// How old results may be.
// No doc comments here: they would stand in every model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Recent {
    Day,
    Week,
    Month,
    Year,
}

/// Where to search, as the operator configured it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    url: String,
    language: Option<String>,
}

impl Endpoint {
    /// Reads the configuration: the address of the search itself, or of the instance.
    pub(crate) fn read(endpoint: Option<&str>, language: Option<String>) -> Result<Self, Failure> {
        let endpoint = endpoint.map(str::trim).filter(|endpoint| !endpoint.is_empty());
        let endpoint = endpoint.ok_or_else(|| {
            Failure::new(
                "not-configured",
                "no search service is configured. The operator adds to the entry of `web-search` in the tools policy: \
                 config = { endpoint = \"https://HOST/search\" } and [[component.http]] with host = \"HOST\" and path = \
                 \"/search\", where HOST is a SearxNG instance",
            )
        })?;
        let rest = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
        let is_address = rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['?', '#', ' ']));
        if !is_address {
            return Err(Failure::new(
                "not-configured",
                "what the operator configured as `endpoint` is no address: in the tools policy it is written such as config \
                 = { endpoint = \"https://HOST/search\" }, without a query",
            ));
        }
        let trimmed = endpoint.trim_end_matches('/');
        let url = if trimmed.ends_with("/search") { trimmed.to_owned() } else { format!("{trimmed}/search") };
        Ok(Self { url, language: language.filter(|language| !language.trim().is_empty()) })
    }

    /// The URL to get.
    pub(crate) fn url(
        &self,
        query: &str,
        page: Option<u16>,
        recent: Option<Recent>,
    ) -> Result<String, Failure> {
        let query = query.trim();
        if query.is_empty() {
            return Err(Failure::invalid_arguments("`query` is blank: say what to search for"));
        }
        if query.len() > LONGEST_QUERY {
            let length = query.len();
            return Err(Failure::invalid_arguments(format!(
                "`query` has {length} bytes and may have {LONGEST_QUERY}: search for fewer words"
            )));
        }
        let page = page.unwrap_or(1);
        if !(1..=LAST_PAGE).contains(&page) {
            return Err(Failure::invalid_arguments(format!(
                "`page` is from 1 to {LAST_PAGE}: refine the query"
            )));
        }
        let mut url = format!("{}?q={}&format=json&pageno={page}", self.url, encode(query));
        if let Some(language) = &self.language {
            url.push_str(&format!("&language={}", encode(language.trim())));
        }
        if let Some(recent) = recent {
            let range = match recent {
                Recent::Day => "day",
                Recent::Week => "week",
                Recent::Month => "month",
                Recent::Year => "year",
            };
            url.push_str(&format!("&time_range={range}"));
        }
        Ok(url)
    }
}

/// Text as a part of a URL's query.
fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            b' ' => encoded.push('+'),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Recent};

    #[test]
    fn a_search_is_written_as_a_url() {
        let plain = Endpoint::read(Some("https://s.example.org/search"), None).unwrap();
        assert_eq!(
            plain.url(" tea & site:example.org é", None, None).unwrap(),
            "https://s.example.org/search?q=tea+%26+site%3Aexample.org+%C3%A9&format=json&pageno=1"
        );
        let german = Endpoint::read(Some(" http://127.0.0.1:8888/ "), Some("de&x".to_owned())).unwrap();
        assert_eq!(
            german.url("tee", Some(2), Some(Recent::Week)).unwrap(),
            "http://127.0.0.1:8888/search?q=tee&format=json&pageno=2&language=de%26x&time_range=week"
        );
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let endpoint = Endpoint::read(Some("https://s.example.org"), None).unwrap();
        for (query, page) in [(" ", None), ("x", Some(0)), ("x", Some(21)), (&"x".repeat(501)[..], None)] {
            assert_eq!(endpoint.url(query, page, None).unwrap_err().code, "invalid-arguments");
        }
    }

    #[test]
    fn without_a_configuration_the_lines_to_add_are_told() {
        for missing in [None, Some(""), Some(" ")] {
            let failure = Endpoint::read(missing, None).unwrap_err();
            assert_eq!(failure.code, "not-configured");
            assert!(
                failure.message.contains("config = { endpoint = \"https://HOST/search\" }"),
                "{failure:?}"
            );
            assert!(failure.message.contains("[[component.http]]"), "{failure:?}");
        }
        for wrong in ["s.example.org", "ftp://s.example.org", "https://", "https://s.example.org/search?q=x"]
        {
            let failure = Endpoint::read(Some(wrong), None).unwrap_err();
            assert!(
                failure.code == "not-configured" && failure.message.contains("is no address"),
                "{failure:?}"
            );
        }
    }
}
