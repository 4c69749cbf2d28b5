//! A discrete-event simulation of an open network of queues: customers come at random (Poisson), go through
//! stations one after the other, and wait at each until one of its servers is free, first come first served.
//!
//! Pure: no clock, no I/O, and the same seed has the same outcome. Its own tests hold it against what
//! queueing theory knows (`tests.rs`).
//!
//! What does not belong here: what the stations stand for (`deployment.rs`).

mod random;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use random::Random;

/// What is simulated. Times are in seconds, rates in events per second.
#[derive(Debug, Clone)]
pub(super) struct Network {
    /// For each station the number of its servers; without one nobody waits there, and it is a delay only.
    pub(super) stations: Vec<Option<usize>>,
    pub(super) flows: Vec<Flow>,
}

/// Customers of one kind.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    /// How many come per second.
    pub(super) rate: f64,
    pub(super) steps: Vec<Step>,
}

/// A visit to a station.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// One of these, each as likely as any other.
    pub(super) stations: Range<usize>,
    pub(super) service: Service,
}

/// How long a server needs for a customer, by its mean.
#[derive(Debug, Clone, Copy)]
pub(super) enum Service {
    Constant(f64),
    Exponential(f64),
}

/// How long is simulated: what happens while the network fills is not counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) warm_up: f64,
    pub(super) measured: f64,
}

/// What came of it.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) stations: Vec<StationOutcome>,
    pub(super) flows: Vec<FlowOutcome>,
}

#[derive(Debug, PartialEq)]
pub(super) struct StationOutcome {
    /// How many began to be served.
    pub(super) served: usize,
    /// How long they had waited for that, on the mean.
    pub(super) mean_wait: f64,
    /// What 99 of 100 had waited at most.
    pub(super) p99_wait: f64,
    /// Which share of its servers was busy on the mean. Nothing for a delay.
    pub(super) utilisation: f64,
    /// How many customers were there on the mean, those that were served among them.
    pub(super) mean_number: f64,
    /// How many waited at the end.
    pub(super) still_waiting: usize,
}

#[derive(Debug, PartialEq)]
pub(super) struct FlowOutcome {
    /// How many came to the end of their steps.
    pub(super) completed: usize,
    /// How long that took from their arrival on, on the mean.
    pub(super) mean_response: f64,
}

pub(super) fn simulate(network: &Network, span: Span, seed: u64) -> Outcome {
    let mut run = Run::new(network, span, seed);
    run.begin();
    run.until_the_end();
    run.outcome()
}

#[derive(Debug, Clone, Copy)]
struct Customer {
    flow: usize,
    step: usize,
    /// When it came into the network.
    came: f64,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Arrival { flow: usize },
    Served { station: usize, customer: Customer },
}

/// An event and its time. What happens at the same time happens in the order in which it was planned.
#[derive(Debug)]
struct Planned {
    at: f64,
    number: u64,
    event: Event,
}

/// A station while it is simulated.
#[derive(Debug, Default)]
struct Station {
    waiting: VecDeque<(Customer, f64)>,
    busy: usize,
    waits: Vec<f64>,
    /// Integrals over time of the number of customers and of busy servers.
    number_time: f64,
    busy_time: f64,
    changed: f64,
}

struct Run<'a> {
    network: &'a Network,
    span: Span,
    random: Random,
    planned: BinaryHeap<Planned>,
    numbers: u64,
    now: f64,
    stations: Vec<Station>,
    responses: Vec<(usize, f64)>,
}

impl<'a> Run<'a> {
    fn new(network: &'a Network, span: Span, seed: u64) -> Self {
        Self {
            network,
            span,
            random: Random::seeded(seed),
            planned: BinaryHeap::new(),
            numbers: 0,
            now: 0.0,
            stations: network.stations.iter().map(|_| Station::default()).collect(),
            responses: vec![(0, 0.0); network.flows.len()],
        }
    }

    fn begin(&mut self) {
        for flow in 0..self.network.flows.len() {
            self.plan_arrival(flow);
        }
    }

