//! The whole service against an instant provider: latency, throughput, memory and start-up.
//!
//! Everything runs in one go on one machine and takes turns, so that the ratios hold on a noisy one: the
//! provider asked directly, a bare axum echo, `/agent/invoke` with and without a tool call, and the former
//! once more with every request traced. The service is the release binary with the shipped tools and its
//! usual log; the one that is traced exports to a collector that takes everything.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "a benchmark")]

#[path = "../measuring/mod.rs"]
mod measuring;
mod service;

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Bytes;
use axum::routing::post;
use axum::{Json, Router};
use measuring::client::{self, Load, percentile};
use measuring::process::{Server, processor_time};
use measuring::subject::Subject;
use measuring::{machine, provider};
use serde_json::{Value, json};

/// How long each contender runs in one turn.
const TURN: Duration = Duration::from_millis(700);

/// Turns of each contender.
const TURNS: usize = 6;

/// A crowd: how many connections have short requests, and how many beside them have long ones.
const CROWD: [usize; 2] = [448, 64];

/// Starts that are timed.
const STARTS: usize = 15;

fn main() {
    println!("machine: {}", machine::describe());
    let provider = provider::start();
    let echo = |body: Json<Value>| async move { Json(json!({"result": body.0})) };
    let echo = provider::serve(Router::new().route("/echo", post(echo)));
    let ours = Subject::ours();
    let compiled = service::resident_mib_after_compiling(&ours, provider);
    let mut service = Server::start(&mut ours.serve(provider));
    let idle = service.running.resident_mib();
    let collector = provider::serve(Router::new().route("/v1/traces", post(async |_: Bytes| ())));
    let mut traced = service::start_traced(&ours, provider, collector);
    let baseline = Subject::baseline();
    let mut baseline = baseline.map(|subject| Server::start(&mut subject.serve(provider)));
    let baseline_idle = baseline.as_ref().map_or(0.0, |baseline| baseline.running.resident_mib());
    let mut contenders = vec![
        ("provider, asked directly", request(provider, "/v1/chat/completions", PROVIDER_BODY)),
        ("bare axum echo", request(echo, "/echo", INVOKE_BODY)),
        ("/agent/invoke, no tool", request(service.address, "/agent/invoke", INVOKE_BODY)),
        ("/agent/invoke, one tool call", request(service.address, "/agent/invoke", TOOL_BODY)),
        ("/agent/invoke, traced", request(traced.address, "/agent/invoke", INVOKE_BODY)),
    ];
    if let Some(baseline) = &baseline {
        contenders.extend([
            ("baseline, no tool", request(baseline.address, "/agent/invoke", INVOKE_BODY)),
            ("baseline, one tool call", request(baseline.address, "/agent/invoke", TOOL_BODY)),
        ]);
    }
    for (_, (address, request)) in &contenders {
        // Whoever is asked first waits for the tools to be compiled.
        while client::run(*address, 1, Duration::ZERO, asking(request)).failures > 0 {}
    }
    for connections in [1, 32] {
        let (mut loads, processor) = take_turns(&contenders, connections, [&service, &traced]);
        assert!(loads.iter().all(|load| load.failures == 0), "not every answer was a 200");
        let names: Vec<_> = contenders.iter().map(|(name, _)| *name).collect();
        report(connections, &names, &mut loads);
        report_tracing(&loads, processor);
    }
    crowd(service.address, baseline.as_ref().map(|baseline| baseline.address));
    println!(
        "\nresident memory: {idle:.1} MiB idle (aim: 40), {:.1} MiB at most under load,\n  {compiled:.1} MiB after a start that had to compile all tools",
        service.running.peak_mib()
    );
    service.running.kill();
    traced.running.kill();
    if let Some(baseline) = &mut baseline {
        let peak = baseline.running.peak_mib();
        println!("baseline: {baseline_idle:.1} MiB idle, {peak:.1} at most under load");
        baseline.running.kill();
    }
    let mut starts: Vec<Duration> = (0..STARTS).map(|_| service::time_to_ready(&ours, provider)).collect();
    let [median, worst] =
        [50, 100].map(|percent| percentile(&mut starts, percent).unwrap_or_default().as_secs_f64() * 1e3);
    println!(
        "exec to ready, warm compile cache: median {median:.0} ms, worst of {STARTS} {worst:.0} ms (aim: 100)"
    );
}

/// All contenders in turn, and the processor time of the service in its turns, not traced and traced.
fn take_turns(
    contenders: &[(&str, (SocketAddr, Vec<u8>))],
    connections: usize,
    services: [&Server; 2],
) -> (Vec<Load>, [Duration; 2]) {
    let mut loads: Vec<Load> = contenders.iter().map(|_| Load::default()).collect();
    let mut processor = [Duration::ZERO; 2];
    let spent_by = |server: &Server| processor_time(server.running.0.id()).expect("it serves");
    for _ in 0..TURNS {
        for (index, ((_, (address, request)), load)) in contenders.iter().zip(&mut loads).enumerate() {
            let before = services.map(spent_by);
            load.add(client::run(*address, connections, TURN, asking(request)));
            let spent = services.map(spent_by);
            match index {
                NOT_TRACED => processor[0] += spent[0].saturating_sub(before[0]),
                TRACED => processor[1] += spent[1].saturating_sub(before[1]),
                _ => {}
            }
        }
    }
    (loads, processor)
}

