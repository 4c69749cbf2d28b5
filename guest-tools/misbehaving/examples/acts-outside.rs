//! A component whose calls are seen outside: each is one request to a server, so that whoever runs that
//! server counts what was really done, whatever became of the host.

use agent_tool_sdk::{Failure, http};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most bytes that are read of an answer.
const MOST_BYTES: usize = 4096;

/// Where to do it.
#[derive(Debug, Deserialize, JsonSchema)]
struct Place {
    /// The address that is told.
    url: String,
    /// What is sent there.
    #[serde(default)]
    body: String,
}

/// What the server said.
#[derive(Debug, Serialize, JsonSchema)]
struct Told {
    answer: String,
}

fn tell(method: &http::Method, url: &str, body: &str) -> Result<Told, Failure> {
    let response = http::send(method, url, &[], body.as_bytes())?.read(MOST_BYTES)?;
    Ok(Told { answer: String::from_utf8_lossy(&response.body).into_owned() })
}

fn act(Place { url, body }: Place) -> Result<Told, Failure> {
    tell(&http::Method::Post, &url, &body)
}

fn look(Place { url, body }: Place) -> Result<Told, Failure> {
    tell(&http::Method::Get, &url, &body)
}

agent_tool_sdk::export! {
    /// Does something outside, once more for every call.
    act(Place) -> Told;

    /// Looks at something outside.
    look(Place) -> Told, hints: [read_only, idempotent];
}
