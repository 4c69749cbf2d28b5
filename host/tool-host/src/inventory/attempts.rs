//! The attempts at what somebody proposes for one file: which one is under way, what was tried last, and when
//! that is tried again. The folder's files are loaded by it where the folder decides, and proposed by it
//! where a store does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use agent_core::words::ComponentRecord;
use futures::future::AbortHandle;

use super::retry::Retry;
use crate::component::component_facts::facts_digest;
use crate::error::LoadError;
use crate::folder::{Fingerprint, Listing};

/// When its file changes, an attempt that has run for longer is given up: its result is out of date, and an
/// operator who mends a file that is slow to compile should not wait for it. A younger one is left to end, so
/// that a file which changes all the time is loaded all the same. Where the records say which version serves,
/// an attempt at another one is given up at once.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);

/// What tells one version that is proposed from the next without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Looks {
    /// A file of the folder; one without a fingerprint is there but cannot be looked at.
    File(Option<Fingerprint>),
    /// The bytes that the store keeps under a digest, with the [`facts_digest`] of how its record describes
    /// them.
    Kept { digest: String, facts: String },
}

/// The files of a listing as what they look like.
pub(super) fn looks_of(listing: &Listing) -> BTreeMap<String, Looks> {
    listing.files.iter().map(|(file, fingerprint)| (file.clone(), Looks::File(*fingerprint))).collect()
}

/// The version of a record that is to serve, and how it looks.
pub(super) fn looks_of_active(record: &ComponentRecord) -> Option<Looks> {
    let digest = record.active.as_ref().filter(|_| record.enabled)?;
    let version = record.versions.iter().find(|version| version.digest == *digest);
    let facts = version.map(|version| facts_digest(&version.facts)).unwrap_or_default();
    Some(Looks::Kept { digest: digest.clone(), facts })
}

#[derive(Default)]
pub(super) struct Attempts {
    pub(super) under_way: Option<Load>,
    /// How the file looked when an attempt last ended.
    seen: Option<Looks>,
    retry: Retry,
}

/// A load under way. Dropping it ends the load.
pub(super) struct Load {
    /// Tells its result from those of loads that were given up.
    pub(super) ticket: u64,
    /// What is being loaded; absent for a last good version.
    looks: Option<Looks>,
    /// The digest of what is being loaded, as soon as it was read.
    pub(super) digest: Option<String>,
    begun: Instant,
    abort: AbortHandle,
}

impl Attempts {
    /// Whether the file, as it looks now, is to be tried. Says so too of an attempt under way that has become
    /// pointless: the next one takes its place.
    pub(super) fn wants(&mut self, looks: &Looks, now: Instant) -> bool {
        match &self.under_way {
            Some(load) if load.looks.as_ref() == Some(looks) => false,
            Some(load) => {
                load.is_of_another_version(looks)
                    || now.saturating_duration_since(load.begun) >= GIVE_UP_AFTER
            }
            None if self.seen.as_ref() == Some(looks) => self.retry.is_due(now),
            None => {
                self.retry = Retry::default();
                true
            }
        }
    }

    /// When the file that looks like this is tried again after a failure. Not while an attempt is under way.
    pub(super) fn due(&self, looks: &Looks) -> Option<Instant> {
        let has_ended = self.under_way.is_none() && self.seen.as_ref() == Some(looks);
        self.retry.due().filter(|_| has_ended)
    }

    pub(super) fn is_under_way(&self, ticket: u64) -> bool {
        self.under_way.as_ref().is_some_and(|load| load.ticket == ticket)
    }

    /// How the file looked when the attempt under way began.
    pub(super) fn looks(&self) -> Option<&Looks> {
        self.under_way.as_ref()?.looks.as_ref()
    }

    /// The digest of what is being loaded, once it was read.
    pub(super) fn loading_digest(&self) -> Option<&str> {
        self.under_way.as_ref()?.digest.as_deref()
    }