/// Has every connection ask that; a 200 with a body is expected.
fn asking<'a>(request: &'a [u8]) -> impl Fn() -> Box<Ask<'a>> {
    move || {
        Box::new(move |connection| {
            let response = connection.ask(request);
            response.status == 200 && !response.body.is_empty()
        })
    }
}

type Ask<'a> = dyn FnMut(&mut client::Connection) -> bool + Send + 'a;

/// Short requests on hundreds of connections, while others wait for a provider that takes its time: whether
/// a thread whose connections are all busy lets those starve that were given to it.
fn crowd(ours: SocketAddr, baseline: Option<SocketAddr>) {
    let [short, long] = CROWD;
    println!(
        "\n{short} connections with short requests, and {long} with requests of {} ms",
        provider::LATE.as_millis()
    );
    let contenders = [("/agent/invoke", Some(ours)), ("baseline", baseline)];
    let mut contenders: Vec<_> = contenders
        .into_iter()
        .filter_map(|(name, address)| Some((name, address?, Load::default())))
        .collect();
    for _ in 0..TURNS {
        for (_, address, load) in &mut contenders {
            let (_, brief) = request(*address, "/agent/invoke", INVOKE_BODY);
            let (_, slow) = request(*address, "/agent/invoke", SLOW_BODY);
            std::thread::scope(|scope| {
                let others = scope.spawn(|| client::run(*address, long, 2 * TURN, asking(&slow)));
                load.add(client::run(*address, short, 2 * TURN, asking(&brief)));
                assert_eq!(others.join().unwrap().failures, 0, "not every answer was a 200");
            });
            assert_eq!(load.failures, 0, "not every answer was a 200");
        }
    }
    for (name, _, load) in &mut contenders {
        let (rate, p50, p99) = (load.rate(), load.percentile(50), load.percentile(99));
        println!("  {name:<30} {rate:>9.0} {p50:>10.0} {p99:>10.0}");
    }
    if let [(_, _, ours), (_, _, theirs)] = &mut contenders[..] {
        let ratio = ours.percentile(99) / theirs.percentile(99);
        println!("  p99 beside the baseline: {ratio:.2} times (aim: at most 1.5)");
    }
}

/// Which contenders show what tracing costs.
const NOT_TRACED: usize = 2;
const TRACED: usize = 4;

/// Requests a second, in which the collector's share of the cores is, and the service's own time.
fn report_tracing(loads: &[Load], processor: [Duration; 2]) {
    let [not_traced, traced] = [&loads[NOT_TRACED], &loads[TRACED]];
    let each = |time: Duration, load: &Load| time.as_secs_f64() * 1e6 / load.times.len() as f64;
    println!(
        "  traced beside not traced: {:.1} % fewer requests/s (aim: at most 5), processor time of a request {:.1} µs for {:.1}",
        100.0 * (1.0 - traced.rate() / not_traced.rate()),
        each(processor[1], traced),
        each(processor[0], not_traced)
    );
}

const SLOW_BODY: &str = r#"{"input":"take your time"}"#;
const INVOKE_BODY: &str = r#"{"input":"hello"}"#;
const TOOL_BODY: &str = r#"{"input":"use the tool"}"#;
const PROVIDER_BODY: &str =
    r#"{"model":"bench","messages":[{"role":"user","content":"hello"}],"max_tokens":9000,"temperature":0}"#;

fn request(address: SocketAddr, path: &str, body: &str) -> (SocketAddr, Vec<u8>) {
    (address, measuring::request::post(path, "", body))
}

/// A run asks the provider once, or twice with a tool call; that much of its time is the provider's.
fn report(connections: usize, names: &[&str], loads: &mut [Load]) {
    println!("\n{connections} connection(s), {TURNS} turns of {} ms each", TURN.as_millis());
    println!("  {:<30} {:>9} {:>10} {:>10}", "", "req/s", "p50 µs", "p99 µs");
    for (name, load) in names.iter().zip(loads.iter_mut()) {
        let (rate, p50, p99) = (load.rate(), load.percentile(50), load.percentile(99));
        println!("  {name:<30} {rate:>9.0} {p50:>10.0} {p99:>10.0}");
    }
    if loads.len() > 5 {
        for (ours, theirs) in [(2, 5), (3, 6)] {
            println!(
                "  {} beside the baseline: {:.3} times its requests/s, p50 {:.3} times",
                names[ours],
                loads[ours].rate() / loads[theirs].rate(),
                loads[ours].percentile(50) / loads[theirs].percentile(50)
            );
        }
    }
    let (provider50, provider99) = (loads[0].percentile(50), loads[0].percentile(99));
    for (load, name, calls) in [(2, names[2], 1.0), (3, names[3], 2.0)] {
        let (p50, p99) = (loads[load].percentile(50), loads[load].percentile(99));
        let added = |own: f64, provider: f64| own - calls * provider;
        println!(
            "  added by {name} over its {calls} provider call(s): p50 {:.0} µs, p99 {:.0} µs{}",
            added(p50, provider50),
            added(p99, provider99),
            if connections == 1 && load == 2 { " (aim: p99 at most 300)" } else { "" }
        );
    }
    let (echo50, echo99) = (loads[1].percentile(50), loads[1].percentile(99));
    println!(
        "  added by {} over the bare echo: p50 {:.0} µs, p99 {:.0} µs",
        names[2],
        loads[2].percentile(50) - echo50,
        loads[2].percentile(99) - echo99
    );
}
