//! Two replicas under requests, jobs, swaps of tools and outages of their stores, all at once and for as long
//! as asked for: every answer is checked, and memory, descriptors and stores are measured meanwhile.
//!
//! - `clients.rs`: who asks, and which answers are right.
//! - `trouble.rs`: outages and swaps, by chance that a seed decides.
//! - `samples.rs`: what is measured; `slope.rs`: how it grows; `plot.rs`: how it looks.

mod clients;
mod plot;
mod samples;
mod slope;
mod trouble;

use std::time::Duration;

use acceptance::{Component, Model, Postgres, Redis, Service};
use futures::future::join_all;

use test_servers::Proxy;
use tokio::time::Instant;

use clients::{Client, Findings};
use samples::{Sampler, Series};
use trouble::{Outages, Swaps};

/// How many clients ask, each one thing after the other.
const CLIENTS: u64 = 4;

/// What is to be endured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) seed: u64,
    pub(crate) lasting: Duration,
    pub(crate) sampled_every: Duration,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    findings: Findings,
    series: Vec<Series>,
    outages: Vec<(f64, f64)>,
    swaps: usize,
}

pub(crate) async fn endure(order: Order) -> Outcome {
    let (redis, postgres) = tokio::join!(Redis::start(), Postgres::start());
    let (mut redis_proxy, mut postgres_proxy) =
        tokio::join!(Proxy::before(redis.address()), Proxy::before(postgres.address()));
    let model = Model::openai().await;
    model.adds_or_hears().forgets_calls();
    let service = || {
        let database = format!("postgres://postgres:hunter2@{}/postgres", postgres_proxy.address());
        let service = Service::variant_b().model(&model).env("DATABASE_URL", database);
        service.env("REDIS_URL", format!("redis://{}", redis_proxy.address())).without_windows()
    };
    let replicas = [service().start().await, service().start().await];
    let findings = Findings::new(&Component::shipped("calculator"));
    let began = Instant::now();
    let end = began + order.lasting;
    let clients =
        (0..CLIENTS).map(|number| Client::new(number, order.seed, &replicas, &findings).ask_until(end));
    let sampler = Sampler::new(&replicas, &redis, &postgres).await;
    let outages = Outages { seed: order.seed, redis: &mut redis_proxy, postgres: &mut postgres_proxy };
    let swaps = Swaps { replicas: &replicas, findings: &findings };
    let (_, series, swaps, ()) = tokio::join!(
        join_all(clients),
        sampler.sample_until(end, order.sampled_every),
        swaps.make_until(end, order.lasting),
        outages.make_until(end, order.lasting, &findings),
    );
    for replica in replicas {
        replica.stop().await;
    }
    if findings.none_was_swapped() {
        findings.complain(format!("of {swaps} versions of a tool none has answered"));
    }
    let outages = findings.outages(began);
    Outcome { findings, series, outages, swaps }
}

impl Outcome {
    /// What was answered wrongly.
    pub(crate) fn wrong(&self) -> Vec<String> {
        self.findings.wrong()
    }

    /// How many answers there were, and how many outages and swaps meanwhile.
    pub(crate) fn events(&self) -> (usize, usize, usize) {
        (self.findings.answers(), self.outages.len(), self.swaps)
    }

    /// Tables of answers by what was asked and status, and of what was measured.
    pub(crate) fn tables(&self) -> String {
        format!("{}\n{}", self.findings.table(), samples::table(&self.series))
    }

    /// What was measured, as a picture with the outages in it.
    pub(crate) fn svg(&self, title: &str) -> String {
        plot::svg(title, &self.series, &self.outages)
    }
}
