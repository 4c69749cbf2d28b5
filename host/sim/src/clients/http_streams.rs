//! Streams over HTTP: server-sent events that come in pieces, break off anywhere, also within an event, and
//! are gone on with on another replica behind the last one that came whole.

use futures::FutureExt as _;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::http::ClientRequest;
use super::{Client, TRIES};
use crate::judge::promises::{ShownEvent, ShownStream, ToldEnd};
use crate::plan::Plan;
use crate::replica::edge::Part;

const FOUND: &str = "a run that was shown is found over HTTP";

/// Most bytes that come over a connection which breaks off.
const CUT_WITHIN: usize = 1_500;

/// What came of a run until now.
#[derive(Default)]
struct Reading {
    status: StatusCode,
    /// Where the stream is gone on with.
    location: Option<String>,
    last: Option<String>,
    events: Vec<ShownEvent>,
    end: Option<End>,
    told: Option<ToldEnd>,
    /// Whether the run had an answer when this connection began.
    had_answer: bool,
    /// The run waits for somebody, and nothing follows until then.
    is_waiting: bool,
}

enum End {
    /// The run has ended behind so many events.
    Ended(Option<usize>),
    GoesOn(String),
}

impl Client {
    pub(super) async fn stream_over_http(&mut self) {
        let user = self.user().user_id.unwrap_or_default();
        let number = self.world.promises.lock().next_plan();
        let plan = Plan::of(self.world.seed, number);
        let mut reading = Reading::default();
        // By which the provider finds the run.
        let request_id = format!("request-{number}");
        let headers = [("accept", "text/event-stream"), ("x-request-id", &*request_id)];
        let body = json!({ "query": plan.input() });
        let asked =
            ClientRequest { headers: &headers, ..ClientRequest::post("/api/agent".to_owned(), &user, body) };
        self.connect_over_http(asked, &mut reading).await;
        let mut unknown = 0;
        while reading.end.is_none() && !reading.is_waiting {
            let Some(location) = reading.location.clone() else { break };
            self.pause(1_000).await;
            reading.had_answer = self.world.has_answer(run_of(&location));
            let last = reading.last.clone().unwrap_or_default();
            let headers = [("accept", "text/event-stream"), ("last-event-id", &*last)];
            let headers = headers.get(..if last.is_empty() { 1 } else { 2 });
            let headers = headers.unwrap_or_default();
            let asked = ClientRequest { headers, ..ClientRequest::get(location.clone(), &user) };
            self.connect_over_http(asked, &mut reading).await;
            match reading.status {
                StatusCode::NO_CONTENT => reading.end = Some(End::Ended(None)),
                StatusCode::NOT_FOUND => {
                    unknown += 1;
                    self.world.holds(reading.events.is_empty(), FOUND, || location);
                    if unknown > TRIES {
                        break;
                    }
                }
                _ => self.world.reached("a stream was resumed over HTTP"),
            }
        }
        let run_id = reading.location.as_deref().map_or("", run_of);
        let end = if let Some(End::Ended(events)) = &reading.end { *events } else { None };
        let (events, told) = (reading.events, reading.told);
        let shown = ShownStream { run_id: run_id.to_owned(), events, end, told };
        self.world.promises.lock().shown.push(shown);
        if let Some(End::GoesOn(job_id)) = reading.end {
            self.goes_on(user, Some(plan), job_id).await;
        }
    }

    /// Reads until the connection ends, whoever ends it.
    async fn connect_over_http(&mut self, asked: ClientRequest<'_>, reading: &mut Reading) {
        let name = if asked.method == Method::POST { "client stream" } else { "client follow" };
        let Some(request) = asked.request() else { return };
        let breaks = !self.world.is_quiet() && self.random.u32(0..3) == 0;
        let mut left = breaks.then(|| self.random.usize(1..CUT_WITHIN));
        let (replica, (sender, received)) = (self.replica(), mpsc::unbounded_channel());
        let serve = self.replicas.ask(&self.world, replica, name, move |service| {
            async move { service.edge().serve(request, sender).await }.boxed()
        });
        let read = async {
            let (mut received, mut bytes) = (received, Vec::new());
            while let Some(part) = received.recv().await {
                match part {
                    Part::Head(status, location) => {
                        reading.status = status;
                        reading.location = location.or(reading.location.take());
                    }
                    Part::Bytes(more) => {
                        let taken = left.map_or(more.len(), |left| left.min(more.len()));
                        bytes.extend_from_slice(more.get(..taken).unwrap_or_default());
                        reading.take(&mut bytes);
                        left = left.map(|left| left - taken);
                        if left == Some(0) {
                            if !bytes.is_empty() {
                                self.world.reached("a stream broke off within an event");
                            }
                            return;
                        }
                    }
                    Part::End => return,
                }
            }
        };
        tokio::join!(read, serve);
    }
}

impl Reading {
    /// Takes the events that have come whole out of `bytes`.
    fn take(&mut self, bytes: &mut Vec<u8>) {
        while let Some(end) = bytes.windows(2).position(|two| two == b"\n\n") {
            let frame: Vec<u8> = bytes.drain(..end + 2).collect();
            let (mut id, mut name, mut data) = (None, String::new(), String::new());
            for line in String::from_utf8_lossy(&frame).lines() {
                match line.split_once(": ") {
                    Some(("id", value)) => id = Some(value.to_owned()),
                    Some(("event", value)) => name = value.to_owned(),
                    Some(("data", value)) => data = value.to_owned(),
                    Some(("retry", value)) => self.is_waiting = value == "60000",
                    _ => {}
                }
            }
            self.on(id, &name, &data);
        }
    }

    fn on(&mut self, id: Option<String>, name: &str, data: &str) {
        let number = |id: Option<String>| id.and_then(|id| id.parse().ok());
        match name {
            "run.ended" => {
                // silent-ok: what is no JSON has no output.
                let ended: Value = serde_json::from_str(data).unwrap_or_default();
                let output = ended["output"].as_str().unwrap_or_default().to_owned();
                let is_completed = ended["stopReason"] == "completed";
                self.told = Some(ToldEnd::Answer { output, is_completed });
                self.end = Some(End::Ended(number(id)));
            }
            "run.failed" => {
                // silent-ok: what is no JSON names no job.
                let failed: Value = serde_json::from_str(data).unwrap_or_default();
                let job_id = failed["body"]["jobId"].as_str().map(str::to_owned);
                let dead = ToldEnd::Dead(self.had_answer);
                let told = if id.is_some() { ToldEnd::Failed } else { dead };
                self.told = job_id.is_none().then_some(told);
                self.end = Some(job_id.map_or_else(|| End::Ended(number(id)), End::GoesOn));
            }
            _ => {
                let place = |shown: &ShownEvent| (shown.number, shown.part);
                let last = self.events.last().map(place);
                // What a run waits for is said once more to a client that comes again.
                let is_new = |shown: &ShownEvent| name != "run.waiting" || last < Some(place(shown));
                let shown = id.as_deref().and_then(|id| ShownEvent::read(id, name, data));
                if let Some(shown) = shown.filter(is_new) {
                    self.last = id;
                    self.events.push(shown);
                }
            }
        }
    }
}

/// The run whose stream is there.
fn run_of(location: &str) -> &str {
    location.split('/').nth(4).unwrap_or_default()
}
