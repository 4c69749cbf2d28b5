//! `POST /api/agent`: token, both rate windows, validation, cache, and on a miss the agent with an instant
//! provider.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::callers::Callers;
use crate::cpu::Meter;
use crate::measuring::client::{self, Connection};
use crate::measuring::request;
use crate::row::{self, Row};
use crate::{CONNECTIONS, aim};

/// How long each contender runs in one turn.
const TURN: Duration = Duration::from_millis(700);

/// Turns of each contender that count, after one that does not.
const TURNS: usize = 6;

/// How many queries are asked again and again.
const KNOWN: usize = 100;

/// Requests per second, in multiples of the peer's: of misses and hits, at one connection and at more.
const AIMS: [(f64, f64); 2] = [(6.0, 12.0), (7.0, 15.0)];

/// Whose answers are measured.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) callers: &'a Callers,
    pub(crate) meter: Meter,
}

/// What is asked of it.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A query that nobody has asked before.
    Miss,
    /// One of a few.
    Hit,
}

struct Asking<'a> {
    contender: &'a Contender<'a>,
    kind: Kind,
    asked: AtomicUsize,
    first_failure: OnceLock<String>,
}

/// Measures and prints: first ours, then the peer, then the baseline if there is one.
pub(crate) fn measure(provider: SocketAddr, contenders: &[Contender<'_>]) {
    let of_kind = |kind| contenders.iter().map(move |contender| Asking::new(contender, kind));
    let askings: Vec<_> = of_kind(Kind::Miss).chain(of_kind(Kind::Hit)).collect();
    for connections in CONNECTIONS {
        let (mut direct, nobody) = (Row::default(), Meter::of([], None));
        let mut rows: Vec<_> = askings.iter().map(|_| Row::default()).collect();
        for turn in 0..=TURNS {
            direct.measure(&nobody, turn > 0, || ask_directly(provider, connections));
            for (asking, row) in askings.iter().zip(&mut rows) {
                let Contender { address, meter, .. } = asking.contender;
                row.measure(meter, turn > 0, || {
                    client::run(*address, connections, TURN, || asking.on_a_connection())
                });
            }
        }
        report(connections, &mut direct, &askings, &mut rows);
    }
}

/// What the load generator and the provider come to without anything between them.
fn ask_directly(provider: SocketAddr, connections: usize) -> client::Turn {
    let body = r#"{"model":"bench","messages":[{"role":"user","content":"hello"}]}"#;
    let request = request::post("/v1/chat/completions", "", body);
    client::run(provider, connections, TURN, || {
        |connection: &mut Connection| connection.ask(&request).status == 200
    })
}

impl<'a> Asking<'a> {
    fn new(contender: &'a Contender<'a>, kind: Kind) -> Self {
        Self { contender, kind, asked: AtomicUsize::new(0), first_failure: OnceLock::new() }
    }

    fn on_a_connection(&self) -> impl FnMut(&mut Connection) -> bool {
        move |connection| {
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            // `cached` is the last field of both deployments' answers.
            let (query, end) = match self.kind {
                Kind::Miss => (format!("new {number}"), r#""cached":false}"#),
                Kind::Hit => (format!("known {}", number % KNOWN), r#""cached":true}"#),
            };
            let caller = self.contender.callers.next(1);
            let response = connection.ask(&caller.post("/api/agent", &format!(r#"{{"query":"{query}"}}"#)));
            let is_expected = response.status == 200 && response.body.ends_with(end.as_bytes());
            // The first of the known ones are new.
            if !is_expected && number >= KNOWN * 2 {
                self.first_failure.get_or_init(|| {
                    format!("{} {}", response.status, String::from_utf8_lossy(response.body))
                });
            }
            is_expected
        }
    }
}

fn report(connections: usize, direct: &mut Row, askings: &[Asking<'_>], rows: &mut [Row]) {
    println!("\nPOST /api/agent, {connections} connection(s), {TURNS} turns of {} ms each", TURN.as_millis());
    Row::print_heading("req/s");
    direct.print("provider, asked directly");
    for (asking, row) in askings.iter().zip(rows.iter_mut()) {
        row.print(&format!("{}, {}", asking.kind.name(), asking.contender.name));
        if let Some(failure) = asking.first_failure.get() {
            println!("    the first failure: {failure}");
        }
    }
    let contenders = askings.len() / AIMS.len();
    for (pair, (at_one, at_more)) in [0, contenders].into_iter().zip(AIMS) {
        let ratio = rows[pair].rate() / rows[pair + 1].rate();
        let kind = askings[pair].kind.name();
        let aim = if connections == 1 { at_one } else { at_more };
        println!("  {kind}: {}", aim::at_least("requests per second of the peer's", ratio, aim));
        if contenders > 2 {
            row::print_beside_baseline(kind, rows, [pair, pair + 2]);
        }
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Miss => "cache miss",
            Self::Hit => "cache hit",
        }
    }
}
