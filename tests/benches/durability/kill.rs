//! `kill -9` of every process of an engine in the middle of a run, of which two model calls and two tool
//! calls are done and the last model call is under way. The engine is started again at once, on the same
//! stores.

use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::engines::Engine;
use crate::load::{holds_answer, next_run, submit};
use crate::measuring::client::Connection;
use crate::provider::{Asked, LAST_CALL, Provider};
use crate::site::Site;

/// How often each engine is killed, unless one kill took so long that no more are waited for.
const KILLS: usize = 3;
const LONG: Duration = Duration::from_secs(20);

/// How long a run may take until it is given up: BullMQ's own figures add up to 60 s.
const PATIENCE: Duration = Duration::from_secs(100);

/// How often the answer is looked for while nobody listens or nobody knows it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// What one kill cost. What is absent has not happened within the patience.
pub(crate) struct Killed {
    /// From the kill to the next model call of the run.
    pub(crate) goes_on: Option<Duration>,
    /// From the kill to the answer.
    pub(crate) answer: Option<Duration>,
    /// Of two model calls that were answered before, how many were asked again.
    pub(crate) paid_twice: usize,
}

pub(crate) fn measure(engine: &dyn Engine, site: &Site, provider: &Provider) -> Vec<Killed> {
    let mut deployment = engine.start(site);
    let mut kills = Vec::new();
    while kills.len() < KILLS {
        let run = next_run();
        let asked = provider.watch(run);
        let mut connection = Connection::open(deployment.address);
        let submitted = submit(engine, &mut connection, run).expect("the run is taken");
        while asked.recv_timeout(PATIENCE).expect("the provider is asked").call < LAST_CALL {}
        provider.release();
        deployment.kill();
        let killed = Instant::now();
        deployment = engine.start(site);
        let answer = read(engine, deployment.address, run, &submitted, killed);
        let kill = Killed::of(&asked, killed, answer);
        let is_last = kill.answer.is_none_or(|answer| answer > LONG);
        kills.push(kill);
        if is_last {
            break;
        }
    }
    kills
}

/// Looks for the answer until it is there: how long after the kill that was.
fn read(
    engine: &dyn Engine,
    address: SocketAddr,
    run: usize,
    submitted: &Value,
    killed: Instant,
) -> Option<Duration> {
    let request = engine.read(run, submitted);
    while killed.elapsed() < PATIENCE {
        let mut connection = Connection::try_open(address, PATIENCE).ok();
        let response = connection.as_mut().and_then(|connection| connection.try_ask(&request).ok());
        if response.is_some_and(|response| response.status == 200 && holds_answer(response.body, run)) {
            return Some(killed.elapsed());
        }
        #[expect(clippy::disallowed_methods, reason = "nobody tells of a server that listens again")]
        thread::sleep(BETWEEN_LOOKS);
    }
    None
}

impl Killed {
    fn of(asked: &Receiver<Asked>, killed: Instant, answer: Option<Duration>) -> Self {
        let after: Vec<_> = asked.try_iter().collect();
        let goes_on = after.first().map(|asked| asked.at.saturating_duration_since(killed));
        let paid_twice = after.iter().filter(|asked| asked.call < LAST_CALL).count();
        Self { goes_on, answer, paid_twice }
    }
}
