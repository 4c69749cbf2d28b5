//! A client of event streams, as plain as curl: it reads what comes and connects again when it is told to by
//! a test.

use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use test_servers::within;

use crate::caller::Caller;

/// A stream that is being read. Dropping it hangs up.
#[derive(Debug)]
pub struct Events {
    response: Response,
    unread: String,
    /// Comments and hints so far, in their order.
    pub asides: Vec<String>,
}

/// An event as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// Id of the event, if it has one.
    pub id: Option<String>,
    /// Name of the event.
    pub name: String,
    /// Data of the event.
    pub data: Value,
}

impl Events {
    /// Sends a request, which must be answered with a stream.
    pub async fn open(request: RequestBuilder) -> Self {
        let response = within("the head of a stream", request.send()).await.expect("an answer");
        let (status, headers) = (response.status(), response.headers().clone());
        let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind != "text/event-stream" || status != 200 {
            panic!("no stream: {status} {}", response.text().await.unwrap_or_default());
        }
        Self::of(response)
    }

    /// Reads the body of a response that is a stream.
    pub fn of(response: Response) -> Self {
        Self { response, unread: String::new(), asides: Vec::new() }
    }

    /// The next event; nothing at the end, whether it is a proper one or not.
    pub async fn next(&mut self) -> Option<Sent> {
        loop {
            while let Some((block, rest)) = self.unread.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.unread = rest;
                match parse(&block) {
                    Some(event) => return Some(event),
                    None => self.asides.push(block),
                }
            }
            let chunk = within("more of a stream", self.response.chunk()).await.ok().flatten()?;
            self.unread.push_str(std::str::from_utf8(&chunk).expect("whole characters"));
        }
    }

    /// The next event of that name.
    pub async fn next_named(&mut self, name: &str) -> Sent {
        loop {
            let event =
                self.next().await.unwrap_or_else(|| panic!("the stream ended before {name}: {self:?}"));
            if event.name == name {
                return event;
            }
        }
    }

    /// All that follow.
    pub async fn rest(&mut self) -> Vec<Sent> {
        let mut rest = Vec::new();
        while let Some(event) = self.next().await {
            rest.push(event);
        }
        rest
    }
}

impl Caller {
    /// `POST /agent/invoke` with that input, as a stream.
    pub async fn invoke_streamed(&self, input: &str) -> Events {
        let request = self.request(reqwest::Method::POST, "/agent/invoke");
        let body = serde_json::json!({ "input": input }).to_string();
        Events::open(request.header("accept", "text/event-stream").body(body)).await
    }
}

fn parse(block: &str) -> Option<Sent> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let data = field("data")?;
    Some(Sent {
        id: field("id").map(str::to_owned),
        name: field("event").unwrap_or_default().to_owned(),
        data: serde_json::from_str(data).unwrap_or_else(|error| panic!("not JSON ({error}): {data}")),
    })
}
