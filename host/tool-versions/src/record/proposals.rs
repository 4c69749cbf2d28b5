//! Taking versions in, and deciding which are kept.

use agent_core::ports::AdminError;
use agent_core::ports::AdminResult;
use agent_core::ports::tool_versions::MOST_RECORD_BYTES;
use agent_core::words::{ComponentRecord, ComponentVersion, VersionSource, VersionStatus};

use super::draft::{Draft, is_approved};

/// Most versions of a component whose bytes are kept: those that are needed and what was proposed lately.
pub(crate) const MOST_VERSIONS: usize = 20;

/// Most digests of a component that are remembered. A file whose digest was forgotten is a proposal again,
/// and waits.
pub(crate) const MOST_KNOWN: usize = 500;

/// Most bytes of all entries, as JSON. The rest of a record (digests, a trial, reasons) is bounded and fits
/// beside them.
const MOST_ENTRIES_BYTES: usize = MOST_RECORD_BYTES - (512 << 10);

/// A digest that is known is no proposal, with three exceptions: an operator who brings bytes that are gone
/// wants that version back; the file that last served, taken out of the folder and put back, serves again;
/// and a version that waits is approved by a proposal of it that is approved. `known_when_found` are the
/// digests that were known when a file was found: it takes its place behind what was proposed since.
pub(super) fn propose(
    draft: &mut Draft<'_>,
    mut version: ComponentVersion,
    known_when_found: Option<&[String]>,
) -> AdminResult {
    let is_of_folder = version.source == VersionSource::Folder;
    if draft.record.known.contains(&version.digest) {
        if draft.version(&version.digest).is_some() {
            if is_of_folder {
                put_back(draft, &version.digest);
            }
            approve_waiting(draft, version, known_when_found);
            return Ok(());
        }
        if is_of_folder {
            return Ok(());
        }
        draft.detail("its bytes were gone and are kept again");
    }
    if draft.record.known.is_empty() || draft.record.deleted {
        (draft.record.enabled, draft.record.deleted) = (true, false);
    }
    let (digest, status) = (version.digest.clone(), version.status.clone());
    draft.done("proposed", Some(&digest));
    draft.record.known.retain(|known| *known != digest);
    let is_newer = |other: &String| known_when_found.is_some_and(|known| !known.contains(other));
    // The newest come first.
    let newer = draft.record.known.iter().take_while(|known| is_newer(known)).count();
    let newer_versions = draft.record.versions.iter().take_while(|other| is_newer(&other.digest));
    let (place, oldest_of_them) = (newer_versions.clone().count(), newer_versions.last());
    if let Some(oldest) = oldest_of_them {
        version.proposed_at = version.proposed_at.min(oldest.proposed_at);
    }
    let is_overtaken = draft.record.active.as_ref().is_some_and(is_newer);
    draft.record.known.insert(newer, digest.clone());
    draft.record.versions.insert(place, version);
    match status {
        VersionStatus::Approved { by, .. } => {
            draft.detail(format!("approved by {by}"));
            serve_approved(draft, &digest, is_overtaken);
        }
        VersionStatus::Waiting { because } => {
            draft.detail(format!("it waits for an approval: {}", because.join("; ")));
        }
    }
    keep_what_fits(draft)?;
    forget_oldest(draft);
    Ok(())
}

/// Has an approved version serve, unless something else is to serve before it.
fn serve_approved(draft: &mut Draft<'_>, digest: &str, is_overtaken: bool) {
    // What is being tried is not pushed aside by something that nobody tried.
    if draft.running().is_some_and(|trial| trial.digest == digest) {
        draft.detail("it is being tried, and serves once it is promoted");
    } else if draft.running().is_some() {
        draft.detail("it does not serve while another version is tried");
    } else if is_overtaken {
        draft.detail("it does not serve: what serves was proposed after the file was found");
    } else {
        draft.serve(digest);
    }
}

