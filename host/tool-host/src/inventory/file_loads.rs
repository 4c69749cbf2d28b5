//! The loads of one file: which are under way, when they are tried again, and the components that they gave.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::AbortHandle;

use super::event::{Change, Version};
use super::retry::Retry;
use super::state::FileState;
use crate::component::Component;
use crate::error::LoadError;
use crate::folder::{Content, Fingerprint};

/// When its file changes, a load that has run for longer is given up: its result is out of date, and an operator who
/// mends a file that is slow to compile should not wait for it. A younger load is left to end, so that a file which
/// changes all the time is loaded all the same.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);

/// The loads of one file.
#[derive(Default)]
pub(super) struct FileLoads {
    /// Of the version in the folder.
    pub(super) newest: Option<Load>,
    /// Of the last good version, from its copy.
    pub(super) last_good: Option<Load>,
    /// Loaded versions that may serve.
    components: Vec<Arc<Component>>,
    /// How the file looked when it was last loaded or refused.
    seen: Option<Option<Fingerprint>>,
    /// Another policy is in force than when it was loaded.
    is_outdated: bool,
    retry: Retry,
    last_good_retry: Retry,
}

/// A load under way. Dropping it ends the load.
pub(super) struct Load {
    /// Tells its result from those of loads that were given up.
    pub(super) ticket: u64,
    /// What is being loaded.
    fingerprint: Option<Fingerprint>,
    /// The digest of what is being loaded, as soon as it was read.
    pub(super) digest: Option<String>,
    begun: Instant,
    abort: AbortHandle,
}

/// A load that ended.
pub(super) struct Ended {
    pub(super) file: String,
    /// Tells it from loads that were given up.
    pub(super) ticket: u64,
    pub(super) part: Part,
}

/// Which part of a load ended, and how.
pub(super) enum Part {
    /// The file was read; this is what it holds.
    Read(Result<Content, LoadError>),
    /// The version in the folder was loaded.
    Newest(Result<Arc<Component>, LoadError>),
    /// The last good version was loaded.
    LastGood(Result<Arc<Component>, LoadError>),
}

impl Version {
    pub(super) fn of(component: &Component) -> Self {
        let specs = component.tools.iter().map(|tool| &tool.spec);
        Self {
            digest: component.digest.clone(),
            tools: specs.clone().map(|spec| spec.name.clone()).collect(),
            prompt_bytes: specs.map(|spec| spec.prompt_bytes() as u64).sum(),
        }
    }
}

impl Load {
    pub(super) fn new(ticket: u64, fingerprint: Option<Fingerprint>, abort: AbortHandle) -> Self {
        Self { ticket, fingerprint, digest: None, begun: Instant::now(), abort }
    }

    /// Goes on with what was read.
    pub(super) fn go_on(&mut self, digest: String, abort: AbortHandle) {
        (self.digest, self.abort) = (Some(digest), abort);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl FileLoads {
    /// Whether the file, as it looks now, is to be loaded. Gives up a load that has become pointless.
    pub(super) fn wants_load(&mut self, looks: Option<Fingerprint>, now: Instant) -> bool {
        match &self.newest {
            Some(load) if load.fingerprint == looks => false,
            Some(load) => now.saturating_duration_since(load.begun) >= GIVE_UP_AFTER,
            None if self.seen == Some(looks) => self.retry.is_due(now),
            None => {
                self.retry = Retry::default();
                true
            }
        }
    }

    /// The file is to be loaded again although it looks the same.
    pub(super) fn forget(&mut self) {
        (self.seen, self.is_outdated) = (None, true);
    }

    /// The version that has been read, unless what it was granted has changed since it was loaded.
    pub(super) fn loaded(&mut self, content: &Content) -> Option<Arc<Component>> {
        if std::mem::take(&mut self.is_outdated) {
            return None;
        }
        self.component(&content.digest).filter(|component| component.signature == content.signature)
    }

    /// Takes in what became of the version in the folder.
    pub(super) fn finish(&mut self, result: Result<Arc<Component>, LoadError>, now: Instant) -> Change {
        // What was loaded under another policy is loaded again when the folder is looked at next.
        self.seen = self.newest.take().map(|load| load.fingerprint).filter(|_| !self.is_outdated);
        match result {
            Ok(component) => {
                self.retry = Retry::default();
                let version = Version::of(&component);
                self.add(component);
                Change::Loaded(version)
            }
            Err(error) => {
                self.retry.record_failure(&error, now);
                Change::Refused(Arc::new(error))
            }
        }
    }

    /// Whether the last good version is to be loaded from its copy, given that it is to serve: not before it is known
    /// that the folder holds another one.
    pub(super) fn wants_last_good(&self, state: &FileState, now: Instant) -> bool {
        let Some(last_good) = &state.last_good else { return false };
        let is_other = match &self.newest {
            Some(load) => load.digest.as_ref().is_some_and(|digest| *digest != last_good.digest),
            None => state.newest.is_some(),
        };
        is_other && self.last_good.is_none() && self.last_good_retry.may_try(now)
    }

    /// Takes in what became of the last good version.
    pub(super) fn finish_last_good(
        &mut self,
        result: Result<Arc<Component>, LoadError>,
        now: Instant,
    ) -> Result<(), LoadError> {
        self.last_good = None;
        match result {
            Ok(component) => {
                self.last_good_retry = Retry::default();
                self.add(component);
                Ok(())
            }
            Err(error) if self.last_good_retry.record_failure(&error, now) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The last good version is another one.
    pub(super) fn replaced(&mut self) {
        (self.last_good, self.last_good_retry) = (None, Retry::default());
    }

    /// The version of that digest, if it is loaded.
    pub(super) fn component(&self, digest: &str) -> Option<Arc<Component>> {
        self.components.iter().find(|component| component.digest == digest).cloned()
    }

    fn add(&mut self, component: Arc<Component>) {
        // One that was loaded again has another signature, or was granted other things.
        self.components.retain(|other| other.digest != component.digest);
        self.components.push(component);
    }

    /// Drops the versions that are not needed.
    pub(super) fn keep_only(&mut self, needed: impl Fn(&str) -> bool) {
        self.components.retain(|component| needed(&component.digest));
    }

    /// Whether a version of that digest is being loaded.
    pub(super) fn is_loading(&self, digest: &str) -> bool {
        self.newest.as_ref().is_some_and(|load| load.digest.as_deref() == Some(digest))
    }
}
