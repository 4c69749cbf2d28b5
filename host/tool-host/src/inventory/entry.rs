//! What is known of one file, and when it is tried again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::ToolFault;
use futures::future::AbortHandle;

use super::decide::Offer;
use crate::component::Component;
use crate::error::LoadError;
use crate::folder::Fingerprint;

/// The first pause before a file is tried again whose failure may pass; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How often a compiler is started for a file that it was killed over: a busy machine may be at fault, or the file.
const MOST_KILLED: u32 = 3;

/// A load that was running for longer is given up when its file changes: its result is out of date, and who mends a file
/// that is slow to compile should not have to wait for it. A younger one ends first, so that a file that changes
/// all the time is loaded all the same.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);

/// What is known of one file.
#[derive(Default)]
pub(super) struct Entry {
    /// The version in the folder, or why it cannot serve. Nothing before it was first looked at.
    pub(super) newest: Option<Result<Version, Arc<LoadError>>>,
    /// The last good version: it owns its tool names.
    pub(super) kept: Option<Version>,
    /// What serves.
    pub(super) serving: Option<Arc<Component>>,
    /// The load of the version in the folder that is under way.
    pub(super) load: Option<Load>,
    /// The load of the last good version that is under way.
    pub(super) kept_load: Option<Load>,
    /// What `newest` is about.
    seen: Option<Fingerprint>,
    retry: Option<Retry>,
    /// When the last good version is tried again.
    kept_retry: Option<Instant>,
}

/// One version of a component.
#[derive(Clone)]
pub(super) struct Version {
    pub(super) offer: Offer,
    /// Nothing as long as it is only remembered.
    pub(super) component: Option<Arc<Component>>,
}

/// A load under way. Dropping it ends the load.
pub(super) struct Load {
    /// Tells its result from those of loads that were given up.
    pub(super) ticket: u64,
    /// What is being loaded.
    pub(super) fingerprint: Option<Fingerprint>,
    /// The digest of what is being loaded, as soon as it was read.
    pub(super) digest: Option<String>,
    begun: Instant,
    abort: AbortHandle,
}

#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    attempts: u32,
}

impl Version {
    pub(super) fn new(component: Arc<Component>) -> Self {
        let specs = component.tools.iter().map(|tool| &tool.spec);
        let offer = Offer {
            digest: component.digest.clone(),
            tools: specs.clone().map(|spec| spec.name.clone()).collect(),
            prompt_bytes: specs.map(|spec| spec.prompt_bytes() as u64).sum(),
        };
        Self { offer, component: Some(component) }
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

impl Entry {
    /// A file of which only the last good version is known.
    pub(super) fn remembered(offer: Offer) -> Self {
        Self { kept: Some(Version { offer, component: None }), ..Self::default() }
    }

    /// Whether the file, as it looks now, is to be loaded. Gives up a load that has become pointless.
    pub(super) fn wants_load(&mut self, now: Option<Fingerprint>) -> bool {
        if let Some(load) = &self.load {
            if load.fingerprint == now || load.begun.elapsed() < GIVE_UP_AFTER {
                return false;
            }
            self.load = None;
        }
        if self.newest.is_none() || self.seen != now {
            self.retry = None;
            return true;
        }
        self.retry.is_some_and(|retry| retry.at <= Instant::now())
    }

    /// A version that is loaded already.
    pub(super) fn loaded(&self, digest: &str) -> Option<Arc<Component>> {
        let newest = self.newest.as_ref().and_then(|newest| newest.as_ref().ok());
        let versions = [newest, self.kept.as_ref()].into_iter().flatten();
        let components = versions.filter_map(|version| version.component.as_ref()).chain(&self.serving);
        components.into_iter().find(|component| component.digest == digest).cloned()
    }

    /// Takes in what became of the version in the folder.
    pub(super) fn finish(&mut self, result: Result<Arc<Component>, LoadError>) {
        self.seen = self.load.take().and_then(|load| load.fingerprint);
        let attempts = self.retry.map_or(0, |retry| retry.attempts) + 1;
        let again = match &result {
            Ok(_) => false,
            Err(LoadError::CompilerKilled(_)) => attempts < MOST_KILLED,
            Err(error) => error.may_pass(),
        };
        let pause = FIRST_PAUSE.saturating_mul(1 << attempts.min(10).saturating_sub(1)).min(LONGEST_PAUSE);
        self.retry = again.then(|| Retry { at: Instant::now() + pause, attempts });
        self.newest = Some(result.map(Version::new).map_err(Arc::new));
    }

    /// Whether the last good version is to be loaded, given that it is to serve: not before it is known that the folder
    /// holds another one.
    pub(super) fn wants_kept(&self) -> bool {
        let Some(kept) = &self.kept else { return false };
        let known = match &self.load {
            Some(load) => load.digest.as_ref().is_some_and(|digest| *digest != kept.offer.digest),
            None => self.newest.is_some(),
        };
        let due = self.kept_retry.is_none_or(|at| at <= Instant::now());
        known && due && kept.component.is_none() && self.kept_load.is_none()
    }

    /// Takes in what became of the last good version.
    pub(super) fn finish_kept(&mut self, result: Result<Arc<Component>, LoadError>) -> Result<(), LoadError> {
        self.kept_load = None;
        match result {
            Ok(component) => {
                if let Some(kept) = &mut self.kept {
                    kept.component = Some(component);
                }
                Ok(())
            }
            Err(error) if error.may_pass() || error.is_no_verdict() => {
                self.kept_retry = Some(Instant::now() + FIRST_PAUSE);
                Ok(())
            }
            Err(error) => {
                self.kept = None;
                Err(error)
            }
        }
    }

    pub(super) fn fault(&self, file: &str) -> Option<ToolFault> {
        let error = self.newest.as_ref()?.as_ref().err()?;
        Some(ToolFault { file: file.to_owned(), error: error.to_string() })
    }
}
