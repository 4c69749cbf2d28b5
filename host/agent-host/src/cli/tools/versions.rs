//! `agent-host tools versions`, `diff`, `approve`, `rollback` and the rest: the versions of components that
//! all replicas agree on. They read and write the store (`DATABASE_URL`), and a service that runs on it
//! follows within a second.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use agent_core::ports::{
    AdminAction, AdminError, ComponentView, Operator, ToolAdmin, TrialOptions, TrialRequest, Upload,
};
use agent_core::words::{
    ComponentVersion, Impact, Thresholds, Trial, TrialKind, TrialState, VersionDiff, VersionSource,
    VersionStatus,
};
use anyhow::{Context as _, bail};
use clap::Args;
use host_setup::output::{json_text, plain, print};
use tool_host::ToolHost;

use super::{Exit, load_for_versions};
use crate::config::{Log, ProcessEnv};
use crate::telemetry::{self, Destination};

/// On whose behalf changes are made.
pub(in crate::cli) const OPERATOR: Operator<'_> = Operator { by: "command line", expected: None };

/// Which components to show.
#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// One component, whole; without it a line of each
    name: Option<String>,
}

/// Which versions to compare.
#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// The component: its file's name without .wasm
    name: String,
    /// The older version, by default the one that serves
    #[arg(long, value_name = "DIGEST")]
    from: Option<String>,
    /// The newer version, by default the newest proposal
    #[arg(long, value_name = "DIGEST")]
    to: Option<String>,
}

/// What to approve.
#[derive(Debug, Args)]
pub(crate) struct ApproveArguments {
    /// The component: its file's name without .wasm
    #[arg(required_unless_present = "all")]
    pub(super) name: Option<String>,
    /// The version that was looked at: needed where several wait
    #[arg(long)]
    digest: Option<String>,
    /// The digest of the facts that were looked at, where an approved version describes itself otherwise now
    #[arg(long, value_name = "DIGEST", requires = "digest")]
    facts: Option<String>,
    /// Approve the newest version that waits of every component, and print which those are
    #[arg(long, conflicts_with_all = ["name", "digest"])]
    all: bool,
    /// Do not have it serve yet: it is to be tried first
    #[arg(long)]
    no_serve: bool,
}

/// A component.
#[derive(Debug, Args)]
pub(crate) struct NameArguments {
    /// The component: its file's name without .wasm
    pub(super) name: String,
}

/// A version of a component.
#[derive(Debug, Args)]
pub(crate) struct DigestArguments {
    /// The component: its file's name without .wasm
    pub(super) name: String,
    /// The version. By default the last that served (rollback), the newest (shadow, canary), the one that was
    /// tried (promote)
    #[arg(long)]
    pub(super) digest: Option<String>,
}

/// What to try, and when it has failed or passed.
#[derive(Debug, Args)]
pub(crate) struct TryArguments {
    #[command(flatten)]
    version: DigestArguments,
    /// The share of calls or runs that it gets
    #[arg(long, default_value_t = TrialOptions::default().share)]
    share: f64,
    /// Calls before anything but traps is judged
    #[arg(long, default_value_t = Thresholds::default().min_calls)]
    min_calls: u64,
    /// Most that its share of failed calls may be above that of the version that serves
    #[arg(long, default_value_t = Thresholds::default().max_error_rate)]
    max_error_rate: f64,
    /// Most calls that may trap
    #[arg(long, default_value_t = Thresholds::default().max_traps)]
    max_traps: u64,
    /// Most that its p99 may be of that of the version that serves
    #[arg(long, default_value_t = Thresholds::default().max_p99_ratio)]
    max_p99_ratio: f64,
    /// Least share of a shadow's answers that must be equal
    #[arg(long, default_value_t = Thresholds::default().min_agreement)]
    min_agreement: f64,
    /// Calls after which it has passed; 0 for never by itself
    #[arg(long, default_value_t = 0)]
    pass_after: u64,
    /// Have it serve when it has passed
    #[arg(long)]
    promote: bool,
}

impl ApproveArguments {
    pub(super) fn serves(&self) -> bool {
        !self.no_serve
    }

    pub(super) fn action(&self) -> AdminAction {
        AdminAction::Approve { digest: self.digest.clone(), facts: self.facts.clone(), serve: self.serves() }
    }
}

impl TryArguments {
    pub(super) fn name(&self) -> &str {
        &self.version.name
    }

