//! What happens meanwhile: stores go away and come back, and tools are swapped.

use std::time::Duration;

use acceptance::{Component, Random, Service};
use test_servers::Proxy;
use tokio::time::{Instant, sleep};

use super::clients::Findings;

/// Longest pause between two outages, and between two swaps. Shorter where little time is to be endured. A
/// replica keeps the last 16 versions of tools loaded: at this pace it has them after three minutes.
const BETWEEN_OUTAGES: Duration = Duration::from_secs(60);
const BETWEEN_SWAPS: Duration = Duration::from_secs(10);

/// Longest outage: shorter than a job's attempt may take, so that every job can outlive it.
const LONGEST_OUTAGE: Duration = Duration::from_secs(5);

/// Part of the time in which each of them happens once.
const PART: u32 = 4;

/// Takes the stores away, one at a time.
pub(super) struct Outages<'a> {
    pub(super) seed: u64,
    pub(super) redis: &'a mut Proxy,
    pub(super) postgres: &'a mut Proxy,
}

/// Puts new versions of a tool into the folders.
pub(super) struct Swaps<'a> {
    pub(super) replicas: &'a [Service; 2],
    pub(super) findings: &'a Findings,
}

impl Outages<'_> {
    /// All stores are there again when this returns.
    pub(super) async fn make_until(self, end: Instant, lasting: Duration, findings: &Findings) {
        let mut random = Random::seeded(self.seed);
        let pause = (lasting / PART).min(BETWEEN_OUTAGES);
        let longest = (lasting / PART).min(LONGEST_OUTAGE);
        loop {
            let length = longest.mul_f64((1 + random.below(10)) as f64 / 10.0);
            let proxy = if random.below(2) == 0 { &mut *self.redis } else { &mut *self.postgres };
            if Instant::now() + pause + length >= end {
                return;
            }
            sleep(pause).await;
            findings.outage_begins();
            // A server that is gone says so, and a network that loses everything does not.
            if random.below(2) == 0 {
                proxy.cut().await;
            } else {
                proxy.stall();
            }
            sleep(length).await;
            proxy.pass().await;
            findings.outage_ends();
        }
    }
}

impl Swaps<'_> {
    /// How many were made.
    pub(super) async fn make_until(self, end: Instant, lasting: Duration) -> usize {
        let pause = (lasting / PART).min(BETWEEN_SWAPS);
        let mut made = 0;
        while Instant::now() + pause < end {
            sleep(pause).await;
            made += 1;
            let version = Component::shipped("calculator").revision(u32::try_from(made).unwrap_or(u32::MAX));
            self.findings.may_serve(&version);
            self.replicas[made % self.replicas.len()].put(&version);
        }
        made
    }
}
