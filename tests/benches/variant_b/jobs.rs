//! `POST /api/agent/async`: from the submission to the result, worked on five at a time by the deployment's own
//! worker, with an instant provider.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use crate::callers::Callers;
use crate::events::Events;
use crate::measuring::client::{self, Connection, Load};
use crate::{CONNECTIONS, aim};

/// How long each contender runs in one turn.
const TURN: Duration = Duration::from_millis(1000);

/// Turns of each contender that count, after one that does not.
const TURNS: usize = 6;

/// Jobs per second, in multiples of the peer's.
const AIM: f64 = 2.0;

/// Whose queue is measured.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) callers: &'a Callers,
    pub(crate) seen: Seen<'a>,
}

/// How whoever submitted a job learns of its end.
pub(crate) enum Seen<'a> {
    /// From BullMQ's events.
    InEvents(&'a Events),
    /// From the answer to `GET /api/agent/jobs/{id}?wait=60`, which carries the result.
    InAnswer,
}

/// Measures and prints. The first two are ours and the peer, seen in the same way.
pub(crate) fn measure(contenders: &[Contender<'_>]) {
    for waiting in CONNECTIONS {
        let mut loads: Vec<Load> = contenders.iter().map(|_| Load::default()).collect();
        for turn in 0..=TURNS {
            for (contender, load) in contenders.iter().zip(&mut loads) {
                let done = client::run(contender.address, waiting, TURN, || contender.on_a_connection());
                if turn > 0 {
                    load.add(done);
                }
            }
        }
        report(waiting, contenders, &mut loads);
    }
}

impl Contender<'_> {
    fn on_a_connection(&self) -> impl FnMut(&mut Connection) -> bool {
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

fn report(waiting: usize, contenders: &[Contender<'_>], loads: &mut [Load]) {
    println!(
        "\nPOST /api/agent/async, {waiting} job(s) under way, {TURNS} turns of {} ms each; failures are jobs that were\n\
         not accepted or not completed",
        TURN.as_millis()
    );
    println!(
        "  {:<46} {:>9} {:>10} {:>10} {:>9}",
        "submit to result", "jobs/s", "p50 µs", "p99 µs", "failures"
    );
    for (contender, load) in contenders.iter().zip(loads.iter_mut()) {
        let (rate, p50, p99) = (load.rate(), load.percentile(50), load.percentile(99));
        println!("  {:<46} {rate:>9.0} {p50:>10.0} {p99:>10.0} {:>9}", contender.name, load.failures());
    }
    let ratio = loads[0].rate() / loads[1].rate();
    println!("  on Redis: {}", aim::at_least("jobs per second of the peer's", ratio, AIM));
}
