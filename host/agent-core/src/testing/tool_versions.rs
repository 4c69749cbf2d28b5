//! A store of tool versions that keeps everything in memory, and fails on demand. Its time is tokio's and can
//! be put forward.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use boxed_async::boxed_async;
use bytes::Bytes;
use tokio::time::Instant;

use super::Switch;
use crate::ports::tool_versions::stored::{
    check_component, check_trial, decode_audit_line, decode_record, encode_audit_line, encode_record,
    needed_digests,
};
use crate::ports::tool_versions::{
    KeptComponent, MOST_AUDIT_LINES, Records, ToolVersions, Versioned, VersionsError, VersionsResult,
};
use crate::words::{AuditLine, ComponentRecord, TrialCounts};

/// Versions in memory.
#[derive(Debug, Default)]
pub struct TestToolVersions {
    /// Breaks it.
    pub switch: Switch,
    /// Breaks what writes records, as locks of a process that stands still do.
    pub writes: Switch,
    /// How often one record was asked for.
    pub records_asked: AtomicUsize,
    state: Mutex<KeptVersions>,
    announces: AtomicBool,
    revisions_asked: AtomicUsize,
}

#[derive(Debug, Default)]
struct KeptVersions {
    revision: u64,
    records: BTreeMap<String, StoredRecord>,
    components: HashMap<String, (Bytes, Instant)>,
    /// By name and digest.
    signatures: HashMap<(String, String), Bytes>,
    counts: HashMap<String, TrialCounts>,
    /// Of all components, the oldest first.
    audit: Vec<(String, String)>,
    /// How far its time is ahead of tokio's.
    ahead: Duration,
}

#[derive(Debug)]
struct StoredRecord {
    revision: u64,
    json: String,
    digests: BTreeSet<String>,
    counted: Vec<String>,
}

impl TestToolVersions {
    /// Puts its time forward: what was kept before is that much older.
    pub fn put_forward(&self, by: Duration) {
        self.state.lock().ahead += by;
    }

    /// From now on it says that changes are announced, or that they are not.
    pub fn announce(&self, announces: bool) {
        self.announces.store(announces, Ordering::SeqCst);
    }

    /// How often it was asked for the revision.
    pub fn revisions_asked(&self) -> usize {
        self.revisions_asked.load(Ordering::SeqCst)
    }

    /// Damages a record, if it is there: it cannot be read any more.
    pub fn damage(&self, name: &str) {
        if let Some(record) = self.state.lock().records.get_mut(name) {
            record.json = "{".into();
        }
    }

    /// The digests under which components are kept.
    pub fn digests(&self) -> BTreeSet<String> {
        self.state.lock().components.keys().cloned().collect()
    }

    /// Removes the bytes of a component, whoever names them.
    pub fn lose(&self, digest: &str) {
        self.state.lock().components.remove(digest);
    }

    /// Damages the bytes of a component, if they are there.
    pub fn spoil(&self, digest: &str) {
        if let Some((bytes, _)) = self.state.lock().components.get_mut(digest) {
            *bytes = Bytes::from_static(b"spoilt");
        }
    }

    async fn check(&self) -> VersionsResult {
        self.switch.check().await.map_err(VersionsError::Unavailable)
    }
}

impl KeptVersions {
    fn now(&self) -> Instant {
        Instant::now() + self.ahead
    }
}

#[boxed_async]
impl ToolVersions for TestToolVersions {
    fn is_announced(&self) -> bool {
        self.announces.load(Ordering::SeqCst)
    }

    async fn revision(&self) -> VersionsResult<u64> {
        self.revisions_asked.fetch_add(1, Ordering::SeqCst);
        self.check().await?;
        Ok(self.state.lock().revision)
    }

    async fn records(&self) -> VersionsResult<Records> {
        self.check().await?;
        let state = self.state.lock();
        let readable = |(name, stored): (&String, &StoredRecord)| {
            let record = decode_record(name, &stored.json).ok()?;
            Some((name.clone(), Versioned { revision: stored.revision, record }))
        };
        Ok(Records {
            revision: state.revision,
            components: state.records.iter().filter_map(readable).collect(),
        })
    }

