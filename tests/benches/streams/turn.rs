//! Streams that are read at the same time, each again and again on a connection of its own.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::form::{self, Form};
use crate::measuring::client::{Load, Turn};
use crate::provider::Provider;
use crate::reader::{Reader, Seen};
use crate::requests::{self, MakeRequest};
use crate::script::Script;
use crate::service::Service;

/// How long a stream may take before the bench gives it up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Whose streams are read.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) form: &'static Form,
    pub(crate) request: MakeRequest,
}

impl Target {
    /// What a stream is without the service: the same reader, and nothing between it and the provider.
    pub(crate) fn direct(provider: &Provider) -> Self {
        let (address, form, request) = (provider.address, &form::PROVIDER, requests::provider as MakeRequest);
        Self { name: "provider, read directly", address, form, request }
    }

    /// Runs of Variant A.
    pub(crate) fn runs(service: &Service) -> Self {
        let (address, form, request) =
            (service.address, &form::RUN, requests::invoke_streamed as MakeRequest);
        Self { name: service.name, address, form, request }
    }

    /// The provider itself, then `/agent/invoke` of each service.
    pub(crate) fn beside_direct(provider: &Provider, services: &[Service]) -> Vec<Self> {
        [Self::direct(provider)].into_iter().chain(services.iter().map(Self::runs)).collect()
    }
}

/// How many, of which kind, and for how long they are begun anew. Their beginnings are spread over the time
/// that one is paused, and those count that begin after it, when all are open.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) streams: usize,
    pub(crate) script: Script,
    pub(crate) turn: Duration,
}

/// What a turn came to.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Streams that had their whole text and their result.
    pub(crate) whole: usize,
    /// All others, and what was said of them.
    pub(crate) cut: usize,
    pub(crate) remarks: BTreeMap<String, usize>,
    /// Events with a delta.
    pub(crate) events: usize,
    /// From the provider's first byte to the first event, of streams that count.
    pub(crate) firsts: Vec<Duration>,
    /// From the request to the end of the stream, of streams that count.
    pub(crate) times: Vec<Duration>,
    /// Until the last one had ended.
    pub(crate) elapsed: Duration,
}

/// Reads streams until the turn is over and all have ended. Each connection reads one at least.
pub(crate) async fn run(target: Target, plan: Plan) -> Outcome {
    let mut readers = Vec::new();
    for _ in 0..plan.streams {
        readers.push(Reader::open(target.address).await);
    }
    let start = Instant::now();
    let mut connections = JoinSet::new();
    for (number, reader) in readers.into_iter().enumerate() {
        connections.spawn(read_streams(reader, target, plan, number, start));
    }
    let mut outcome = Outcome::default();
    while let Some(of_connection) = connections.join_next().await {
        outcome.add(of_connection.unwrap());
    }
    outcome.elapsed = start.elapsed();
    outcome
}

async fn read_streams(
    mut reader: Reader,
    target: Target,
    plan: Plan,
    number: usize,
    start: Instant,
) -> Outcome {
    let pause = plan.script.pause.unwrap_or_default();
    sleep(pause.mul_f64(number as f64 / plan.streams as f64)).await;
    let (all_open, end) = (start + pause, start + pause + plan.turn);
    let mut outcome = Outcome::default();
    loop {
        let began = Instant::now();
        if began >= end && outcome.whole + outcome.cut > 0 {
            return outcome;
        }
        let request = (target.request)(&plan.script.text(), number);
        let counts = began >= all_open;
        let mut seen = Seen::default();
        let read = timeout(PATIENCE, reader.follow(&request, target.form, &mut seen)).await;
        match read.unwrap_or_else(|_| Err(io::Error::other("it did not end"))) {
            Ok(()) => outcome.count(&seen, plan.script, counts.then(|| began.elapsed())),
            Err(error) => {
                outcome.lose(format!("{error}, {}", seen.describe(plan.script)));
                reader = Reader::open(target.address).await;
            }
        }
    }
}

impl Outcome {
    /// A stream ended.
    fn count(&mut self, seen: &Seen, script: Script, took: Option<Duration>) {
        self.events += seen.deltas;
        if !seen.is_whole(script) {
            return self.lose(seen.remark.clone().unwrap_or_else(|| seen.describe(script)));
        }
        self.whole += 1;
        if let Some(took) = took {
            self.times.push(took);
            self.firsts.extend(seen.first);
        }
    }

    fn lose(&mut self, remark: String) {
        self.cut += 1;
        *self.remarks.entry(remark).or_default() += 1;
    }

    /// Adds another turn, or another connection of the same one.
    pub(crate) fn add(&mut self, other: Self) {
        self.whole += other.whole;
        self.cut += other.cut;
        for (remark, count) in other.remarks {
            *self.remarks.entry(remark).or_default() += count;
        }
        self.events += other.events;
        self.firsts.extend(other.firsts);
        self.times.extend(other.times);
        self.elapsed += other.elapsed;
    }

    /// Prints what was said of the streams that were cut.
    pub(crate) fn report_cut(&self) {
        for (remark, count) in &self.remarks {
            println!("    {count} cut: {remark}");
        }
    }

    /// The times to first events.
    pub(crate) fn load_of_first_events(&self) -> Load {
        let mut load = Load::default();
        load.add(Turn { times: self.firsts.clone(), failures: self.cut, elapsed: self.elapsed });
        load
    }

    /// The times of whole streams.
    pub(crate) fn streams(self) -> Turn {
        Turn { times: self.times, failures: self.cut, elapsed: self.elapsed }
    }
}

impl Seen {
    /// What is missing, where the stream did not say so itself.
    fn describe(&self, script: Script) -> String {
        let (text, whole, has_result) = (self.text, script.text_length(), self.has_result);
        format!("{text} of {whole} characters, result: {has_result}")
    }

    /// Whether nothing is missing of the stream of that script.
    pub(crate) fn is_whole(&self, script: Script) -> bool {
        self.has_result && self.text == script.text_length()
    }
}
