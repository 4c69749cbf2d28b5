//! Replicas: each lives, dies and is started again over the same stores, and is asked by clients over a
//! network that loses requests and answers.

pub mod edge;
pub mod process;
pub mod service;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::faults::gate::Gate;
use crate::faults::{CallKind, Fault, Kind, mixed};
use crate::replica::process::{Process, Skew};
use crate::replica::service::Service;
use crate::world::{Passage, World};

/// What clients ask that begins a run, or writes something.
const BEGIN_WORK: [&str; 7] = ["invoke", "stream", "call", "submit", "post", "decide", "cancel"];

/// Longest time until a replica that died is started again.
const LONGEST_RESTART: u64 = 500;

/// Every replica of the deployment. Clones are the same ones.
#[derive(Clone)]
pub struct Replicas(Arc<Vec<Replica>>);

struct Replica {
    address: String,
    skew: Skew,
    /// Absent while it is dead.
    now: Mutex<Option<Arc<Service>>>,
}

impl Replicas {
    pub fn new(count: usize) -> Self {
        let replica = |number: usize| Replica {
            address: format!("replica{number}"),
            skew: Skew::default(),
            now: Mutex::default(),
        };
        Self(Arc::new((0..count).map(replica).collect()))
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Network and clocks are right again.
    pub fn heal(&self) {
        for replica in self.0.iter() {
            replica.skew.store(0, Ordering::Relaxed);
            if let Some(service) = &*replica.now.lock() {
                service.process.connect();
            }
        }
    }

    /// Replicas that live now, by their number.
    pub fn living(&self) -> Vec<Arc<Service>> {
        self.0.iter().filter_map(|replica| replica.now.lock().clone()).collect()
    }

    /// Lives one life after the other. Never ends.
    pub async fn keep_alive(self, world: Arc<World>, number: usize) {
        let Some(replica) = self.0.get(number) else { return };
        for incarnation in 1_u64.. {
            let name = format!("{}#{incarnation}", replica.address);
            let process = Process::new(name, &replica.skew, world.deployment.release(number));
            let gate = Gate { world: world.clone(), process: process.clone() };
            let (service, tasks) = Service::begin(&gate);
            tasks.into_iter().for_each(|task| process.begin(task));
            world.note(&process.name, "begins", "", "");
            let roll = mixed(world.seed ^ 0x57, incarnation * 31 + number as u64);
            process.begin(service.clone().stop_some_time(roll).boxed());
            *replica.now.lock() = Some(service);
            process.live().await;
            *replica.now.lock() = None;
            world.died(&process);
            world.note(&process.name, "died", "", "");
            let pause = mixed(world.seed, incarnation * 31 + number as u64) % LONGEST_RESTART;
            sleep(Duration::from_millis(pause)).await;
        }
    }

    /// What a replica answers to a client; nothing when it is dead, dies meanwhile, takes no connections any
    /// more, or the network loses the request or the answer.
    pub async fn ask<T: Send + 'static>(
        &self,
        world: &World,
        number: usize,
        name: &'static str,
        work: impl FnOnce(Arc<Service>) -> BoxFuture<'static, T> + Send + 'static,
    ) -> Option<T> {
        let Passage { takes, fault, .. } = world.passage(CallKind::Client, |_kind| true);
        let kind = fault.map(|fault| fault.kind);
        sleep(takes + fault.map(Fault::length).unwrap_or_default()).await;
        if kind == Some(Kind::Refused) {
            return None;
        }
        let service = self.0.get(number)?.now.lock().clone()?;
        let process = service.process.clone();
        if process.shutdown.drained().is_cancelled() {
            return None;
        }
        let (answers, answer) = oneshot::channel();
        let is_work = name.split(' ').nth(1).is_some_and(|verb| BEGIN_WORK.contains(&verb));
        let counted = if is_work { &process.work } else { &process.looks };
        process.begin(counted.task(async move {
            let mut answers = answers;
            tokio::select! {
                biased;
                // Whoever asked has gone.
                () = answers.closed() => {}
                answer = work(service) => drop(answers.send(answer)),
            }
        }));
        let answer = answer.await.ok();
        answer.filter(|_| kind != Some(Kind::LostAnswer))
    }
}
