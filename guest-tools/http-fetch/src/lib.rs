//! The `http-fetch` component: the tool `fetch`, which reads what is at a URL. It reaches what the operator's policy grants.

mod text;

use agent_tool::{Failure, http};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most characters that are returned unless the caller asks for fewer.
const MOST_CHARACTERS: usize = 20_000;

/// Most bytes that are read of an answer.
const MOST_BYTES: usize = 512 << 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Address {
    /// `https://…`
    url: String,
    /// At most 20000.
    #[serde(default)]
    max_characters: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct Page {
    /// HTTP status.
    status: u16,
    content_type: String,
    /// Of HTML the readable text.
    text: String,
    truncated: bool,
}

fn fetch(Address { url, max_characters }: Address) -> Result<Page, Failure> {
    let most = max_characters.unwrap_or(MOST_CHARACTERS).min(MOST_CHARACTERS);
    let response = http::get(&url)?.read(MOST_BYTES)?;
    let content_type = response.header("content-type").unwrap_or_default();
    let body = String::from_utf8_lossy(&response.body);
    let readable =
        if content_type.starts_with("text/html") { text::of_html(&body) } else { body.into_owned() };
    let text: String = readable.chars().take(most).collect();
    let truncated = response.truncated || text.len() < readable.len();
    Ok(Page { status: response.status, content_type, text, truncated })
}

agent_tool::export! {
    /// Reads a web page or an API by GET. Redirects are returned, not followed.
    fetch(Address) -> Page, hints: [read_only];
}
