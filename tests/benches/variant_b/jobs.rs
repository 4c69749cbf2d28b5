//! `POST /api/agent/async`: from the submission to the result, worked on five at a time by the deployment's
//! own worker, with an instant provider.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use crate::callers::Callers;
use crate::cpu::Meter;
use crate::events::Events;
use crate::measuring::client::{self, Connection};
use crate::row::{self, Row};
use crate::{CONNECTIONS, aim};

/// How long each contender runs in one turn.
const TURN: Duration = Duration::from_millis(1000);

/// Turns of each contender that count, after one that does not.
const TURNS: usize = 6;

/// Jobs per second, in multiples of the peer's: with one under way, and with more.
const AIMS: (f64, f64) = (2.0, 3.0);

/// Whose queue is measured.
pub(crate) struct Contender<'a> {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) callers: &'a Callers,
    pub(crate) meter: Meter,
    pub(crate) seen: Seen<'a>,
}

/// How whoever submitted a job learns of its end.
pub(crate) enum Seen<'a> {
    /// From BullMQ's events.
    InEvents(&'a Events),
    /// From the answer to `GET /api/agent/jobs/{id}?wait=60`, which carries the result.
    InAnswer,
}

impl Seen<'_> {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::InEvents(_) => "events",
            Self::InAnswer => "GET ?wait=",
        }
    }
}

/// Measures and prints. The first two are ours and the peer, seen in the same way; the third one, where a
/// baseline is measured, is the baseline, seen so too.
pub(crate) fn measure(contenders: &[Contender<'_>], has_baseline: bool) {
    for waiting in CONNECTIONS {
        let mut rows: Vec<Row> = contenders.iter().map(|_| Row::default()).collect();
        for turn in 0..=TURNS {
            for (contender, row) in contenders.iter().zip(&mut rows) {
                row.measure(&contender.meter, turn > 0, || {
                    client::run(contender.address, waiting, TURN, || contender.on_a_connection())
                });
            }
        }
        report(waiting, contenders, &mut rows);
        if has_baseline {
            row::print_beside_baseline("on Redis", &mut rows, [0, 2]);
        }
    }
}

impl Contender<'_> {
    /// Submits one job after the other on a connection, each until its end is seen.
    pub(crate) fn on_a_connection(&self) -> impl FnMut(&mut Connection) -> bool {
        let mut request = Vec::new();
        move |connection| {
            let caller = self.callers.next(2);
            caller.post("/api/agent/async", r#"{"query":"hello"}"#, &mut request);
            let response = connection.ask(&request);
            // Ours says 202, the peer 200.
            if !matches!(response.status, 200 | 202) {
                return false;
            }
            let submitted: Value = serde_json::from_slice(response.body).unwrap();
            let job_id = submitted["jobId"].as_str().expect("the id of a job");
            match self.seen {
                Seen::InEvents(events) => events.wait_for(job_id),
                Seen::InAnswer => {
                    caller.get(&format!("/api/agent/jobs/{job_id}?wait=60"), &mut request);
                    let response = connection.ask(&request);
                    let completed = br#""status":"completed""#;
                    response.status == 200
                        && response.body.windows(completed.len()).any(|window| window == completed)
                }
            }
        }
    }
}

fn report(waiting: usize, contenders: &[Contender<'_>], rows: &mut [Row]) {
    println!(
        "\nPOST /api/agent/async to result, {waiting} job(s) under way, {TURNS} turns of {} ms each",
        TURN.as_millis()
    );
    Row::print_heading("jobs/s");
    for (contender, row) in contenders.iter().zip(rows.iter_mut()) {
        row.print(&contender.name);
    }
    let ratio = rows[0].rate() / rows[1].rate();
    let aim = if waiting == 1 { AIMS.0 } else { AIMS.1 };
    println!("  on Redis: {}", aim::at_least("jobs per second of the peer's", ratio, aim));
}
