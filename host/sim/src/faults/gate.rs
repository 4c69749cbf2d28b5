//! The way of one process to everything outside of it. Every await of a port goes through here, and here the
//! faults hit.

use std::future::{Ready, pending};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::deployment::Deployment;
use crate::faults::{CallKind, Fault, Kind, Server, mixed};
use crate::replica::process::{ALL_STORES, Process};
use crate::world::{Passage, World};

/// One process, and the world around it.
#[derive(Clone)]
pub struct Gate {
    pub world: Arc<World>,
    pub process: Arc<Process>,
}

/// How long whoever asks a store waits for its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// About how long the service waits until it asks a store again that refused it.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

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

    fn server(&self, deployment: &Deployment) -> Server {
        match self.store() {
            "queue" | "key" if deployment.is_on_redis => Server::Redis,
            "journal" | "runs" | "conversation" if deployment.is_on_mongo => Server::Documents,
            "queue" | "key" | "journal" | "runs" | "conversation" => Server::Database,
            "webhook" if self.name != "webhook.send" => Server::Database,
            _ => Server::Peer,
        }
    }

    /// Whether a full disk does not matter to it.
    fn only_reads(&self) -> bool {
        const READS: [&str; 9] =
            ["read", "list", "find", "find_by_job", "list_parked", "depth", "changes", "incarnation", "now"];
        self.name.split_once('.').is_none_or(|(_, what)| READS.contains(&what))
    }
}

