//! A record that is being changed, and the audit line that comes of it.

use agent_core::ports::AdminError;
use agent_core::ports::AdminResult;
use agent_core::words::{
    AuditLine, ComponentRecord, ComponentVersion, Millis, Trial, TrialState, VersionStatus,
};

/// Most versions that a rollback can go back to. One is the rule; five outlast a day of bad releases.
pub(crate) const MOST_PREVIOUS: usize = 5;

/// Most versions that a refusal lists.
const MOST_LISTED: usize = 6;

#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) record: ComponentRecord,
    pub(super) by: &'a str,
    pub(super) now: Millis,
    /// What was done, and to which version. Absent while nothing was.
    done: Option<(&'static str, Option<String>)>,
    details: Vec<String>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(record: &ComponentRecord, by: &'a str, now: Millis) -> Self {
        Self { record: record.clone(), by, now, done: None, details: vec![] }
    }

    /// Says what the change is. A change without this is none.
    pub(super) fn done(&mut self, action: &'static str, digest: Option<&str>) {
        self.done = Some((action, digest.map(str::to_owned)));
    }

    /// Says more about it, in half a sentence.
    pub(super) fn detail(&mut self, text: impl Into<String>) {
        self.details.push(text.into());
    }

    pub(super) fn finish(self) -> Option<(ComponentRecord, AuditLine)> {
        let (action, digest) = self.done?;
        let detail = self.details.join("; ");
        let line =
            AuditLine { at: self.now, by: self.by.to_owned(), action: action.to_owned(), digest, detail };
        Some((self.record, line))
    }

    /// The entry of a version whose bytes are kept.
    pub(super) fn version(&self, digest: &str) -> Option<&ComponentVersion> {
        self.record.versions.iter().find(|version| version.digest == digest)
    }

    /// The version that somebody asked for, or why there is none.
    pub(super) fn expect_version(&self, digest: &str) -> AdminResult<&ComponentVersion> {
        self.version(digest).ok_or_else(|| {
            let problem = if self.record.known.iter().any(|known| known == digest) {
                format!("the bytes of {digest} are gone; upload them again to have that version back")
            } else {
                format!("it has no version {digest}")
            };
            AdminError::UnknownVersion(format!("{problem}. {}", self.what_there_is()))
        })
    }

    /// Expects a version of that digest that is approved; refused while it waits for an approval.
    pub(super) fn expect_approved(&self, digest: &str) -> AdminResult {
        if is_approved(self.expect_version(digest)?) {
            return Ok(());
        }
        Err(AdminError::Conflict(format!("{digest} waits for an approval: approve it first")))
    }

    /// The versions, for somebody who asked for one that is not there.
    pub(super) fn what_there_is(&self) -> String {
        let active = self.record.active.as_deref();
        let state = |version: &ComponentVersion| {
            if active == Some(version.digest.as_str()) {
                "serves"
            } else if self.record.withdrawn.contains(&version.digest) {
                "withdrawn"
            } else if self.record.previous.contains(&version.digest) {
                "served before"
            } else if is_approved(version) {
                "approved"
            } else {
                "waits"
            }
        };
        let versions = self.record.versions.iter();
        let mut listed: Vec<_> = versions
            .take(MOST_LISTED)
            .map(|version| format!("{} ({})", version.digest, state(version)))
            .collect();
        let rest = self.record.versions.len().saturating_sub(MOST_LISTED);
        if rest > 0 {
            listed.push(format!("and {rest} more"));
        }
        if listed.is_empty() {
            "There is no version".into()
        } else {
            format!("There is {}", listed.join(", "))
        }
    }

    pub(super) fn serves(&self, digest: &str) -> bool {
        self.record.active.as_deref() == Some(digest)
    }

    pub(super) fn running(&self) -> Option<&Trial> {
        self.record.trial.as_ref().filter(|trial| trial.state == TrialState::Running)
    }

    /// Has a version serve. A trial that runs has then nothing to be compared with, and ends.
    pub(super) fn serve(&mut self, digest: &str) {
        self.record.previous.retain(|previous| previous != digest);
        self.record.withdrawn.retain(|withdrawn| withdrawn != digest);
        let before = self.record.active.replace(digest.to_owned()).filter(|before| before != digest);
        self.record.active_since = Some(self.now);
        match &before {
            Some(before) => self.detail(format!("it serves in place of {before}")),
            None => self.detail("it serves"),
        }
        if !self.record.enabled {
            self.detail("the component is disabled, so only once that is enabled");
        }
        self.remember(before);
        self.end_trial(&format!("{digest} took over"));
        self.overrule_failure(digest);
    }

    /// Has an earlier version serve. The one that served is withdrawn, so that no rollback goes back to it by
    /// itself, unless this undoes such a rollback.
    pub(super) fn withdraw_for(&mut self, earlier: &str) {
        let undoes = self.record.withdrawn.iter().any(|withdrawn| withdrawn == earlier);
        let before = self.record.active.clone().filter(|_| !undoes);
        self.serve(earlier);
        self.record.withdrawn.extend(before);
    }

    /// No version is to serve.
    pub(super) fn serve_nothing(&mut self, because: &str) {
        let before = self.record.active.take();
        self.record.active_since = None;
        self.remember(before);
        self.end_trial(because);
    }

    fn remember(&mut self, before: Option<String>) {
        if let Some(before) = before {
            self.record.previous.insert(0, before);
            self.record.previous.truncate(MOST_PREVIOUS);
            let Self { record: ComponentRecord { previous, withdrawn, .. }, .. } = self;
            withdrawn.retain(|digest| previous.contains(digest));
        }
    }

    /// A version that serves although its trial failed is not taken back any more, also once another one
    /// serves: runs that began with it go on with it.
    fn overrule_failure(&mut self, digest: &str) {
        if let Some(trial) = self.record.trial.as_mut().filter(|trial| trial.digest == digest)
            && let TrialState::Failed { because, .. } = &trial.state
        {
            let because = format!("it failed ({}), and the version was had serve since", because.join("; "));
            trial.state = TrialState::Ended { because, at: self.now };
        }
    }

    /// Ends a trial that runs.
    pub(super) fn end_trial(&mut self, because: &str) {
        let state = TrialState::Ended { because: because.to_owned(), at: self.now };
        if let Some(trial) = self.record.trial.as_mut().filter(|trial| trial.state == TrialState::Running) {
            trial.state = state;
            let detail = format!("the trial of {} ended", trial.digest);
            self.detail(detail);
        }
    }
}

/// Whether a version may serve.
pub fn is_approved(version: &ComponentVersion) -> bool {
    matches!(version.status, VersionStatus::Approved { .. })
}
