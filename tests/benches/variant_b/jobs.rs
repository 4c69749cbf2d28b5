//! `POST /api/agent/async`: from the submission to the result, worked on five at a time by the deployment's
//! own worker, with an instant provider.

use std::net::SocketAddr;
use std::time::Duration;

use crate::callers::Callers;
use crate::cpu::Meter;
use crate::events::Seen;
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
        move |connection| self.seen.work_off(connection, self.callers)
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
