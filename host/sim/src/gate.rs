//! The way of one process to everything outside of it. Every await of a port goes through here, and here the
//! faults hit.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::faults::{CallKind, Fault};
use crate::process::Process;
use crate::world::{Passage, World};

/// One process, and the world around it.
#[derive(Debug, Clone)]
pub struct Gate {
    pub world: Arc<World>,
    pub process: Process,
}

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
}

impl Gate {
    /// Carries `work` out as the faults allow. `fails` makes an error of the port of a text.
    pub async fn pass<T, E>(
        &self,
        call: Call<'_>,
        fails: impl Fn(String) -> E,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Passage { takes, fault, .. } = self.world.passage(call.name, call.kind);
        if let Some(fault) = fault {
            self.note(call, fault.name());
        }
        sleep(takes).await;
        let after = |milliseconds: u32| sleep(Duration::from_millis(milliseconds.into()));
        match fault {
            Some(Fault::Refused) => return Err(fails("refused".to_owned())),
            Some(Fault::CrashBefore) => self.die().await,
            Some(Fault::Late(milliseconds)) => after(milliseconds).await,
            Some(Fault::Partition(milliseconds)) => {
                self.process.cut_off(Duration::from_millis(milliseconds.into()));
            }
            Some(Fault::ClockJump(milliseconds)) => self.process.jump(milliseconds.into()),
            _ => {}
        }
        if self.process.is_cut_off() {
            return Err(fails("no connection".to_owned()));
        }
        let answer = work.await;
        self.note(call, if answer.is_ok() { "done" } else { "failed" });
        match fault {
            Some(Fault::LostAnswer) => return Err(fails("connection reset".to_owned())),
            Some(Fault::CrashBehind) => self.die().await,
            Some(Fault::SlowAnswer(milliseconds)) => after(milliseconds).await,
            _ => {}
        }
        answer
    }

    fn note(&self, call: Call<'_>, outcome: &str) {
        self.world.note(&self.process.name, call.name, call.subject, outcome);
    }

    /// Never returns: whoever polls this is dropped.
    async fn die(&self) {
        self.process.crash();
        pending().await
    }
}
