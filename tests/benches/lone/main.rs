//! Where a lone request's time goes: one connection, one request at a time, an instant provider.
//!
//! The release binary is measured with everything and without one part at a time, in turns, so that the rows
//! compare on a machine that others use as well: what a part is worth is what goes with it. Beside latency
//! stands what the kernel counts: processor time, how often a thread of the service went to sleep (each time
//! somebody has to wake it) or was taken off its processor, page faults, and system calls by name. The last
//! are counted by strace in a pass of its own.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "a benchmark")]
// cargo sets `test` for programs without its harness as well: their unit tests are compiled, and called in
// `it` only.
#![allow(
    dead_code,
    unused_imports,
    reason = "unit tests without a harness, and modules that other benches share"
)]

mod asking;
#[path = "../variant_b/callers.rs"]
mod callers;
mod contenders;
#[path = "../variant_b/deployments.rs"]
mod deployments;
#[path = "../variant_b/events.rs"]
mod events;
#[path = "../measuring/mod.rs"]
mod measuring;
mod spent;
mod syscalls;
mod table;

use std::time::Duration;

use asking::{Asking, Kind};
use axum::routing::post;
use axum::{Json, Router};
use callers::Callers;
use contenders::{Deployment, WHOLE};
use events::{Events, Seen};
use measuring::subject::Subject;
use measuring::{machine, provider};
use serde_json::{Value, json};
use table::{Measured, Row};
use tokio::runtime::Runtime;

/// How long each row is measured in one turn: short, so that all rows see the machine as it is at that time.
const TURN: Duration = Duration::from_millis(300);

/// Turns of each row that count, after one that does not.
const TURNS: usize = 12;

/// How many rows further each turn begins.
const STRIDE: usize = 5;

/// How long system calls are counted.
const COUNTED: Duration = Duration::from_millis(700);

/// Beside a lone request, to show what differs.
const MANY: usize = 32;

const INVOKE: Kind<'_> = Kind::Plain { path: "/agent/invoke", body: r#"{"input":"hello"}"# };
const ECHO: Kind<'_> = Kind::Plain { path: "/echo", body: r#"{"input":"hello"}"# };
const PROVIDER: Kind<'_> = Kind::Plain {
    path: "/v1/chat/completions",
    body: r#"{"model":"bench","messages":[{"role":"user","content":"hello"}]}"#,
};

fn main() {
    println!("machine: {}", machine::describe());
    println!(
        "{TURNS} turns of {} ms each; what is counted is the service's, for each answer",
        TURN.as_millis()
    );
    let runtime = Runtime::new().unwrap();
    let provider = provider::start();
    let echo = |body: Json<Value>| async move { Json(json!({ "result": body.0 })) };
    let echo = provider::serve(Router::new().route("/echo", post(echo)));
    // Contenders that share a queue would work off each other's jobs.
    let [redis, queue, baseline_queue] = [(); 3].map(|()| deployments::start_redis(&runtime));
    let [events, baseline_events] = [&queue, &baseline_queue].map(Events::of);
    let [job, baseline_job] = [&events, &baseline_events].map(|events| Kind::Job(Seen::InEvents(events)));
    let ours = Subject::ours();
    let asked = contenders::start_all(&ours, provider, &redis.url());
    let plain = [
        contenders::variant_a(&ours, "`/agent/invoke`, runs in SQLite on disk", provider, true),
        contenders::variant_a(&ours, "`/agent/invoke`, a store that does nothing", provider, false),
    ];
    let worker = contenders::with_queue(&ours, "job on Redis", provider, &queue.url());
    let baseline = Subject::baseline()
        .map(|subject| contenders::with_queue(&subject, "the baseline", provider, &baseline_queue.url()));
    let nobody = Callers::new();

    let mut rows = Vec::new();
    for (what, kind) in [("miss", Kind::Miss), ("hit", Kind::Hit)] {
        rows.extend(asked.iter().map(|deployment| row(deployment, what, kind, 1)));
    }
    rows.extend(plain.iter().map(|deployment| row(deployment, "run", INVOKE, 1)));
    rows.push(row(&worker, "job", job, 1));
    if let Some(baseline) = &baseline {
        let kinds = [("miss", Kind::Miss), ("hit", Kind::Hit), ("job", baseline_job)];
        rows.extend(kinds.map(|(what, kind)| row(baseline, what, kind, 1)));
    }
    let direct = [("provider, asked directly", provider, PROVIDER), ("bare axum echo", echo, ECHO)];
    rows.extend(direct.map(|(name, address, kind)| Row {
        name,
        what: "–",
        connections: 1,
        asking: Asking::new(address, kind, &nobody),
        process: None,
        measured: Measured::default(),
    }));
    let whole = asked.iter().find(|deployment| deployment.name == WHOLE).expect("it is among them");
    for (what, kind) in [("miss", Kind::Miss), ("hit", Kind::Hit)] {
        rows.push(row(whole, what, kind, MANY));
    }
    rows.push(row(&worker, "job", job, MANY));
    if let Some(baseline) = &baseline {
        let kinds = [("miss", Kind::Miss), ("hit", Kind::Hit), ("job", baseline_job)];
        rows.extend(kinds.map(|(what, kind)| row(baseline, what, kind, MANY)));
    }
    measure(&mut rows);
    table::print(&mut rows);
    table::print_worth(&mut rows, WHOLE);
}

fn row<'a>(deployment: &'a Deployment, what: &'static str, kind: Kind<'a>, connections: usize) -> Row<'a> {
    let server = &deployment.server;
    Row {
        name: deployment.name,
        what,
        connections,
        asking: Asking::new(server.address, kind, &deployment.callers),
        process: Some(server.running.0.id()),
        measured: Measured::default(),
    }
}

fn measure(rows: &mut [Row<'_>]) {
    for row in &*rows {
        row.asking.prepare();
    }
    for turn in 0..=TURNS {
        // Each time another row is the first one, so that none always follows the load of many connections.
        for index in 0..rows.len() {
            let row = (index + turn * STRIDE) % rows.len();
            rows[row].measure(TURN, turn > 0);
        }
    }
    let home = tempfile::tempdir().unwrap();
    for row in rows {
        if let Err(why) = row.count_syscalls(COUNTED, home.path()) {
            println!("system calls are not counted: {why}");
            return;
        }
    }
}