    fn until_the_end(&mut self) {
        let end = self.span.warm_up + self.span.measured;
        while let Some(next) = self.planned.pop() {
            if next.at > end {
                break;
            }
            self.now = next.at;
            match next.event {
                Event::Arrival { flow } => {
                    self.plan_arrival(flow);
                    self.go_on(Customer { flow, step: 0, came: self.now });
                }
                Event::Served { station, customer } => {
                    self.leave(station);
                    self.go_on(Customer { step: customer.step + 1, ..customer });
                }
            }
        }
        self.now = end;
        for station in 0..self.stations.len() {
            self.count_time(station);
        }
    }

    fn plan(&mut self, after: f64, event: Event) {
        self.numbers += 1;
        self.planned.push(Planned { at: self.now + after, number: self.numbers, event });
    }

    fn plan_arrival(&mut self, flow: usize) {
        let rate = self.network.flows[flow].rate;
        if rate > 0.0 {
            let after = self.random.exponential(1.0 / rate);
            self.plan(after, Event::Arrival { flow });
        }
    }

    /// To its next station, or out of the network.
    fn go_on(&mut self, customer: Customer) {
        let Some(step) = self.network.flows[customer.flow].steps.get(customer.step) else {
            if self.is_measured() {
                let (completed, total) = &mut self.responses[customer.flow];
                *completed += 1;
                *total += self.now - customer.came;
            }
            return;
        };
        let station = step.stations.start + self.random.below(step.stations.len());
        self.count_time(station);
        let is_free =
            self.network.stations[station].is_none_or(|servers| self.stations[station].busy < servers);
        if is_free {
            self.serve(station, customer, self.now);
        } else {
            self.stations[station].waiting.push_back((customer, self.now));
        }
    }

    fn serve(&mut self, station: usize, customer: Customer, since: f64) {
        let is_measured = self.is_measured();
        let (service, state) =
            (self.network.flows[customer.flow].steps[customer.step].service, &mut self.stations[station]);
        state.busy += 1;
        if is_measured {
            state.waits.push(self.now - since);
        }
        let takes = match service {
            Service::Constant(time) => time,
            Service::Exponential(mean) => self.random.exponential(mean),
        };
        self.plan(takes, Event::Served { station, customer });
    }

    /// A server is free again, for whoever has waited longest.
    fn leave(&mut self, station: usize) {
        self.count_time(station);
        let state = &mut self.stations[station];
        state.busy -= 1;
        if let Some((next, since)) = state.waiting.pop_front() {
            self.serve(station, next, since);
        }
    }

    fn is_measured(&self) -> bool {
        self.now >= self.span.warm_up
    }

    /// Adds the time since the station changed last to its integrals, as far as it is measured.
    fn count_time(&mut self, station: usize) {
        let state = &mut self.stations[station];
        let passed = (self.now - state.changed.max(self.span.warm_up)).max(0.0);
        state.number_time += passed * (state.busy + state.waiting.len()) as f64;
        state.busy_time += passed * state.busy as f64;
        state.changed = self.now;
    }

    fn outcome(self) -> Outcome {
        let measured = self.span.measured;
        let stations = self.stations.into_iter().zip(&self.network.stations);
        let flows = self.responses.into_iter();
        Outcome {
            stations: stations.map(|(station, servers)| station.outcome(*servers, measured)).collect(),
            flows: flows
                .map(|(completed, total)| FlowOutcome { completed, mean_response: mean(total, completed) })
                .collect(),
        }
    }
}

impl Station {
    fn outcome(mut self, servers: Option<usize>, measured: f64) -> StationOutcome {
        self.waits.sort_by(f64::total_cmp);
        // The smallest wait that 99 of 100 do not exceed.
        let rank = (self.waits.len() * 99).div_ceil(100).saturating_sub(1);
        StationOutcome {
            served: self.waits.len(),
            mean_wait: mean(self.waits.iter().sum(), self.waits.len()),
            p99_wait: self.waits.get(rank).copied().unwrap_or(0.0),
            utilisation: servers.map_or(0.0, |servers| self.busy_time / measured / servers as f64),
            mean_number: self.number_time / measured,
            still_waiting: self.waiting.len(),
        }
    }
}

/// The mean of none is 0.
fn mean(total: f64, count: usize) -> f64 {
    if count == 0 { 0.0 } else { total / count as f64 }
}

/// The earliest is the greatest, since a heap hands out the greatest.
impl Ord for Planned {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Planned {}