    async fn record(&self, name: &str) -> VersionsResult<Option<Versioned>> {
        self.records_asked.fetch_add(1, Ordering::SeqCst);
        self.check().await?;
        let state = self.state.lock();
        let Some(stored) = state.records.get(name) else { return Ok(None) };
        let record = decode_record(name, &stored.json)?;
        Ok(Some(Versioned { revision: stored.revision, record }))
    }

    async fn write(
        &self,
        name: &str,
        expected: u64,
        record: &ComponentRecord,
        audit: &AuditLine,
    ) -> VersionsResult<u64> {
        let json = encode_record(name, record)?;
        let line = encode_audit_line(name, audit)?;
        self.writes.check().await.map_err(VersionsError::Unavailable)?;
        self.check().await?;
        let mut state = self.state.lock();
        if state.records.get(name).map_or(0, |stored| stored.revision) != expected {
            return Err(VersionsError::Conflict);
        }
        let digests = needed_digests(record).into_iter().map(ToOwned::to_owned).collect();
        let trial = record.trial.as_ref().map(|trial| trial.id.clone());
        let counted = trial.into_iter().chain(record.first_calls_id(name)).collect();
        let revision = expected + 1;
        state.records.insert(name.to_owned(), StoredRecord { revision, json, digests, counted });
        state.audit.push((name.to_owned(), line));
        state.revision += 1;
        Ok(revision)
    }

    async fn keep(&self, name: &str, digest: &str, component: &KeptComponent) -> VersionsResult {
        check_component(name, digest, component)?;
        self.check().await?;
        let mut state = self.state.lock();
        let now = state.now();
        let kept = state.components.entry(digest.to_owned());
        kept.or_insert_with(|| (component.bytes.clone(), now)).1 = now;
        if let Some(signature) = component.signature.clone() {
            state.signatures.insert((name.to_owned(), digest.to_owned()), signature);
        }
        Ok(())
    }

    async fn replace(&self, name: &str, digest: &str, component: &KeptComponent) -> VersionsResult {
        check_component(name, digest, component)?;
        self.check().await?;
        let mut state = self.state.lock();
        let now = state.now();
        state.components.insert(digest.to_owned(), (component.bytes.clone(), now));
        Ok(())
    }

    async fn component(&self, name: &str, digest: &str) -> VersionsResult<Option<KeptComponent>> {
        self.check().await?;
        let state = self.state.lock();
        let Some((bytes, _)) = state.components.get(digest) else { return Ok(None) };
        let signature = state.signatures.get(&(name.to_owned(), digest.to_owned()));
        Ok(Some(KeptComponent { bytes: bytes.clone(), signature: signature.cloned() }))
    }

    async fn kept_bytes(&self) -> VersionsResult<u64> {
        self.check().await?;
        let state = self.state.lock();
        Ok(state.components.values().map(|(bytes, _)| bytes.len() as u64).sum())
    }

    async fn prune(&self, grace: Duration) -> VersionsResult<u64> {
        self.check().await?;
        let mut state = self.state.lock();
        let now = state.now();
        let KeptVersions { records, components, signatures, counts, .. } = &mut *state;
        let before = components.len();
        components.retain(|digest, (_, kept_at)| {
            let is_needed = records.values().any(|record| record.digests.contains(digest));
            is_needed || now.duration_since(*kept_at) < grace
        });
        signatures.retain(|(_, digest), _| components.contains_key(digest));
        let removed = (before - components.len()) as u64;
        counts.retain(|id, _| records.values().any(|record| record.counted.contains(id)));
        Ok(removed)
    }

    async fn add_counts(&self, trial: &str, counts: &TrialCounts) -> VersionsResult<TrialCounts> {
        check_trial(trial)?;
        self.check().await?;
        let mut state = self.state.lock();
        let sum = state.counts.entry(trial.to_owned()).or_default();
        sum.add(counts);
        Ok(sum.clone())
    }

    async fn audit(&self, name: &str, most: u32) -> VersionsResult<Vec<AuditLine>> {
        self.check().await?;
        let state = self.state.lock();
        let lines = state.audit.iter().rev().filter(|(of, _)| of == name);
        let lines = lines.take(most.min(MOST_AUDIT_LINES) as usize);
        lines.map(|(_, line)| decode_audit_line(name, line)).collect()
    }
}