/// Has work done so much later, by nobody who could be told of it.
type Later<W> = fn(Gate, Call<'_>, W, Duration);

impl Gate {
    /// Carries `read` out as the faults allow. `fails` makes an error of the port of a text.
    pub async fn pass<T, E>(
        &self,
        call: Call<'_>,
        fails: impl Fn(String) -> E,
        read: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.pass_any(call, fails, Statement { work: read, later: None, half: None::<Ready<()>> }).await
    }

    /// As [`Self::pass`], for what changes something, and may do so without whoever asked for it.
    pub async fn write<T: Send, E: Send>(
        &self,
        call: Call<'_>,
        fails: impl Fn(String) -> E,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E> {
        self.write_batch(call, fails, work, None::<Ready<()>>).await
    }

    /// As [`Self::write`], for something of which `half` may be carried out alone.
    pub async fn write_batch<T: Send, E: Send>(
        &self,
        call: Call<'_>,
        fails: impl Fn(String) -> E,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
        half: Option<impl Future<Output = ()>>,
    ) -> Result<T, E> {
        self.pass_any(call, fails, Statement { work, later: Some(detach), half }).await
    }

    async fn pass_any<T, E, W: Future<Output = Result<T, E>>>(
        &self,
        call: Call<'_>,
        fails: impl Fn(String) -> E,
        Statement { work, later, half }: Statement<W, impl Future<Output = ()>>,
    ) -> Result<T, E> {
        let server = call.server(&self.world.deployment);
        let may_be = |kind: Kind| match kind {
            Kind::Forgets => server == Server::Redis,
            Kind::HalfRefused => half.is_some(),
            Kind::DiskFull | Kind::Outage => server != Server::Peer,
            Kind::Detached => later.is_some(),
            _ => true,
        };
        let Passage { call: number, takes, fault } = self.world.passage(call.kind, may_be);
        let (kind, length) = (fault.map(|fault| fault.kind), fault.map(Fault::length).unwrap_or_default());
        if let Some(fault) = fault {
            self.hit(call, fault);
        }
        if !takes.is_zero() {
            sleep(takes).await;
        }
        self.go_on().await;
        let is_reached = !self.process.has_lost(ALL_STORES) && !self.process.has_lost(call.store());
        match (kind, later) {
            (Some(Kind::Refused), _) => return Err(fails("refused".to_owned())),
            (Some(Kind::CrashBefore), _) => self.die(call).await,
            (Some(Kind::Forgets), _) => {
                self.world.restart_redis();
                return Err(fails("connection reset".to_owned()));
            }
            (Some(Kind::Detached), Some(later)) if is_reached => {
                later(self.clone(), call, work, length);
                return Err(fails(self.part(call, number).await.to_owned()));
            }
            _ => self.begin(call, server, fault).await,
        }
        if let Some(problem) = self.obstacle(call, server, kind).await {
            self.world.slowed(call.subject, ASKED_AGAIN);
            return Err(fails(problem.to_owned()));
        }
        if let Some(half) = half.filter(|_| kind == Some(Kind::HalfRefused)) {
            half.await;
            self.note(call, "done by half");
            if number.is_multiple_of(2) {
                self.die(call).await;
            }
            return Err(fails("refused in its middle".to_owned()));
        }
        self.go_on().await;
        let answer = work.await;
        self.note(call, if answer.is_ok() { "done" } else { "failed" });
        match kind {
            Some(Kind::LostAnswer) => return Err(fails("connection reset".to_owned())),
            Some(Kind::CrashBehind) => self.die(call).await,
            Some(Kind::SlowAnswer) => sleep(length).await,
            _ => {}
        }
        answer
    }

    /// What the caller of a statement is told that is carried out without it.
    async fn part(&self, call: Call<'_>, number: u64) -> &'static str {
        match mixed(number, 30) % 3 {
            0 => "connection reset",
            1 => {
                self.world.slowed(call.subject, ANSWER_WITHIN);
                sleep(ANSWER_WITHIN).await;
                "no answer in time"
            }
            _ => self.die(call).await,
        }
    }

    /// Never returns once the process has died: of tasks that are woken together, none does anything behind
    /// that.
    async fn go_on(&self) {
        if self.process.has_crashed() {
            pending().await
        }
    }

    /// What begins with a fault, and may last longer than the call.
    async fn begin(&self, call: Call<'_>, server: Server, fault: Option<Fault>) {
        let Some(fault) = fault else { return };
        match fault.kind {
            Kind::Late => sleep(fault.length()).await,
            Kind::Partition => self.process.lose(ALL_STORES, fault.length()),
            Kind::ClockJump => self.world.clock_is_wrong(self.process.jump(fault.millis.into())),
            Kind::DiskFull | Kind::Outage => self.world.trouble(server, fault.kind, fault.length()),
            Kind::Forgotten => self.process.lose(call.store(), fault.length()),
            _ => {}
        }
    }

    /// Why the call does not get through.
    async fn obstacle(&self, call: Call<'_>, server: Server, fault: Option<Kind>) -> Option<&'static str> {
        if self.process.has_lost(ALL_STORES) {
            return Some("no connection");
        }
        if fault == Some(Kind::Hangs) && matches!(call.name, "model" | "tool") {
            // Nothing but the limit of its run ends it.
            pending().await
        }
        if fault == Some(Kind::Hangs) || self.process.has_lost(call.store()) {
            self.note(call, "no answer");
            // Noted before: its caller may not wait as long.
            self.world.slowed(call.subject, ANSWER_WITHIN);
            sleep(ANSWER_WITHIN).await;
            return Some("no answer in time");
        }
        self.world.refusal(server, call.only_reads())
    }

    fn hit(&self, call: Call<'_>, fault: Fault) {
        self.note(call, &format!("{:?}", fault.kind));
        match fault.kind {
            Kind::Late | Kind::SlowAnswer => self.world.slowed(call.subject, fault.length()),
            Kind::Hangs => self.world.slowed(call.subject, ANSWER_WITHIN),
            _ => {}
        }
    }

    fn note(&self, call: Call<'_>, outcome: &str) {
        self.world.note(&self.process.name, call.name, call.subject, outcome);
    }

    /// Never returns: whoever polls this is dropped.
    async fn die(&self, call: Call<'_>) -> ! {
        self.world.dies(&self.process, call.name);
        self.process.crash();
        pending().await
    }
}

/// What a call has done.
struct Statement<W, H> {
    work: W,
    /// How it is done without its caller, if it may be.
    later: Option<Later<W>>,
    half: Option<H>,
}

/// Has a statement carried out by the server that it was sent to, if that takes it by then.
#[expect(clippy::disallowed_methods, reason = "it goes on without its caller, whoever that was")]
fn detach<W: Future<Output: Send> + Send + 'static>(gate: Gate, call: Call<'_>, work: W, after: Duration) {
    let (name, subject) = (call.name, call.subject.to_owned());
    let (server, only_reads) = (call.server(&gate.world.deployment), call.only_reads());
    tokio::spawn(async move {
        sleep(after).await;
        if gate.world.refusal(server, only_reads).is_some() {
            return;
        }
        drop(work.await);
        gate.world.appended(&subject, &gate.process);
        gate.world.note(&gate.process.name, name, &subject, "done behind its caller");
        if gate.process.has_crashed() {
            gate.world.reached("a statement was carried out after its caller had died");
        }
    });
}