    pub(super) fn action(&self, kind: TrialKind) -> AdminAction {
        let thresholds = Thresholds {
            min_calls: self.min_calls,
            max_error_rate: self.max_error_rate,
            max_traps: self.max_traps,
            max_p99_ratio: self.max_p99_ratio,
            min_agreement: self.min_agreement,
            pass_after: self.pass_after,
            promote: self.promote,
        };
        let options = TrialOptions { share: self.share, thresholds };
        AdminAction::Try(kind, TrialRequest { digest: self.version.digest.clone(), options })
    }
}

/// `agent-host tools versions`.
pub(crate) async fn show(arguments: &ShowArguments, as_json: bool) -> anyhow::Result<Exit> {
    let host = open().await?;
    let text = match &arguments.name {
        Some(name) => {
            let view = host.get(name).await.with_context(|| of(name))?;
            if as_json { json_text(&view)? } else { describe(&view) }
        }
        None => {
            let views = ToolAdmin::list(&host).await?;
            if as_json { json_text(&views)? } else { views.iter().map(line).collect() }
        }
    };
    print(&text)?;
    Ok(Exit::Success)
}

/// `agent-host tools diff`.
pub(crate) async fn diff(arguments: &DiffArguments, as_json: bool) -> anyhow::Result<Exit> {
    let DiffArguments { name, from, to } = arguments;
    let host = open().await?;
    let diff = ToolHost::diff(&host, name, from.as_deref(), to.as_deref()).await.with_context(|| of(name))?;
    print(&if as_json { json_text(&diff)? } else { describe_diff(&diff) })?;
    Ok(if diff.impact == Impact::Breaking { Exit::Failure } else { Exit::Success })
}

/// Reads a component, says which revision and version that was, changes that and nothing else, and shows the
/// component as it is then. Somebody who changes it meanwhile is not overruled.
pub(crate) async fn change(name: &str, action: AdminAction, as_json: bool) -> anyhow::Result<Exit> {
    let host = open().await?;
    let seen = host.get(name).await.with_context(|| of(name))?;
    let action = with_facts(&host, with_version(action, &seen)?, &seen).await?;
    // silent-ok: whoever cannot be told has closed the standard error.
    let _ = write!(io::stderr(), "{}", describe_change(&action, &seen));
    let operator = Operator { expected: Some(&[seen.revision]), ..OPERATOR };
    let view = host.change(name, action, operator).await.with_context(|| of(name))?;
    print(&if as_json { json_text(&view)? } else { describe(&view) })?;
    Ok(Exit::Success)
}

/// Proposes a version for all replicas, if there is a store for them, and says whether that changed anything.
/// Nothing when there is none.
pub(super) async fn propose(
    name: &str,
    upload: Upload,
    from: &str,
) -> anyhow::Result<Option<(ComponentView, bool)>> {
    let host = open().await?;
    match host.propose(name, upload, VersionSource::CommandLine { from: from.to_owned() }, OPERATOR).await {
        Ok(proposed) => Ok(Some(proposed)),
        Err(AdminError::NoStore) => Ok(None),
        Err(error) => Err(error).with_context(|| of(name)),
    }
}

/// The action with the version that it is about, by what was read of the component. Of several versions that
/// wait none is the obvious one: the newest may have come after its operator looked.
fn with_version(action: AdminAction, seen: &ComponentView) -> anyhow::Result<AdminAction> {
    let record = &seen.record;
    let running = record.trial.as_ref().filter(|trial| trial.state == TrialState::Running);
    Ok(match action {
        AdminAction::Approve { digest: None, serve, .. } => {
            let waiting: Vec<_> = record.versions.iter().filter(|version| is_waiting(version)).collect();
            if waiting.len() > 1 {
                let digests: Vec<_> = waiting.iter().map(|version| version.digest.as_str()).collect();
                bail!(
                    "{} versions of {} wait: name the one that you looked at with --digest, of {}",
                    waiting.len(),
                    plain(&seen.name),
                    digests.join(", ")
                );
            }
            let digest = waiting.first().map(|version| version.digest.clone());
            AdminAction::Approve { digest, facts: None, serve }
        }
        AdminAction::Rollback(None) => AdminAction::Rollback(match running {
            Some(trial) if trial.kind == TrialKind::Canary => Some(trial.against.clone()),
            _ => record.earlier().cloned(),
        }),
        action => action,
    })
}

