//! Trying a version beside the one that serves, from its beginning to its end.

use agent_core::ports::{AdminError, AdminResult, TrialRequest};
use agent_core::words::{Trial, TrialKind, TrialState};

use super::draft::{Draft, is_approved};
use crate::verdicts::check_options;

/// Most reasons of a failure that are kept, and most characters of each.
const MOST_REASONS: usize = 8;
const REASON_CHARS: usize = 400;

/// What a component that sends requests wants.
const HTTP: &str = "http";

/// What a component wants that calls other tools or asks people, in the words of the policy.
const TOOLBOX: &str = "toolbox";
const ASK: &str = "ask";

pub(super) fn begin(
    draft: &mut Draft<'_>,
    id: String,
    kind: TrialKind,
    request: TrialRequest,
) -> AdminResult {
    let TrialRequest { digest, options } = request;
    check_options(&options).map_err(AdminError::Invalid)?;
    let against = can_compare(draft)?;
    let digest = match digest {
        Some(digest) => digest,
        None => newest_but(draft, &against)?,
    };
    can_try(draft, kind, &digest)?;
    let (action, part) = match kind {
        TrialKind::Shadow => ("shadow", "calls"),
        TrialKind::Canary => ("canary", "runs"),
    };
    draft.done(action, Some(&digest));
    draft.detail(format!("{} % of the {part}, compared with {against}", options.share * 100.0));
    draft.record.trial = Some(Trial {
        id,
        kind,
        digest,
        against,
        share: options.share,
        thresholds: options.thresholds,
        by: draft.by.to_owned(),
        since: draft.now,
        state: TrialState::Running,
    });
    Ok(())
}

/// The version that another one can be compared with now.
fn can_compare(draft: &Draft<'_>) -> AdminResult<String> {
    if let Some(trial) = draft.running() {
        return Err(AdminError::Conflict(format!(
            "{} is being tried already: promote it, or roll back to {} to end that",
            trial.digest, trial.against
        )));
    }
    if !draft.record.enabled {
        return Err(AdminError::Conflict(
            "the component is disabled, so nothing calls it: enable it first".into(),
        ));
    }
    draft.record.active.clone().ok_or_else(|| {
        AdminError::Conflict(format!(
            "no version serves that another could be compared with. {}",
            draft.what_there_is()
        ))
    })
}

fn newest_but(draft: &Draft<'_>, active: &str) -> AdminResult<String> {
    let newest = draft.record.versions.first().filter(|version| version.digest != active);
    newest.map(|version| version.digest.clone()).ok_or_else(|| {
        AdminError::Conflict(format!(
            "no version is newer than the one that serves. {}",
            draft.what_there_is()
        ))
    })
}

/// A shadow runs for nobody, but it runs: requests that it sent would be sent twice. A canary serves users.
fn can_try(draft: &Draft<'_>, kind: TrialKind, digest: &str) -> AdminResult {
    if draft.serves(digest) {
        return Err(AdminError::Conflict(format!("{digest} serves already. {}", draft.what_there_is())));
    }
    let version = draft.expect_version(digest)?;
    match kind {
        TrialKind::Shadow if version.facts.wants.iter().any(|want| want == HTTP) => {
            Err(AdminError::Conflict(format!(
                "{digest} sends requests, which a shadow would send a second time: try it as a canary"
            )))
        }
        TrialKind::Shadow if version.facts.wants.iter().any(|want| want == TOOLBOX) => {
            Err(AdminError::Conflict(format!(
                "{digest} calls other tools, which a shadow cannot: try it as a canary"
            )))
        }
        TrialKind::Shadow if version.facts.wants.iter().any(|want| want == ASK) => Err(AdminError::Conflict(
            format!("{digest} asks people, who would be asked a second time: try it as a canary"),
        )),
        TrialKind::Canary if !is_approved(version) => Err(AdminError::Conflict(format!(
            "{digest} waits for an approval, and a canary serves users: approve it first"
        ))),
        TrialKind::Shadow | TrialKind::Canary => Ok(()),
    }
}

/// What serves stays.
pub(super) fn end(draft: &mut Draft<'_>) -> AdminResult {
    let Some(trial) = draft.running() else {
        return Err(AdminError::Conflict("no version is being tried".into()));
    };
    let digest = trial.digest.clone();
    draft.done("trial ended", Some(&digest));
    let because = format!("ended by {}", draft.by);
    draft.end_trial(&because);
    Ok(())
}

/// Without a digest only what is being tried, or has passed, is promoted; who names a version needs no trial.
pub(super) fn promote(draft: &mut Draft<'_>, digest: Option<String>) -> AdminResult {
    let digest = match digest {
        Some(digest) => digest,
        None => tried(draft)?,
    };
    if draft.serves(&digest) {
        return Err(AdminError::Conflict(format!("{digest} serves already. {}", draft.what_there_is())));
    }
    draft.expect_approved(&digest)?;
    draft.done("promoted", Some(&digest));
    draft.serve(&digest);
    Ok(())
}

fn tried(draft: &Draft<'_>) -> AdminResult<String> {
    let why_not = match &draft.record.trial {
        None => "no version is being tried".to_owned(),
        Some(trial) => match &trial.state {
            TrialState::Running | TrialState::Passed { .. } => return Ok(trial.digest.clone()),
            TrialState::Failed { because, .. } => {
                format!("the trial of {} failed: {}", trial.digest, because.join("; "))
            }
            TrialState::Ended { because, .. } => format!("the trial of {} ended: {because}", trial.digest),
        },
    };
    Err(AdminError::Conflict(format!("{why_not}. Name the digest of the version that is to serve")))
}

/// The version is withdrawn. Says nothing of a trial that has ended meanwhile.
pub(super) fn failed(draft: &mut Draft<'_>, id: &str, because: Vec<String>) {
    let cut = |reason: String| reason.chars().take(REASON_CHARS).collect();
    let because: Vec<String> = because.into_iter().take(MOST_REASONS).map(cut).collect();
    let detail = because.join("; ");
    if let Some(digest) = settle(draft, id, TrialState::Failed { because, at: draft.now }) {
        draft.done("trial failed", Some(&digest));
        draft.detail(detail);
    }
}

/// The version serves if that was asked for and it is approved.
pub(super) fn passed(draft: &mut Draft<'_>, id: &str) {
    let promotes = draft.running().is_some_and(|trial| trial.thresholds.promote);
    let Some(digest) = settle(draft, id, TrialState::Passed { at: draft.now }) else { return };
    draft.done("trial passed", Some(&digest));
    let is_approved = draft.version(&digest).is_some_and(is_approved);
    match (promotes, is_approved) {
        (true, true) => draft.serve(&digest),
        (true, false) => draft.detail("it does not serve, because it waits for an approval"),
        (false, _) => draft.detail("it serves once it is promoted"),
    }
}

/// Ends the trial of this id, if it runs, and says which version it was of.
fn settle(draft: &mut Draft<'_>, id: &str, state: TrialState) -> Option<String> {
    let trial = draft.record.trial.as_mut()?;
    if trial.id != id || trial.state != TrialState::Running {
        return None;
    }
    trial.state = state;
    Some(trial.digest.clone())
}
