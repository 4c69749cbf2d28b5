//! The versions of components, in the database: what every replica agrees on.
//!
//! A record is written by compare-and-swap in one transaction, with the digests that it names
//! (`tool_record_digests`) and its audit line. The transaction raises the one row of `tool_revision` and
//! holds it until it is committed, so that who reads a revision sees every write up to it, and that records
//! are written one after another. What is kept of a component is removed under the same row (`prune.rs`): no
//! record that names it appears meanwhile.
//!
//! Bytes of components are written and read in chunks (`components.rs`), so that nobody waits long for the
//! one writer of SQLite, and neither side has a component in memory twice.

mod announcements;
mod components;
mod counts;
mod failure;
mod prune;
mod records;
mod statements;

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::tool_versions::stored::{check_component, check_trial};
use agent_core::ports::tool_versions::{KeptComponent, Records, ToolVersions, Versioned, VersionsResult};
use agent_core::words::{AuditLine, ComponentRecord, TrialCounts};
use boxed_async::boxed_async;
use futures::future::pending;

use super::SqlPool;
use crate::sql::listening;
use announcements::ToolAnnouncements;

/// Keeps versions in the database, shared by every process that uses the same one.
pub struct SqlToolVersions {
    pool: SqlPool,
    announcements: Arc<ToolAnnouncements>,
}

impl SqlToolVersions {
    /// The store in that database, whose tables `SqlPool::migrate` makes.
    pub fn new(pool: SqlPool) -> Self {
        let announcements = Arc::new(ToolAnnouncements::default());
        if let SqlPool::Postgres(postgres) = &pool {
            postgres.listener().add(&announcements);
        }
        Self { pool, announcements }
    }
}

#[boxed_async]
impl ToolVersions for SqlToolVersions {
    async fn revision(&self) -> VersionsResult<u64> {
        records::revision(&self.pool).await
    }

    async fn records(&self) -> VersionsResult<Records> {
        records::all(&self.pool).await
    }

    async fn record(&self, name: &str) -> VersionsResult<Option<Versioned>> {
        records::find(&self.pool, name).await
    }

    async fn write(
        &self,
        name: &str,
        expected: u64,
        record: &ComponentRecord,
        audit: &AuditLine,
    ) -> VersionsResult<u64> {
        let write = records::RecordWrite::new(name, expected, record, audit)?;
        write.commit(&self.pool).await
    }

    async fn keep(&self, name: &str, digest: &str, component: &KeptComponent) -> VersionsResult {
        check_component(name, digest, component)?;
        components::keep(&self.pool, name, digest, component).await
    }

    async fn replace(&self, name: &str, digest: &str, component: &KeptComponent) -> VersionsResult {
        check_component(name, digest, component)?;
        components::replace(&self.pool, digest, component).await
    }

    async fn component(&self, name: &str, digest: &str) -> VersionsResult<Option<KeptComponent>> {
        components::find(&self.pool, name, digest).await
    }

    async fn kept_bytes(&self) -> VersionsResult<u64> {
        components::kept_bytes(&self.pool).await
    }

    async fn prune(&self, grace: Duration) -> VersionsResult<u64> {
        prune::prune(&self.pool, grace).await
    }

    async fn add_counts(&self, trial: &str, counts: &TrialCounts) -> VersionsResult<TrialCounts> {
        check_trial(trial)?;
        counts::add(&self.pool, trial, counts).await
    }

    async fn audit(&self, name: &str, most: u32) -> VersionsResult<Vec<AuditLine>> {
        records::audit(&self.pool, name, most).await
    }

    fn is_announced(&self) -> bool {
        self.announcements.is_heard()
    }

    async fn announced(&self) {
        self.announcements.next().await;
    }

    async fn listen(&self) {
        match &self.pool {
            SqlPool::Postgres(postgres) => listening::listen(postgres).await,
            SqlPool::Sqlite(_) => pending().await,
        }
    }
}
