//! Jobs that other processes add are announced by PostgreSQL (`LISTEN`, `NOTIFY`). While nothing can be
//! heard, the workers poll once a second. Jobs that others end are heard of on the same connection
//! (`ended.rs`), which is that of `../listener.rs`.
//!
//! Whoever adds a job or hands one back announces it in the same statement (`statements.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_core::ports::{StoreFindings, StoreWarning};
use futures::future::pending;
use tokio::sync::watch;
use uuid::Uuid;

use super::claim_wakeup::ClaimWakeup;
use super::ended::EndedJobs;
use crate::sql::SqlPool;
use crate::sql::error::describe;
use crate::sql::listener::{ENDED_JOBS, Hears, JOBS};
use crate::sql::listening;

/// How often workers look for jobs that nobody announced: those of other processes while nothing can be
/// heard, or on SQLite.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How often workers look for such jobs while announcements are heard: for jobs that programs of earlier
/// releases add, who announce nothing. An idle service is to be silent: each look is two statements.
const UNANNOUNCED_INTERVAL: Duration = Duration::from_secs(10);

/// The key of what is found, among other sources.
const SOURCE: &str = "jobs";

/// What this process announces and hears.
pub(super) struct Announcements {
    pool: SqlPool,
    claim_wakeup: Arc<ClaimWakeup>,
    ended: Arc<EndedJobs>,
    findings: StoreFindings,
    /// What this process' own announcements begin with: they wake nobody here, because they have already.
    process: Arc<str>,
    is_heard: AtomicBool,
    /// Whether anybody claims jobs here, or waits for one.
    is_wanted: watch::Sender<bool>,
}

impl Announcements {
    pub(super) fn new(
        pool: SqlPool,
        claim_wakeup: Arc<ClaimWakeup>,
        ended: Arc<EndedJobs>,
        findings: StoreFindings,
    ) -> Self {
        let process = Uuid::now_v7().simple().to_string().into();
        let (is_wanted, _) = watch::channel(false);
        Self { pool, claim_wakeup, ended, findings, process, is_heard: AtomicBool::new(false), is_wanted }
    }

    /// What this process announces.
    pub(super) fn text(&self) -> &Arc<str> {
        &self.process
    }

    /// Somebody claims jobs here, or waits for one. From now on announcements are listened to.
    pub(super) fn want(&self) {
        self.is_wanted.send_if_modified(|is_wanted| !std::mem::replace(is_wanted, true));
    }

    /// How long workers may rely on being woken.
    pub(super) fn poll_interval(&self) -> Duration {
        if self.is_heard.load(Ordering::Acquire) { UNANNOUNCED_INTERVAL } else { POLL_INTERVAL }
    }

    /// Announces jobs that were not announced in the statement that changed them.
    pub(super) async fn announce(&self) {
        let SqlPool::Postgres(postgres) = &self.pool else { return };
        if let Err(error) = listening::announce(postgres, JOBS, &self.process).await {
            tracing::debug!(
                error = describe(&error),
                "jobs are not announced; others find them when they poll"
            );
        }
    }

    /// Announces the jobs that end in this process, for ever.
    pub(super) async fn announce_ended(&self) {
        self.ended.announce(&self.pool, &self.process).await;
    }

    /// Listens for ever, once anybody claims jobs here or waits for one.
    pub(super) async fn listen(&self) {
        let SqlPool::Postgres(postgres) = &self.pool else { return pending().await };
        let mut is_wanted = self.is_wanted.subscribe();
        // Waiting cannot fail: the sender is ours.
        drop(is_wanted.wait_for(|is_wanted| *is_wanted).await);
        listening::listen(postgres).await;
    }
}

impl Hears for Announcements {
    fn listening(&self, is_listening: bool) {
        self.is_heard.store(is_listening, Ordering::Release);
        self.ended.listening(is_listening);
        if is_listening {
            self.findings.set(SOURCE, Ok(vec![]));
        }
        // What was announced meanwhile was not heard.
        self.claim_wakeup.wake();
    }

    fn hear(&self, channel: &str, text: &str) {
        match channel {
            ENDED_JOBS => self.ended.hear(text, &self.process),
            JOBS if text != &*self.process => self.claim_wakeup.wake(),
            _ => {}
        }
    }

    /// Says that workers poll, where there are any.
    fn deaf(&self, why: &str) {
        if !*self.is_wanted.borrow() {
            return;
        }
        let problem = format!(
            "jobs that other processes add are looked for once a second, because they cannot be listened for: {why}; set \
             DATABASE_DIRECT_URL to PostgreSQL's own address"
        );
        let warning = StoreWarning { store: "database", setting: "DATABASE_DIRECT_URL", problem };
        self.findings.set(SOURCE, Ok(vec![warning]));
    }
}
