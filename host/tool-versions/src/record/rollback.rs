//! Which version serves, and whether any does.

use agent_core::ports::AdminError;
use agent_core::ports::AdminResult;
use agent_core::words::{
    ComponentFacts, ComponentRecord, ComponentVersion, Millis, TrialKind, VersionSource, VersionStatus,
};

use super::draft::{Draft, is_approved};

/// The version that serves stops with its file. One that was uploaded has none, and the file of another
/// version says nothing.
pub(super) fn file_gone(draft: &mut Draft<'_>, digest: &str) {
    let detail = "its file was taken out of the tools folder: put it back, or roll back to a version, to have it serve";
    stop_what_is_gone(draft, digest, detail);
}

pub(super) fn server_gone(draft: &mut Draft<'_>, digest: &str) {
    let detail = "its [[mcp]] was taken out of the policy: put it back to have it serve";
    stop_what_is_gone(draft, digest, detail);
}

fn stop_what_is_gone(draft: &mut Draft<'_>, digest: &str, detail: &str) {
    let active = draft.record.active.clone().and_then(|digest| draft.version(&digest)).cloned();
    let is_of_file =
        |version: &ComponentVersion| version.source == VersionSource::Folder && version.digest == digest;
    let Some(active) = active.filter(is_of_file) else { return };
    draft.done("stopped", Some(&active.digest));
    draft.detail(detail);
    draft.serve_nothing("the version that served was taken out of the tools folder or the policy");
}

pub(super) fn approve(draft: &mut Draft<'_>, digest: Option<String>, serve: bool) -> AdminResult {
    let position = |draft: &Draft<'_>, digest: &str| {
        draft.record.versions.iter().position(|version| version.digest == digest)
    };
    let active = draft.record.active.clone();
    let serves_since = active.as_deref().and_then(|active| position(draft, active));
    let is_named = digest.is_some();
    let digest = match digest {
        Some(digest) => digest,
        None => newest_waiting(draft)?,
    };
    if is_approved(draft.expect_version(&digest)?) {
        if draft.serves(&digest) {
            return Ok(());
        }
        return Err(AdminError::Conflict(format!(
            "{digest} is approved already: promote it to have it serve, or roll back to it if it served before"
        )));
    }
    let is_older = serves_since < position(draft, &digest) && serves_since.is_some();
    if is_older && serve && !is_named {
        return Err(AdminError::Conflict(format!(
            "{digest} waits, but it was proposed before {}, which serves: name its digest if it is to take that one's place",
            active.unwrap_or_default()
        )));
    }
    let status = VersionStatus::Approved { by: draft.by.to_owned(), at: draft.now };
    if let Some(version) = draft.record.versions.iter_mut().find(|version| version.digest == digest) {
        version.status = status;
    }
    draft.done("approved", Some(&digest));
    if is_older {
        draft.detail("it was proposed before the version that served");
    }
    if draft.running().is_some_and(|trial| trial.digest == digest) {
        draft.detail("it is being tried, and serves once it is promoted");
    } else if serve {
        draft.serve(&digest);
    } else {
        draft.detail("it does not serve yet");
    }
    Ok(())
}

/// Takes over how an approved version describes itself now. One that waits is approved by its digest, as it
/// was proposed.
pub(super) fn described(draft: &mut Draft<'_>, digest: &str, facts: ComponentFacts) -> AdminResult {
    draft.expect_approved(digest)?;
    let status = VersionStatus::Approved { by: draft.by.to_owned(), at: draft.now };
    let mut versions = draft.record.versions.iter_mut();
    if let Some(version) = versions.find(|version| version.digest == digest && version.facts != facts) {
        (version.facts, version.status) = (facts, status);
        draft.done("approved", Some(digest));
        draft.detail("it describes itself otherwise than when it was approved, and that is approved now");
    }
    Ok(())
}

fn newest_waiting(draft: &Draft<'_>) -> AdminResult<String> {
    draft.record.newest_waiting().map(|version| version.digest.clone()).ok_or_else(|| {
        AdminError::Conflict(format!("no version waits for an approval. {}", draft.what_there_is()))
    })
}

pub(super) fn enable(draft: &mut Draft<'_>) {
    if draft.record.enabled {
        return;
    }
    draft.record.enabled = true;
    let active = draft.record.active.clone();
    draft.done("enabled", active.as_deref());
    if active.is_none() {
        draft.detail("no version serves yet");
    }
}

pub(super) fn disable(draft: &mut Draft<'_>) {
    if draft.record.enabled {
        draft.record.enabled = false;
        let active = draft.record.active.clone();
        draft.done("disabled", active.as_deref());
        draft.end_trial("the component was disabled");
    }
}

/// Has an earlier version serve, or ends a canary.
pub(super) fn roll_back(draft: &mut Draft<'_>, digest: Option<String>) -> AdminResult {
    let withdrawn = draft.running().filter(|trial| match &digest {
        Some(digest) => *digest == trial.against,
        None => trial.kind == TrialKind::Canary,
    });
    if let Some(trial) = withdrawn {
        let (tried, against) = (trial.digest.clone(), trial.against.clone());
        draft.done("rolled back", Some(&tried));
        draft.end_trial("rolled back");
        draft.detail(format!("{against} goes on serving"));
        return Ok(());
    }
    let digest = match digest {
        Some(digest) => digest,
        None => draft.record.earlier().cloned().ok_or_else(|| {
            AdminError::Conflict(format!("no other version served before. {}", draft.what_there_is()))
        })?,
    };
    if draft.serves(&digest) {
        return Err(AdminError::Conflict(format!("{digest} serves already. {}", draft.what_there_is())));
    }
    draft.expect_approved(&digest)?;
    if !draft.record.previous.contains(&digest) {
        return Err(AdminError::Conflict(format!(
            "{digest} is not among the last versions that served: promote it to have it serve. {}",
            draft.what_there_is()
        )));
    }
    draft.done("rolled back", Some(&digest));
    draft.withdraw_for(&digest);
    Ok(())
}

/// The version that has served since then is withdrawn in favour of an earlier one, which is kept. Without
/// one it goes on serving, and so does whatever took its place meanwhile.
pub(super) fn trapped(draft: &mut Draft<'_>, digest: &str, since: Millis, because: String) {
    let Some(earlier) = draft.record.earlier().cloned() else { return };
    if draft.serves(digest) && draft.record.active_since == Some(since) {
        draft.done("withdrawn", Some(digest));
        draft.detail(because);
        draft.withdraw_for(&earlier);
    }
}

/// What is left is that it was there, so that its files are no new proposals.
pub(super) fn delete(draft: &mut Draft<'_>) {
    let served = draft.record.active.take();
    draft.done("deleted", served.as_deref());
    draft.detail(format!("it had {} versions", draft.record.versions.len()));
    let known = std::mem::take(&mut draft.record.known);
    draft.record = ComponentRecord { deleted: true, known, ..ComponentRecord::default() };
}
