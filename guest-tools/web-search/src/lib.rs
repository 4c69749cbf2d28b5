//! The `web-search` component: the tool `web_search`, which asks a SearxNG instance, or what answers like
//! one.
//!
//! Where that is stands in the operator's policy, under `config` (`policy.toml` beside this crate); a key, if
//! the instance wants one, is added by the host. `request` makes the URL, `answer` reads what comes back.
//!
//! What the description leaves out, because each word of it is paid for in every model call: the query is
//! handed on as it is, so `site:example.org` and quotes work where the engines behind the instance know them.

mod answer;
mod request;

use agent_tool_sdk::{Failure, config, http};
use schemars::JsonSchema;
use serde::Deserialize;

use answer::Results;
use request::{Endpoint, Recent};

/// Most bytes that are read of an answer.
const MOST_BYTES: usize = 1 << 20;

/// What to search for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    query: String,
    /// Default 8, at most 20
    max_results: Option<u8>,
    /// From 1
    page: Option<u16>,
    /// Only what was published in the last
    recent: Option<Recent>,
}

fn web_search(question: Question) -> Result<Results, Failure> {
    let endpoint = Endpoint::read(config::get("endpoint").as_deref(), config::get("language"))?;
    let url = endpoint.url(&question.query, question.page, question.recent)?;
    let head = http::send(&http::Method::Get, &url, &[("accept", "application/json")], &[])?;
    answer::read(&head.read(MOST_BYTES)?, question.max_results)
}

agent_tool_sdk::export! {
    /// Searches the web. Returns titles, addresses and excerpts of pages, not the pages.
    web_search(Question) -> Results, hints: [read_only, idempotent];
}

#[cfg(test)]
mod tests {
    use agent_tool_sdk::{Component as _, config};

    use crate::Tools;

    #[test]
    fn without_an_endpoint_nothing_is_sent() {
        let search = || Tools::call("web_search".to_owned(), r#"{"query":"tea","recent":"week"}"#.to_owned());
        let failure = search().unwrap_err();
        assert!(failure.code == "not-configured" && failure.message.contains("config = {"), "{failure:?}");
        config::double::set("endpoint", "search.example.org");
        let failure = search().unwrap_err();
        assert!(failure.message.contains("is no address"), "{failure:?}");
    }
}
