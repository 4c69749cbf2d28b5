//! The `http-fetch` component: the tool `fetch`, which reads what is at a URL. It reaches what the operator's
//! policy grants (`policy.toml` beside this crate is an example).
//!
//! `page` decides by the content type what is shown, `charset` makes text of bytes, `html` the readable text
//! of a page, `tags` and `entities` read its parts, and `address` resolves links.
//!
//! What the description leaves out, because each word of it is paid for in every model call: links stand as
//! [1] behind their words and are listed; a redirect is not followed, because its target is another request
//! under the policy, and is returned to be asked for; what is longer than `max_characters` is read on with
//! `start`.

mod address;
mod charset;
mod entities;
mod html;
mod page;
mod tags;

use agent_tool_sdk::{Failure, http};
use schemars::JsonSchema;
use serde::Deserialize;

use page::{Page, Part};

/// Most characters that are returned unless the caller asks for fewer.
const MOST_CHARACTERS: usize = 20_000;

/// Most bytes that are read of an answer.
const MOST_BYTES: usize = 512 << 10;

/// What is asked for, so that servers that have several forms send one that can be read.
const ACCEPTED: &str = "text/html, application/json, text/*;q=0.9, application/xml;q=0.8, */*;q=0.1";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Address {
    /// `https://…`
    url: String,
    /// At most 20000
    max_characters: Option<u32>,
    /// Characters to skip, to read on
    start: Option<u32>,
}

fn fetch(Address { url, max_characters, start }: Address) -> Result<Page, Failure> {
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let most = max_characters.map_or(MOST_CHARACTERS, count).min(MOST_CHARACTERS);
    let head = http::send(&http::Method::Get, url.trim(), &[("accept", ACCEPTED)], &[])?;
    let response = head.read(MOST_BYTES)?;
    page::read(url.trim(), &response, Part { start: start.map_or(0, count), most })
}

agent_tool_sdk::export! {
    /// Reads a web page or an API by GET. Redirects are returned, not followed.
    fetch(Address) -> Page, hints: [read_only, idempotent];
}
