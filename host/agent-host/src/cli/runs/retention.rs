//! `agent-host runs sweep` and `agent-host runs forget`: remove what has ended, after saying how much that
//! is.

use parking_lot::Mutex;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

use agent_core::ports::{Observer, RetainedKind};
use anyhow::{Context as _, bail};
use clap::Args;
use run_service::retention::{SweepError, Sweeper};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::cli::Exit;
use crate::cli::progress_bar::ProgressBar;
use crate::composition;
use crate::config::{ProcessEnv, Retention, Stores};
use host_setup::output::print;

#[derive(Debug, Clone, Copy, Args)]
pub(in crate::cli) struct Arguments {
    /// Remove without asking
    #[arg(long)]
    yes: bool,
    /// Print what was removed as JSON
    #[arg(long)]
    json: bool,
}

/// How much there is of each kind.
type Counts = Vec<(RetainedKind, u64)>;

/// Shows how much of what is to go is gone.
#[derive(Default)]
struct Progress(Mutex<Option<Removal>>);

struct Removal {
    bar: ProgressBar,
    removed: u64,
    total: u64,
}

impl Progress {
    fn begin(&self, counts: &[(RetainedKind, u64)]) {
        let total = counts.iter().map(|(_, count)| count).sum();
        let bar = ProgressBar::start("removing", |count| count.to_string());
        *self.0.lock() = Some(Removal { bar, removed: 0, total });
    }

    fn end(&self) {
        *self.0.lock() = None;
    }
}

impl Observer for Progress {
    fn swept(&self, _kind: RetainedKind, removed: u64) {
        if let Some(removal) = &mut *self.0.lock() {
            removal.removed += removed;
            removal.bar.show(removal.removed, removal.total.max(removal.removed));
        }
    }
}

pub(super) async fn sweep(options: Arguments) -> anyhow::Result<Exit> {
    let config = Retention::from_vars(&ProcessEnv)?;
    let progress = Arc::new(Progress::default());
    let sweeper = open(config, progress.clone()).await?;
    let counts = sweeper.count().await.context("what has ended cannot be counted")?;
    if !may_remove(&counts, "is older than it is to be kept", options)? {
        return Ok(Exit::Failure);
    }
    progress.begin(&counts);
    let removed = if is_nothing(&counts) { Ok(counts) } else { sweeper.sweep_now().await };
    progress.end();
    report(removed, options)
}

pub(super) async fn forget(user_id: &str, options: Arguments) -> anyhow::Result<Exit> {
    if user_id.is_empty() {
        bail!("--user is empty: name a user's id, as tokens have it");
    }
    // What is older than it is to be kept is the user's as well.
    let progress = Arc::new(Progress::default());
    let unbounded = Retention { jobs: Default::default(), runs: Default::default() };
    let sweeper = open(unbounded, progress.clone()).await?;
    let owned = sweeper.owned_by(user_id).await.context("what the user has cannot be looked for")?;
    let counts: Counts = owned.into_iter().map(|(kind, ids)| (kind, ids.len() as u64)).collect();
    if !may_remove(&counts, "is this user's", options)? {
        return Ok(Exit::Failure);
    }
    progress.begin(&counts);
    let removed = if is_nothing(&counts) { Ok(counts) } else { sweeper.forget(user_id).await };
    progress.end();
    report(removed, options)
}

async fn open(config: Retention, progress: Arc<Progress>) -> anyhow::Result<Sweeper> {
    let stores = Stores::from_vars(&ProcessEnv)?;
    if stores.database.is_none() && stores.mongodb.is_none() {
        bail!(
            "neither MONGODB_URL nor DATABASE_URL is set, so there is no store to remove runs from: set those that the \
             service has, and REDIS_URL"
        );
    }
    let opened = composition::open_existing_stores(&stores).await?;
    let name = format!("command line#{}", Uuid::now_v7().simple());
    Ok(composition::open_sweeper(config, stores.key_value.as_ref(), &opened, name, progress)?)
}

/// Says on standard error what would go, and asks whether it may, unless that was said or there is nothing.
fn may_remove(counts: &[(RetainedKind, u64)], which: &str, options: Arguments) -> anyhow::Result<bool> {
    if is_nothing(counts) {
        writeln!(io::stderr(), "Nothing has ended that {which}.")?;
        return Ok(true);
    }
    writeln!(io::stderr(), "What has ended and {which}: {}.", said(counts))?;
    if options.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        let problem = "Nothing was removed: run it again with --yes to remove that.";
        if options.json {
            print(&(json!({ "wouldRemove": as_json(counts) }).to_string() + "\n"))?;
            writeln!(io::stderr(), "{}", json!({ "error": problem }))?;
        } else {
            writeln!(io::stderr(), "{problem}")?;
        }
        return Ok(false);
    }
    write!(io::stderr(), "Remove it for good? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("the answer cannot be read")?;
    let is_yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if !is_yes {
        writeln!(io::stderr(), "Nothing was removed.")?;
    }
    Ok(is_yes)
}

fn report(removed: Result<Counts, SweepError>, options: Arguments) -> anyhow::Result<Exit> {
    let removed =
        removed.context("not everything was removed; what was not is still there and can be tried again")?;
    if options.json {
        print(&(json!({ "removed": as_json(&removed) }).to_string() + "\n"))?;
    } else {
        print(&format!("Removed {}.\n", said(&removed)))?;
    }
    Ok(Exit::Success)
}

fn as_json(counts: &[(RetainedKind, u64)]) -> Map<String, Value> {
    counts.iter().map(|(kind, count)| (kind.as_str().to_owned(), json!(count))).collect()
}

fn is_nothing(counts: &[(RetainedKind, u64)]) -> bool {
    counts.iter().all(|(_, count)| *count == 0)
}

/// `2 jobs, 3 runs`.
fn said(counts: &[(RetainedKind, u64)]) -> String {
    counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_said_in_words() {
        let counts = [(RetainedKind::Jobs, 2), (RetainedKind::Runs, 0), (RetainedKind::ToolAudit, 1)];
        assert_eq!(said(&counts), "2 jobs, 0 runs, 1 lines of the audit trail of tools");
        assert!(!is_nothing(&counts));
        assert!(is_nothing(&[(RetainedKind::Runs, 0)]));
    }
}
