//! The events of a run, over as many connections as it takes.

use std::pin::Pin;
use std::time::Duration;

use anyhow::Context as _;
use futures::{Stream, StreamExt as _, stream};
use http::{Response, StatusCode};
use outbound::Body;
use serde_json::Value;
use sse_stream::{Sse, SseStream};
use url::Url;

use super::client::{Begun, Client};
use super::reconnection::Reconnection;

/// Connections that are made one after another without an event.
const MOST_ATTEMPTS: u32 = 6;

/// How long a connection may say nothing: the service sends a comment every 5 s.
const SILENCE: Duration = Duration::from_secs(30);

/// An event of a run.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) id: Option<String>,
    pub(super) data: Value,
}

impl Event {
    pub(super) const ENDED: &str = "run.ended";
    pub(super) const FAILED: &str = "run.failed";

    /// What the run came to. Variant A has it in an object of its own.
    pub(super) fn result(&self) -> &Value {
        self.data.get("result").unwrap_or(&self.data)
    }
}

/// Whether an event of that name is the last one of its run.
fn is_last(name: &str) -> bool {
    [Event::ENDED, Event::FAILED].contains(&name)
}

type Source = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

/// A run that is read. Dropping it leaves the run alone.
pub(super) struct Events<'a> {
    client: &'a Client,
    /// Where the run can be read again; none when the service did not say.
    resume_at: Option<Url>,
    source: Option<Source>,
    reconnection: Reconnection,
    has_ended: bool,
}

impl<'a> Events<'a> {
    pub(super) fn new(client: &'a Client, Begun { answer, resume_at }: Begun) -> Self {
        let reconnection = Reconnection::new(is_last);
        Self { client, resume_at, source: Some(source(answer)), reconnection, has_ended: false }
    }

    /// The next event that was not read before; none after the last one. Can be dropped and called again:
    /// nothing is lost.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        while !self.has_ended {
            let Some(source) = &mut self.source else {
                self.resume().await?;
                continue;
            };
            let Ok(Some(Ok(sse))) = tokio::time::timeout(SILENCE, source.next()).await else {
                self.source = None;
                continue;
            };
            let is_new = self.reconnection.note(&sse);
            let (true, Some(name), Some(data)) = (is_new, sse.event, sse.data) else { continue };
            let data = serde_json::from_str(&data).context("the service sends an event that is no JSON")?;
            let event = Event { name, id: sse.id, data };
            self.has_ended = is_last(&event.name);
            return Ok(Some(event));
        }
        Ok(None)
    }

    /// Makes the connection again, right after the last event that has a number.
    async fn resume(&mut self) -> anyhow::Result<()> {
        let lost = "the connection to the service was lost";
        let url = self.resume_at.as_ref().context(lost)?;
        tokio::time::sleep(self.reconnection.pause()).await;
        self.reconnection.attempts += 1;
        match self.client.resume(url, self.reconnection.last_id.as_deref()).await {
            // Nothing comes after what was read.
            Ok(answer) if answer.status() == StatusCode::NO_CONTENT => self.has_ended = true,
            Ok(answer) => self.source = Some(source(answer)),
            Err(error) if self.reconnection.attempts >= MOST_ATTEMPTS => {
                return Err(error.context(format!("{lost}; the run may go on: {url}")));
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// Asks the service to end the run. The last event says so.
    pub(super) async fn cancel(&mut self) -> anyhow::Result<()> {
        let url = self.resume_at.as_ref().context("the service did not say how the run is cancelled")?;
        let mut url = url.clone();
        let path = url.path().trim_end_matches("/events").to_owned() + "/cancel";
        url.set_path(&path);
        self.client.cancel(url).await?;
        self.reconnection.expect_end();
        Ok(())
    }
}

fn source(answer: Response<Body>) -> Source {
    let pieces = stream::try_unfold(answer.into_body(), |mut body| async move {
        Ok::<_, outbound::Error>(body.chunk().await?.map(|piece| (piece, body)))
    });
    Box::pin(SseStream::from_bytes_stream(pieces))
}
