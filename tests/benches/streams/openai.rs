//! `/v1/chat/completions` beside `/api/agent` of the same service: the same runs, asked for and answered in
//! other words. No question is asked twice, so every answer is a run with a record.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::form::{self, Form};
use crate::measuring::client::{self, Connection, Load, Turn};
use crate::measuring::subject::Subject;
use crate::provider::Provider;
use crate::requests::{self, MakeRequest};
use crate::script::Script;
use crate::service::Service;
use crate::turn::{self, Plan, Target};

/// How many connections ask at once.
const CONNECTIONS: [usize; 2] = [1, 32];

/// How long each contender runs in one turn.
const TURN: Duration = Duration::from_millis(500);

/// Turns of each contender.
const TURNS: usize = 3;

/// Deltas of each reply that is streamed.
const SCRIPT: Script = Script { deltas: 5, pause: Some(Duration::ZERO) };

/// How many requests per second fewer than on the native route, in percent.
const AIM: f64 = 5.0;

/// A way to ask.
struct Front {
    name: &'static str,
    request: MakeRequest,
    answer: Answer,
}

enum Answer {
    /// All at once; it ends like this.
    Plain(&'static str),
    Streamed(&'static Form),
}

/// Native and front, plain and streamed.
const FRONTS: [Front; 4] = [
    Front { name: "/api/agent", request: requests::agent, answer: Answer::Plain(r#""cached":false}"#) },
    Front {
        name: "/v1/chat/completions",
        request: requests::completion,
        answer: Answer::Plain(r#""reasoning_tokens":0}}}"#),
    },
    Front {
        name: "/api/agent, streamed",
        request: requests::agent_streamed,
        answer: Answer::Streamed(&form::RUN),
    },
    Front {
        name: "/v1/chat/completions, streamed",
        request: requests::completion_streamed,
        answer: Answer::Streamed(&form::COMPLETION),
    },
];

/// Measures and prints. Answers how many answers were not as expected.
pub(crate) fn measure(runtime: &Runtime, provider: &Provider) -> usize {
    let home = tempfile::tempdir().unwrap();
    let subjects = Subject::all();
    let serve =
        |subject: &Subject| Service::variant_b(subject, provider.address, &home.path().join(subject.name));
    let services: Vec<_> = subjects.iter().map(serve).collect();
    let mut failures = 0;
    for connections in CONNECTIONS {
        let mut loads: Vec<_> = services.iter().map(|_| [(); 4].map(|()| Load::default())).collect();
        for _ in 0..TURNS {
            for (service, loads) in services.iter().zip(&mut loads) {
                for (front, load) in FRONTS.iter().zip(loads) {
                    load.add(front.ask(runtime, service.address, connections));
                }
            }
        }
        for (service, loads) in services.iter().zip(&mut loads) {
            report(service.name, connections, loads);
            failures += loads.iter().map(|load| load.failures).sum::<usize>();
        }
    }
    failures
}

impl Front {
    fn ask(&self, runtime: &Runtime, address: SocketAddr, connections: usize) -> Turn {
        match self.answer {
            Answer::Plain(end) => ask_plain(address, connections, self.request, end),
            Answer::Streamed(form) => {
                let target = Target { name: self.name, address, form, request: self.request };
                let plan = Plan { streams: connections, script: SCRIPT, turn: TURN };
                let outcome = runtime.block_on(turn::run(target, plan));
                outcome.report_cut();
                outcome.streams()
            }
        }
    }
}

fn ask_plain(address: SocketAddr, connections: usize, request: MakeRequest, end: &'static str) -> Turn {
    let numbers = AtomicUsize::new(0);
    client::run(address, connections, TURN, || {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        move |connection: &mut Connection| {
            let request = request(&SCRIPT.text(), number);
            let response = connection.ask(&request);
            response.status == 200 && response.body.ends_with(end.as_bytes())
        }
    })
}

fn report(name: &str, connections: usize, loads: &mut [Load; 4]) {
    println!(
        "\nthe OpenAI front of {name}, {connections} connection(s), {TURNS} turns of {} ms each, {} deltas a stream",
        TURN.as_millis(),
        SCRIPT.deltas
    );
    println!("  {:<34} {:>9} {:>10} {:>10} {:>8}", "", "req/s", "p50 µs", "p99 µs", "failures");
    for (front, load) in FRONTS.iter().zip(loads.iter_mut()) {
        if load.times.is_empty() {
            println!("  {:<34} nothing was answered as expected, {} times", front.name, load.failures);
            continue;
        }
        let (rate, p50, p99, failures) =
            (load.rate(), load.percentile(50), load.percentile(99), load.failures);
        println!("  {:<34} {rate:>9.0} {p50:>10.0} {p99:>10.0} {failures:>8}", front.name);
    }
    for (native, front) in [(0, 1), (2, 3)] {
        let fewer = 100.0 * (1.0 - loads[front].rate() / loads[native].rate());
        println!(
            "  {} beside {}: {fewer:.1} % fewer requests/s (aim: at most {AIM}{})",
            FRONTS[front].name,
            FRONTS[native].name,
            if fewer > AIM { ", missed" } else { "" }
        );
    }
}
