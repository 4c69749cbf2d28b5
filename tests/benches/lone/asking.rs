//! What is asked of a deployment, one request after the other on each connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::callers::{Caller, Callers};
use crate::events::Events;
use crate::measuring::client::{self, Connection, Turn};

/// How many queries are asked again and again.
const KNOWN: usize = 100;

/// How often anybody was asked anything: what nobody has asked before has a number that nobody had.
static ASKED: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// `POST /api/agent` with a query that nobody has asked before.
    Miss,
    /// `POST /api/agent` with one of a few queries.
    Hit,
    /// `POST /api/agent/async`, until the job's end stands in BullMQ's events.
    JobOnRedis(&'a Events),
    /// `POST /api/agent/async`, until `GET /api/agent/jobs/{id}?wait=60` answers with the result.
    EmbeddedJob,
    /// One body always, to somebody who knows no users.
    Plain { path: &'static str, body: &'static str },
}

/// Who is asked, and what.
pub(crate) struct Asking<'a> {
    address: SocketAddr,
    kind: Kind<'a>,
    callers: &'a Callers,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(address: SocketAddr, kind: Kind<'a>, callers: &'a Callers) -> Self {
        Self { address, kind, callers }
    }

    /// Asks on so many connections for that long. A failure is an answer that was not the expected one.
    pub(crate) fn run(&self, connections: usize, turn: Duration) -> Turn {
        client::run(self.address, connections, turn, || self.on_a_connection())
    }

    /// What is known has been asked before, and is answered from the cache from then on.
    pub(crate) fn prepare(&self) {
        let Kind::Hit = self.kind else { return };
        let (mut connection, mut request) = (Connection::open(self.address), Vec::new());
        for number in 0..KNOWN {
            let caller = self.callers.next(1);
            self.query(caller, number, &mut request);
            assert_eq!(connection.ask(&request).status, 200, "a query is answered");
        }
    }

    fn on_a_connection(&self) -> impl FnMut(&mut Connection) -> bool {
        let mut request = Vec::new();
        move |connection| {
            let number = ASKED.fetch_add(1, Ordering::Relaxed);
            match self.kind {
                Kind::Plain { path, body } => {
                    write_plain(path, body, &mut request);
                    let response = connection.ask(&request);
                    response.status == 200 && !response.body.is_empty()
                }
                Kind::Miss | Kind::Hit => {
                    self.query(self.callers.next(1), number, &mut request);
                    let response = connection.ask(&request);
                    // The last field of the answer.
                    let end: &[u8] = match self.kind {
                        Kind::Hit => br#""cached":true}"#,
                        _ => br#""cached":false}"#,
                    };
                    response.status == 200 && response.body.ends_with(end)
                }
                Kind::JobOnRedis(_) | Kind::EmbeddedJob => self.work_off(connection, &mut request),
            }
        }
    }

    /// Deployments share a Redis, so each asks queries of its own.
    fn query(&self, caller: Caller<'_>, number: usize, request: &mut Vec<u8>) {
        let port = self.address.port();
        let query = match self.kind {
            Kind::Hit => format!("known {port} {}", number % KNOWN),
            _ => format!("new {port} {number}"),
        };
        caller.post("/api/agent", &format!(r#"{{"query":"{query}"}}"#), request);
    }

    fn work_off(&self, connection: &mut Connection, request: &mut Vec<u8>) -> bool {
        let caller = self.callers.next(2);
        caller.post("/api/agent/async", r#"{"query":"hello"}"#, request);
        let response = connection.ask(request);
        if response.status != 202 {
            return false;
        }
        let submitted: Value = serde_json::from_slice(response.body).unwrap();
        let job_id = submitted["jobId"].as_str().expect("the id of a job");
        if let Kind::JobOnRedis(events) = self.kind {
            return events.wait_for(job_id);
        }
        caller.get(&format!("/api/agent/jobs/{job_id}?wait=60"), request);
        let response = connection.ask(request);
        let completed = br#""status":"completed""#;
        response.status == 200 && response.body.windows(completed.len()).any(|window| window == completed)
    }
}

fn write_plain(path: &str, body: &str, request: &mut Vec<u8>) {
    let length = body.len();
    let text = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    request.clear();
    request.extend_from_slice(text.as_bytes());
}