/// Approves a kept version that waits, where it is proposed again and that proposal is approved: the policy
/// may have come to name it. How it describes itself stays as it was first proposed.
fn approve_waiting(draft: &mut Draft<'_>, proposed: ComponentVersion, known_when_found: Option<&[String]>) {
    let ComponentVersion { digest, status, .. } = proposed;
    let VersionStatus::Approved { by, .. } = &status else { return };
    let by = by.clone();
    let is_it = |version: &&mut ComponentVersion| version.digest == digest && !is_approved(version);
    let Some(kept) = draft.record.versions.iter_mut().find(is_it) else { return };
    kept.status = status;
    draft.done("approved", Some(&digest));
    draft.detail(format!("it waited, and is approved by {by}"));
    let is_newer = |other: &String| known_when_found.is_some_and(|known| !known.contains(other));
    let is_overtaken = draft.record.active.as_ref().is_some_and(is_newer);
    serve_approved(draft, &digest, is_overtaken);
}

/// Whether that a file of this digest lies in the folder changes nothing.
pub fn says_nothing_new(record: &ComponentRecord, digest: &str) -> bool {
    let is_kept = record.versions.iter().any(|version| version.digest == digest);
    record.known.iter().any(|known| known == digest) && !(is_kept && is_back(record, digest))
}

/// Whether this is the version that served until its file was taken away.
fn is_back(record: &ComponentRecord, digest: &str) -> bool {
    record.active.is_none() && record.previous.first().is_some_and(|last| last == digest)
}

fn put_back(draft: &mut Draft<'_>, digest: &str) {
    if is_back(&draft.record, digest) {
        draft.done("proposed", Some(digest));
        draft.detail("its file is back in the tools folder");
        draft.serve(digest);
    }
}

/// Drops entries until few enough are left: the oldest first, those that wait last, and never one that is
/// needed.
fn keep_what_fits(draft: &mut Draft<'_>) -> AdminResult {
    let size = |version: &ComponentVersion| serde_json::to_vec(version).map_or(usize::MAX, |json| json.len());
    let mut bytes =
        draft.record.versions.iter().fold(0_usize, |sum, version| sum.saturating_add(size(version)));
    while draft.record.versions.len() > MOST_VERSIONS || bytes > MOST_ENTRIES_BYTES {
        let Some(index) = least_needed(draft) else {
            return Err(AdminError::Refused(format!(
                "what is known of its versions would take {bytes} bytes, and {MOST_ENTRIES_BYTES} are kept: give its tools \
                 smaller schemas and descriptions, or delete the component and propose this version again"
            )));
        };
        let dropped = draft.record.versions.remove(index);
        bytes = bytes.saturating_sub(size(&dropped));
        let what =
            if is_approved(&dropped) { "kept no longer" } else { "no longer waits, there are newer ones" };
        draft.detail(format!("{} is {what}", dropped.digest));
    }
    Ok(())
}

fn least_needed(draft: &Draft<'_>) -> Option<usize> {
    let running = draft.running();
    let is_needed = |index: usize, version: &ComponentVersion| {
        let is_tried =
            running.is_some_and(|trial| [&trial.digest, &trial.against].contains(&&version.digest));
        index == 0
            || is_tried
            || draft.serves(&version.digest)
            || draft.record.previous.contains(&version.digest)
    };
    let unneeded =
        draft.record.versions.iter().enumerate().filter(|(index, version)| !is_needed(*index, version));
    let (approved, waiting): (Vec<_>, Vec<_>) = unneeded.partition(|(_, version)| is_approved(version));
    approved.last().or(waiting.last()).map(|(index, _)| *index)
}

fn forget_oldest(draft: &mut Draft<'_>) {
    let record = &mut draft.record;
    while record.known.len() > MOST_KNOWN {
        let is_kept = |digest: &String| record.versions.iter().any(|version| version.digest == *digest);
        // Fewer are kept than known, so there always is one.
        let Some(index) = record.known.iter().rposition(|digest| !is_kept(digest)) else { return };
        record.known.remove(index);
    }
}