/// The approval with the digest of how an approved version describes itself now, when that is not what was
/// approved. The differences are printed: what is approved is what was printed.
async fn with_facts(
    host: &ToolHost,
    action: AdminAction,
    seen: &ComponentView,
) -> anyhow::Result<AdminAction> {
    let AdminAction::Approve { digest: Some(digest), facts: None, serve } = &action else {
        return Ok(action);
    };
    let is_it = |version: &&ComponentVersion| version.digest == *digest && !is_waiting(version);
    if !seen.record.versions.iter().any(|version| is_it(&version)) {
        return Ok(action);
    }
    let diff = ToolHost::diff(host, &seen.name, Some(digest), Some(digest)).await;
    let diff = diff.with_context(|| of(&seen.name))?;
    let Some(facts) = diff.facts_digest.clone() else { return Ok(action) };
    // silent-ok: whoever cannot be told has closed the standard error.
    let _ = write!(io::stderr(), "{}", describe_diff(&diff));
    Ok(AdminAction::Approve { digest: Some(digest.clone()), facts: Some(facts), serve: *serve })
}

fn describe_change(action: &AdminAction, seen: &ComponentView) -> String {
    let (what, digest, unnamed) = match action {
        AdminAction::Approve { digest, .. } => ("approving", digest.as_deref(), " the version that waits"),
        AdminAction::Enable => ("enabling it", None, ""),
        AdminAction::Disable => ("disabling it", None, ""),
        AdminAction::Rollback(digest) => ("rolling back to", digest.as_deref(), " an earlier version"),
        AdminAction::Try(_, request) => ("trying", request.digest.as_deref(), " the newest version"),
        AdminAction::EndTrial => ("ending its trial", None, ""),
        AdminAction::Promote(digest) => ("promoting", digest.as_deref(), " the version that is tried"),
        AdminAction::Delete => ("removing it", None, ""),
    };
    let serves = seen.record.active.as_deref().unwrap_or("nothing");
    let mut about = digest.map_or_else(|| unnamed.to_owned(), |digest| format!(" {}", plain(digest)));
    if let AdminAction::Approve { facts: Some(facts), .. } = action {
        about += &format!(" as it describes itself now, with facts {}", plain(facts));
    }
    format!("{} at revision {} serves {serves}; {what}{about}\n", plain(&seen.name), seen.revision)
}

pub(super) async fn open() -> anyhow::Result<ToolHost> {
    let host = load_for_versions().await?;
    // From here on: what the folder has is of no interest.
    telemetry::install(&Log::from_vars(&ProcessEnv)?, Destination::Command, None)?;
    match ToolAdmin::list(&host).await {
        Err(AdminError::Unavailable(text)) => bail!(
            "{text}, or start the service once on this DATABASE_URL: it makes the tables when it starts"
        ),
        _ => Ok(host),
    }
}

fn of(name: &str) -> String {
    format!("the component {}", plain(name))
}

/// One line of a component.
fn line(view: &ComponentView) -> String {
    let waiting = view.record.versions.iter().filter(|version| is_waiting(version)).count();
    let mut notes = Vec::new();
    if !view.record.enabled {
        notes.push("disabled".to_owned());
    }
    if waiting > 0 {
        notes.push(format!("{waiting} waiting"));
    }
    if let Some(trial) = view.record.trial.as_ref().filter(|trial| trial.state == TrialState::Running) {
        notes.push(format!("{} of {}", kind(trial.kind), short(&trial.digest)));
    }
    let active = view.record.active.as_deref().map_or("–", short);
    format!("{:<24} {active:<20} {}\n", view.name, notes.join(", "))
}

/// A component, whole.
pub(super) fn describe(view: &ComponentView) -> String {
    let record = &view.record;
    let mut text = format!("{} (revision {})\n", view.name, view.revision);
    let state = match (&record.active, record.enabled) {
        _ if record.deleted => "deleted".to_owned(),
        (_, false) => "disabled".to_owned(),
        (Some(active), true) => format!("serves {active}"),
        (None, true) if !record.previous.is_empty() => "stopped: its file was taken away".to_owned(),
        (None, true) => "serves nothing yet".to_owned(),
    };
    // silent-ok: writing to a string does not fail.
    let _ = writeln!(text, "  {state}");
    for version in &record.versions {
        let status = match &version.status {
            VersionStatus::Waiting { because } => format!("waits: {}", because.join("; ")),
            VersionStatus::Approved { by, .. } if record.withdrawn.contains(&version.digest) => {
                format!("approved ({by}), withdrawn")
            }
            VersionStatus::Approved { by, .. } => format!("approved ({by})"),
        };
        let tools: Vec<_> = version.facts.tools.iter().map(|tool| tool.name.as_str()).collect();
        let _ = writeln!(text, "  {}  {}  {}", version.digest, tools.join(", "), plain(&status));
    }
    if let Some(trial) = &record.trial {
        let _ = writeln!(text, "  {}", describe_trial(trial));
    }
    if let Some(counts) = &view.counts {
        let side = |counts: &agent_core::words::CallCounts| {
            format!("{} calls, {} failed, {} trapped", counts.calls, counts.failed, counts.trapped)
        };
        let compared = match counts.new.compared {
            0 => String::new(),
            compared => format!("; {} of {compared} answers equal", counts.new.agreed),
        };
        let _ = writeln!(text, "    before {}; tried {}{compared}", side(&counts.old), side(&counts.new));
    }
    if let Some(fault) = &view.fault {
        let _ = writeln!(text, "  {}.wasm {}", view.name, plain(fault));
    }
    text
}

