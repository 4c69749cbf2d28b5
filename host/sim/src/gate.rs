//! The way of one process to everything outside of it. Every await of a port goes through here, and here the
//! faults hit.

use std::future::{Ready, pending};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::faults::{CallKind, Fault, Server};
use crate::process::Process;
use crate::world::{Passage, World};

/// One process, and the world around it.
#[derive(Debug, Clone)]
pub struct Gate {
    pub world: Arc<World>,
    pub process: Process,
}

/// How long whoever asks a store waits for its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A call of a port, for the faults and the trace.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub name: &'static str,
    /// What it is about: a run, a job.
    pub subject: &'a str,
    pub kind: CallKind,
}

impl<'a> Call<'a> {
    pub fn step(name: &'static str, subject: &'a str) -> Self {
        Self { name, subject, kind: CallKind::Step }
    }

    pub fn rare(name: &'static str, subject: &'a str) -> Self {
        Self { kind: CallKind::Rare, ..Self::step(name, subject) }
    }

    pub fn poll(name: &'static str) -> Self {
        Self { name, subject: "", kind: CallKind::Poll }
    }

    /// The store or peer, whose connection it goes over.
    fn store(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(store, _)| store)
    }

    fn server(&self, is_on_redis: bool) -> Server {
        match self.store() {
            "queue" | "key" if is_on_redis => Server::Redis,
            "queue" | "key" | "journal" | "runs" | "conversation" => Server::Database,
            "webhook" if self.name != "webhook.send" => Server::Database,
            _ => Server::Peer,
        }
    }

    /// Whether a full disk does not matter to it.
    fn only_reads(&self) -> bool {
        const READS: [&str; 7] = ["read", "list", "find", "find_by_job", "list_parked", "depth", "changes"];
        self.name.split_once('.').is_none_or(|(_, what)| READS.contains(&what))
    }
}

impl Gate {
    /// Carries `work` out as the faults allow. `fails` makes an error of the port of a text.
    pub async fn pass<T, E>(
        &self,
        call: Call<'_>,
        fails: impl Fn(String) -> E,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.pass_batch(call, fails, work, None::<Ready<()>>).await
    }

    /// As [`Self::pass`], for something of which `half` may be carried out alone.
    pub async fn pass_batch<T, E>(
        &self,
        call: Call<'_>,
        fails: impl Fn(String) -> E,
        work: impl Future<Output = Result<T, E>>,
        half: Option<impl Future<Output = ()>>,
    ) -> Result<T, E> {
        let server = call.server(self.world.deployment.is_on_redis);
        let may_be = |fault: Fault| match fault {
            Fault::Forgets => server == Server::Redis,
            Fault::HalfRefused => half.is_some(),
            Fault::DiskFull(_) => server != Server::Peer,
            _ => true,
        };
        let Passage { call: number, takes, fault } = self.world.passage(call.name, call.kind, may_be);
        if let Some(fault) = fault {
            self.note(call, fault.name());
            if !matches!(fault, Fault::Refused | Fault::LostAnswer) {
                self.world.slowed(call.subject);
            }
        }
        if !takes.is_zero() {
            sleep(takes).await;
        }
        self.go_on().await;
        match fault {
            Some(Fault::Refused) => return Err(fails("refused".to_owned())),
            Some(Fault::CrashBefore) => self.die().await,
            Some(Fault::Forgets) => {
                self.world.restart_redis();
                return Err(fails("connection reset".to_owned()));
            }
            Some(fault) => self.begin(call, server, fault).await,
            None => {}
        }
        if let Some(problem) = self.obstacle(call, server).await {
            self.world.slowed(call.subject);
            return Err(fails(problem.to_owned()));
        }
        if let Some(half) = half.filter(|_| fault == Some(Fault::HalfRefused)) {
            half.await;
            self.note(call, "done by half");
            if number.is_multiple_of(2) {
                self.die().await;
            }
            return Err(fails("refused in its middle".to_owned()));
        }
        self.go_on().await;
        let answer = work.await;
        self.note(call, if answer.is_ok() { "done" } else { "failed" });
        match fault {
            Some(Fault::LostAnswer) => return Err(fails("connection reset".to_owned())),
            Some(Fault::CrashBehind) => self.die().await,
            Some(Fault::SlowAnswer(milliseconds)) => within(milliseconds).await,
            _ => {}
        }
        answer
    }

    /// Never returns once the process has died: of tasks that are woken together, none does anything behind
    /// that.
    async fn go_on(&self) {
        if self.process.has_crashed() {
            pending().await
        }
    }

    /// What begins with a fault, and may last longer than the call.
    async fn begin(&self, call: Call<'_>, server: Server, fault: Fault) {
        match fault {
            Fault::Late(milliseconds) => within(milliseconds).await,
            Fault::Partition(milliseconds) => self.process.cut_off(millis(milliseconds)),
            Fault::ClockJump(milliseconds) => self.process.jump(milliseconds.into()),
            Fault::DiskFull(milliseconds) => self.world.fill_disk(server, millis(milliseconds)),
            Fault::Forgotten(milliseconds) => {
                self.process.forget_connection(call.store(), millis(milliseconds));
            }
            _ => {}
        }
    }

    /// Why the call does not get through.
    async fn obstacle(&self, call: Call<'_>, server: Server) -> Option<&'static str> {
        if self.process.is_cut_off() {
            return Some("no connection");
        }
        if self.process.is_forgotten(call.store()) {
            self.note(call, "no answer");
            sleep(ANSWER_WITHIN).await;
            return Some("no answer in time");
        }
        (self.world.has_full_disk(server) && !call.only_reads()).then_some("the disk is full")
    }

    fn note(&self, call: Call<'_>, outcome: &str) {
        self.world.note(&self.process.name, call.name, call.subject, outcome);
    }

    /// Never returns: whoever polls this is dropped.
    async fn die(&self) {
        self.world.dies(&self.process);
        self.process.crash();
        pending().await
    }
}

fn millis(milliseconds: u32) -> Duration {
    Duration::from_millis(milliseconds.into())
}

async fn within(milliseconds: u32) {
    sleep(millis(milliseconds)).await;
}
