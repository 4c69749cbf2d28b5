//! A component that is changed step by step, and the changes.

use agent_core::ports::{AdminError, AdminResult, TrialOptions, TrialRequest};
use agent_core::words::{AuditLine, ComponentRecord, ComponentVersion, Trial, TrialKind, VersionSource};

use super::{NOW, digest, upload, version};
use crate::record::{Change, apply};

pub(super) const ANNA: &str = "user:anna";

/// A component, changed step by step.
#[derive(Default)]
pub(super) struct Component {
    pub(super) record: ComponentRecord,
    line: Option<AuditLine>,
}

impl Component {
    /// Does something; what was done before stays when it is refused.
    pub(super) fn attempt(&mut self, change: Change, by: &str) -> AdminResult<bool> {
        let applied = apply(&self.record, change, by, NOW)?;
        let did = applied.is_some();
        if let Some((record, line)) = applied {
            (self.record, self.line) = (record, Some(line));
        }
        Ok(did)
    }

    pub(super) fn with(mut self, change: Change) -> Self {
        assert!(self.attempt(change, ANNA).unwrap(), "it makes no difference");
        self
    }

    pub(super) fn refused(&mut self, change: Change) -> AdminError {
        let before = self.record.clone();
        let error = self.attempt(change, ANNA).unwrap_err();
        assert_eq!(self.record, before);
        error
    }

    /// Refuses a change in these words.
    pub(super) fn refuses(&mut self, change: Change, words: &str) {
        assert_eq!(self.refused(change).to_string(), words);
    }

    /// Refuses a change in words that begin so.
    pub(super) fn refuses_as(&mut self, change: Change, begin: &str) {
        let words = self.refused(change).to_string();
        assert!(words.starts_with(begin), "{words}");
    }

    pub(super) fn makes_no_difference(&mut self, change: Change) {
        let before = self.record.clone();
        assert!(!self.attempt(change, ANNA).unwrap());
        assert_eq!(self.record, before);
    }

    pub(super) fn line(&self) -> (&str, Option<&str>, &str) {
        let line = self.line.as_ref().unwrap();
        (&line.action, line.digest.as_deref(), &line.detail)
    }

    /// What serves, and what did.
    pub(super) fn serves(&self) -> (Option<&str>, Vec<&str>) {
        (self.record.active.as_deref(), self.record.previous.iter().map(String::as_str).collect())
    }

    pub(super) fn trial(&self) -> &Trial {
        self.record.trial.as_ref().unwrap()
    }
}

pub(super) fn proposed(version: ComponentVersion) -> Change {
    Change::Proposed(Box::new(version))
}

/// A file that is approved, or waits.
pub(super) fn file(name: &str, by: Option<&str>) -> Change {
    proposed(version(name, VersionSource::Folder, by))
}

/// An approved file that was found when these versions were known.
pub(super) fn found(name: &str, known: &[&str]) -> Change {
    let version = Box::new(version(name, VersionSource::Folder, Some("off")));
    Change::Found { version, known: known.iter().map(digest).collect() }
}

pub(super) fn uploaded(name: &str, by: Option<&str>) -> Change {
    proposed(version(name, upload(), by))
}

pub(super) fn approve(name: Option<&str>) -> Change {
    Change::Approve { digest: name.map(digest), serve: true }
}

pub(super) fn attempt(kind: TrialKind, name: Option<&str>) -> Change {
    let request = TrialRequest { digest: name.map(digest), options: TrialOptions::default() };
    Change::Try { id: "t1".into(), kind, request }
}

pub(super) fn canary(name: &str) -> Change {
    attempt(TrialKind::Canary, Some(name))
}

pub(super) fn shadow(name: &str) -> Change {
    attempt(TrialKind::Shadow, Some(name))
}

pub(super) fn serving() -> Component {
    Component::default().with(uploaded("1", Some("off")))
}

/// The second version serves, the first did.
pub(super) fn replaced() -> Component {
    serving().with(uploaded("2", Some("off")))
}

/// The second version is approved, and does not serve.
pub(super) fn approved() -> Component {
    serving().with(uploaded("2", None)).with(Change::Approve { digest: None, serve: false })
}