    /// The attempt under way has ended, with that error if it failed.
    pub(super) fn end(&mut self, error: Option<&LoadError>, now: Instant) {
        self.seen = self.under_way.take().and_then(|mut load| load.looks.take());
        match error {
            None => self.retry = Retry::default(),
            Some(error) => {
                self.retry.record_failure(error, now);
            }
        }
    }

    /// The file is to be tried again although it looks the same.
    pub(super) fn forget(&mut self) {
        self.seen = None;
    }
}

impl Load {
    pub(super) fn new(ticket: u64, looks: Option<Looks>, abort: AbortHandle) -> Self {
        Self { ticket, looks, digest: None, begun: Instant::now(), abort }
    }

    /// Whether it is of another version than the records have serve. Left to end, it would serve although it
    /// was rolled back meanwhile.
    fn is_of_another_version(&self, looks: &Looks) -> bool {
        let Looks::Kept { digest, .. } = looks else { return false };
        match (&self.digest, &self.looks) {
            (Some(own), _) | (None, Some(Looks::Kept { digest: own, .. })) => own != digest,
            (None, _) => false,
        }
    }

    pub(super) fn go_on(&mut self, digest: String, abort: AbortHandle) {
        (self.digest, self.abort) = (Some(digest), abort);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(digest: &str) -> Looks {
        Looks::Kept { digest: digest.to_owned(), facts: String::new() }
    }

    fn begin(attempts: &mut Attempts, digest: &str) {
        attempts.under_way = Some(Load::new(1, Some(kept(digest)), AbortHandle::new_pair().0));
    }

    #[test]
    fn what_looks_as_it_did_is_tried_again_when_that_is_due_and_what_changed_at_once() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        assert!(attempts.wants(&kept("a"), now));
        begin(&mut attempts, "a");
        assert!(!attempts.wants(&kept("a"), now + GIVE_UP_AFTER), "it is under way");
        assert_eq!(attempts.due(&kept("a")), None, "it is under way");
        attempts.end(Some(&LoadError::CompilerUnavailable("no space".into())), now);
        assert_eq!(attempts.due(&kept("a")), Some(now + Duration::from_secs(1)));
        assert_eq!(attempts.due(&kept("b")), None, "that was not tried");
        assert!(!attempts.wants(&kept("a"), now), "the pause is not over");
        assert!(attempts.wants(&kept("a"), now + Duration::from_secs(1)));
        assert!(attempts.wants(&kept("b"), now), "another file failed with that");
        begin(&mut attempts, "b");
        attempts.end(None, now);
        assert_eq!(attempts.due(&kept("b")), None);
        assert!(!attempts.wants(&kept("b"), now + Duration::from_hours(1)));
        attempts.forget();
        assert!(attempts.wants(&kept("b"), now));
    }

    #[test]
    fn an_attempt_at_what_has_changed_is_left_to_end_while_it_is_young() {
        let mut attempts = Attempts::default();
        begin(&mut attempts, "a");
        let begun = attempts.under_way.as_ref().unwrap().begun;
        let described = Looks::Kept { digest: "a".to_owned(), facts: "others".to_owned() };
        assert!(!attempts.wants(&described, begun + GIVE_UP_AFTER / 2));
        assert!(attempts.wants(&described, begun + GIVE_UP_AFTER));
    }

    #[test]
    fn an_attempt_at_a_version_that_was_rolled_back_meanwhile_is_given_up_at_once() {
        let mut attempts = Attempts::default();
        begin(&mut attempts, "a");
        let begun = attempts.under_way.as_ref().unwrap().begun;
        assert!(attempts.wants(&kept("b"), begun));
        // A file of the folder, which is known by its digest once it was read.
        let mut load = Load::new(2, Some(Looks::File(None)), AbortHandle::new_pair().0);
        load.begun = begun;
        attempts.under_way = Some(load);
        assert!(!attempts.wants(&kept("b"), begun));
        attempts.under_way.as_mut().unwrap().go_on("a".to_owned(), AbortHandle::new_pair().0);
        assert!(!attempts.wants(&kept("a"), begun));
        assert!(attempts.wants(&kept("b"), begun));
    }
}
