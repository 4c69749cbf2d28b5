//! The loads of one file: which are under way, when they are tried again, and the components that they gave.

use std::sync::Arc;
use std::time::Instant;

use super::attempts::{Attempts, Load};
use super::event::FileChange;
use super::retry::Retry;
use super::state::FileState;
use crate::component::Component;
use crate::error::LoadError;
use crate::folder::Content;
use crate::folder::memory::FileVersion;

#[derive(Default)]
pub(super) struct FileLoads {
    /// Of the version that is to serve.
    pub(super) newest: Attempts,
    /// Of the last good version, from its copy.
    pub(super) last_good: Option<Load>,
    /// Loaded versions that may serve.
    components: Vec<Arc<Component>>,
    /// Another policy is in force than when they were loaded.
    is_outdated: bool,
    /// Another policy is in force than when the load under way was begun.
    is_load_outdated: bool,
    last_good_retry: Retry,
}

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
    LastGood(Result<Arc<Component>, LoadError>),
    Proposed(Result<Proposed, LoadError>),
    /// The version of the trial of that id was loaded.
    Trial(String, Result<Arc<Component>, LoadError>),
    /// Something was written to the store.
    Written,
    /// The failure of the trial of that id could not be written to the store.
    StillTried(String),
    /// The loss of the file of that digest could not be written to the store: the file counts as there until
    /// it can.
    StillInFolder(String),
    /// Who signed a version that waits could not be read for now, or its approval not be written.
    StillWaiting,
}

/// What came of a proposal.
pub(super) enum Proposed {
    /// The version of that digest is known: that it lies there says nothing new.
    Known(String),
    /// The version was written down; this is it, loaded.
    Written(Arc<Component>),
}

impl FileVersion {
    pub(super) fn of(component: &Component) -> Self {
        let specs = component.tools.iter().map(|tool| &tool.spec);
        Self {
            digest: component.digest.clone(),
            tools: specs.clone().map(|spec| spec.name.clone()).collect(),
            prompt_bytes: specs.map(|spec| spec.prompt_bytes() as u64).sum(),
            facts: Some(component.facts_digest().to_owned()),
        }
    }
}

impl FileLoads {
    /// The file is to be loaded again although it looks the same.
    pub(super) fn forget(&mut self) {
        self.newest.forget();
        (self.is_outdated, self.is_load_outdated) = (true, self.newest.under_way.is_some());
    }

    /// The version that has been read, unless what it was granted has changed since it was loaded.
    pub(super) fn loaded(&mut self, content: &Content) -> Option<Arc<Component>> {
        if self.is_outdated {
            // What is loaded of it now is loaded under the policy in force.
            self.is_load_outdated = false;
            return None;
        }
        self.component(&content.digest).filter(|component| component.signature == content.signature)
    }

    /// The version of that digest, unless what it was granted has changed since it was loaded.
    pub(super) fn current(&self, digest: &str) -> Option<Arc<Component>> {
        self.component(digest).filter(|_| !self.is_outdated)
    }

    /// The versions that may serve, unless what they were granted has changed since they were loaded.
    pub(super) fn all_current(&self) -> Vec<Arc<Component>> {
        if self.is_outdated { vec![] } else { self.components.clone() }
    }

    /// Takes in what became of the version that is to serve.
    pub(super) fn finish(&mut self, result: Result<Arc<Component>, LoadError>, now: Instant) -> FileChange {
        self.newest.end(result.as_ref().err(), now);
        let is_outdated = std::mem::take(&mut self.is_load_outdated);
        if is_outdated {
            // What was loaded under another policy is loaded again when the folder is looked at next.
            self.newest.forget();
        }
        match result {
            Ok(component) => {
                // Not before: a load that fails under the policy in force is tried again, and what was loaded
                // under the one before it would then pass for its result.
                self.is_outdated &= is_outdated;
                let version = FileVersion::of(&component);
                self.add(component);
                FileChange::Loaded(version)
            }
            Err(error) => FileChange::Refused(Arc::new(error)),
        }
    }

    /// Whether the last good version is to be loaded from its copy, given that it is to serve: not before it
    /// is known that the folder holds another one.
    pub(super) fn wants_last_good(&self, state: &FileState, now: Instant) -> bool {
        let Some(last_good) = &state.last_good else { return false };
        let is_other = match &self.newest.under_way {
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

    /// Keeps a version that was loaded.
    pub(super) fn add(&mut self, component: Arc<Component>) {
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
        self.newest.under_way.as_ref().is_some_and(|load| load.digest.as_deref() == Some(digest))
    }
}
