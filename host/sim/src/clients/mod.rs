//! Clients: users who submit, stream, converse, cancel and read, on whichever replica, and people who decide
//! what waits.

mod decider;
mod http;
mod http_streams;
mod jobs;
mod keyed;
mod requests;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use agent_core::words::Principal;
use futures::future::BoxFuture;
use tokio::time::sleep;

use crate::deployment::Deployment;
use crate::faults::mixed;
use crate::replica::Replicas;
use crate::replica::service::Service;
use crate::world::World;

/// How many users there are, and conversations of each.
const USERS: u64 = 3;
const CONVERSATIONS: u64 = 2;

/// How often a client tries to be answered.
const TRIES: u32 = 12;

pub struct Client {
    world: Arc<World>,
    replicas: Replicas,
    random: fastrand::Rng,
    name: String,
}

impl Client {
    pub fn new(world: &Arc<World>, replicas: &Replicas, number: u64) -> Self {
        Self {
            world: world.clone(),
            replicas: replicas.clone(),
            random: fastrand::Rng::with_seed(mixed(world.seed, 7_000 + number)),
            name: format!("client{number}"),
        }
    }

    /// Does one thing after the other until all is quiet.
    pub async fn use_the_service(mut self) {
        while !self.world.is_quiet() {
            self.pause(1_500).await;
            let Deployment { is_over_http, is_talkative, .. } = self.world.deployment;
            match self.random.u32(0..14) {
                0 | 1 if is_over_http => self.submit_over_http().await,
                2..=4 if is_over_http => self.stream_over_http().await,
                6..9 if is_talkative => self.ask_and_wait().await,
                0..6 => self.submit_a_job().await,
                6..9 => self.stream_a_run().await,
                9 | 10 => self.ask_and_wait().await,
                11 => self.deploy(),
                12 => self.call_directly().await,
                13 if is_over_http => self.retry_a_job().await,
                _ => self.pause(3_000).await,
            }
        }
    }

    /// Another version of the tools serves from now on, or another policy.
    fn deploy(&mut self) {
        let mut tools = self.world.tools.lock();
        if self.random.bool() {
            tools.component += 1;
        } else {
            tools.policy += 1;
        }
    }

    async fn pause(&mut self, most: u64) {
        sleep(Duration::from_millis(self.random.u64(1..=most))).await;
    }

    async fn ask<T: Send + 'static>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(Arc<Service>) -> BoxFuture<'static, T> + Send + 'static,
    ) -> Option<T> {
        let number = self.random.usize(0..self.replicas.count());
        let answer = self.replicas.ask(&self.world, number, name, work).await;
        self.world.note(&self.name, name, "", if answer.is_some() { "answered" } else { "no answer" });
        answer
    }

    fn user(&mut self) -> Principal {
        let users = if self.world.deployment.is_talkative { 1 } else { USERS };
        Principal::user(format!("user{}", self.random.u64(0..users)))
    }

    fn conversation(&mut self) -> Option<String> {
        let is_in_one = self.world.deployment.is_talkative || self.random.u32(0..3) == 0;
        let conversations = if self.world.deployment.is_talkative { 1 } else { CONVERSATIONS };
        is_in_one.then(|| format!("talk{}", self.random.u64(0..conversations)))
    }
}
