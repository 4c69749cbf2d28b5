//! What is asked of a deployment, one request after the other on each connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::callers::{Caller, Callers};
use crate::events::Seen;
use crate::measuring::client::{self, Connection, Turn};
use crate::measuring::request::post;

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
    /// `POST /api/agent/async`, until the job's end is seen.
    Job(Seen<'a>),
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
        let mut connection = Connection::open(self.address);
        for number in 0..KNOWN {
            let request = self.query(self.callers.next(1), number);
            assert_eq!(connection.ask(&request).status, 200, "a query is answered");
        }
    }

    fn on_a_connection(&self) -> impl FnMut(&mut Connection) -> bool {
        move |connection| {
            let number = ASKED.fetch_add(1, Ordering::Relaxed);
            match self.kind {
                Kind::Plain { path, body } => {
                    let response = connection.ask(&post(path, "", body));
                    response.status == 200 && !response.body.is_empty()
                }
                Kind::Miss | Kind::Hit => {
                    let response = connection.ask(&self.query(self.callers.next(1), number));
                    // The last field of the answer.
                    let end: &[u8] = match self.kind {
                        Kind::Hit => br#""cached":true}"#,
                        _ => br#""cached":false}"#,
                    };
                    response.status == 200 && response.body.ends_with(end)
                }
                Kind::Job(seen) => seen.work_off(connection, self.callers),
            }
        }
    }

    /// Deployments share a Redis, so each asks queries of its own.
    fn query(&self, caller: Caller<'_>, number: usize) -> Vec<u8> {
        let port = self.address.port();
        let query = match self.kind {
            Kind::Hit => format!("known {port} {}", number % KNOWN),
            _ => format!("new {port} {number}"),
        };
        caller.post("/api/agent", &format!(r#"{{"query":"{query}"}}"#))
    }
}