fn describe_trial(trial: &Trial) -> String {
    let state = match &trial.state {
        TrialState::Running => "goes on".to_owned(),
        TrialState::Failed { because, .. } => format!("failed: {}", because.join("; ")),
        TrialState::Passed { .. } => "passed".to_owned(),
        TrialState::Ended { because, .. } => format!("ended: {because}"),
    };
    format!("{} of {} on a share of {}: {}", kind(trial.kind), trial.digest, trial.share, plain(&state))
}

fn describe_diff(diff: &VersionDiff) -> String {
    let mut text = format!("{}\n", impact(diff.impact));
    for finding in &diff.findings {
        // silent-ok: writing to a string does not fail.
        let _ = writeln!(text, "  {:<8} {}: {}", impact(finding.impact), finding.place, plain(&finding.text));
    }
    if let Some(facts) = &diff.facts_digest {
        let _ = writeln!(
            text,
            "  it describes itself otherwise than when it was approved: --digest {} --facts {} approves that",
            diff.to,
            plain(facts)
        );
    }
    text
}

fn impact(impact: Impact) -> &'static str {
    match impact {
        Impact::Safe => "safe",
        Impact::Review => "review",
        Impact::Breaking => "breaking",
    }
}

fn kind(kind: TrialKind) -> &'static str {
    match kind {
        TrialKind::Shadow => "shadow",
        TrialKind::Canary => "canary",
    }
}

pub(super) fn is_waiting(version: &ComponentVersion) -> bool {
    matches!(version.status, VersionStatus::Waiting { .. })
}

/// The beginning of a digest: enough for people to tell versions apart.
fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use agent_core::words::{ComponentFacts, ComponentRecord};

    use super::*;

    fn version(digest: &str, status: VersionStatus) -> ComponentVersion {
        ComponentVersion {
            digest: digest.to_owned(),
            source: VersionSource::Folder,
            proposed_at: 1,
            status,
            facts: ComponentFacts::default(),
        }
    }

    fn view(versions: Vec<ComponentVersion>) -> ComponentView {
        let record = ComponentRecord {
            active: Some("v1".into()),
            previous: vec!["bad".into(), "v0".into()],
            withdrawn: vec!["bad".into()],
            versions,
            ..ComponentRecord::default()
        };
        ComponentView {
            name: "echo".into(),
            revision: 7,
            record,
            serving: None,
            fault: None,
            described: None,
            counts: None,
        }
    }

    #[test]
    fn a_command_names_the_version_that_it_read() {
        let waits = |digest: &str| version(digest, VersionStatus::Waiting { because: vec![] });
        let approve = || AdminAction::Approve { digest: None, facts: None, serve: true };
        let one = view(vec![waits("v2")]);
        let named = with_version(approve(), &one).unwrap();
        assert_eq!(named, AdminAction::Approve { digest: Some("v2".into()), facts: None, serve: true });
        assert_eq!(describe_change(&named, &one), "echo at revision 7 serves v1; approving v2\n");
        // Another one was proposed after its operator looked.
        let refused = with_version(approve(), &view(vec![waits("v3"), waits("v2")])).unwrap_err().to_string();
        assert_eq!(
            refused,
            "2 versions of echo wait: name the one that you looked at with --digest, of v3, v2"
        );
        let anew = AdminAction::Approve { digest: Some("v1".into()), facts: Some("f".into()), serve: true };
        assert_eq!(
            describe_change(&anew, &one),
            "echo at revision 7 serves v1; approving v1 as it describes itself now, with facts f\n"
        );
        let back = with_version(AdminAction::Rollback(None), &one).unwrap();
        assert_eq!(back, AdminAction::Rollback(Some("v0".into())), "past the one that was withdrawn");
        assert_eq!(describe_change(&back, &one), "echo at revision 7 serves v1; rolling back to v0\n");
        assert_eq!(
            describe_change(&AdminAction::Disable, &one),
            "echo at revision 7 serves v1; disabling it\n"
        );
        assert_eq!(
            describe_change(&AdminAction::Promote(None), &one),
            "echo at revision 7 serves v1; promoting the version that is tried\n"
        );
    }
}
