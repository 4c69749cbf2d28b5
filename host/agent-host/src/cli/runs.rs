//! `agent-host runs`: which runs there are and what they did, from the store where runs are kept, and
//! removing old ones.

mod list;
mod retention;
mod store;
mod tail;

use agent_core::ports::RunStore;
use anyhow::{Context as _, bail};
use clap::Subcommand;
use host_setup::output::{json_text, print};
use host_setup::program::install_tls;
use run_service::runs::timeline;
use serde_json::json;

use super::Exit;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print what a run did: every model call and tool call, what it cost and what it reached
    ///
    /// Reads the store that MONGODB_URL names, or DATABASE_URL; the service may be running or not. What
    /// people, models and tools wrote is cut; --json has all that is kept.
    Show {
        /// Its id, run_…: it stands in results and in the log
        run_id: String,
        /// Print the record and the events as they are kept, as JSON
        #[arg(long)]
        json: bool,
    },
    /// List runs, the one that ended last first
    ///
    /// Reads the store that MONGODB_URL names, or DATABASE_URL. A run that is streamed is among them while it
    /// is under way; others are once they have ended.
    List(list::Arguments),
    /// Print what a run does while it does it, until it has ended
    ///
    /// As show does, from the same store, which is asked again twice a second.
    Tail {
        /// Its id, run_…: the header content-location of a stream, a job and the log have it
        run_id: String,
        /// Print its events as they are kept, a line of JSON each
        #[arg(long)]
        json: bool,
    },
    /// Remove what has ended and is older than JOBS_RETENTION_DAYS and RUNS_RETENTION_DAYS say, or beyond the
    /// counts
    ///
    /// Does now what the service does about once an hour: jobs, runs with their journals and HTTP recordings,
    /// and the audit trail of tools, from the stores that DATABASE_URL, MONGODB_URL and REDIS_URL name. Says
    /// first what would go, and asks. The service may be running or not. What has not ended stays.
    Sweep(retention::Arguments),
    /// Remove everything of a user that has ended: runs, journals, conversations, HTTP recordings and jobs
    ///
    /// However new it is. Says first how much that is, and asks. What has not ended stays: cancel the user's
    /// jobs before. What tools keep for the user, cached answers (for an hour), answers under idempotency
    /// keys (for a day), where webhooks went (for a week), logs, traces and backups are not touched.
    Forget {
        /// The user's id, as tokens have it
        #[arg(long)]
        user: String,
        #[command(flatten)]
        options: retention::Arguments,
    },
}

pub(super) async fn run(command: Command) -> anyhow::Result<Exit> {
    install_tls();
    match command {
        Command::Show { run_id, json } => show_kept(&run_id, json).await,
        Command::List(arguments) => list::run(&arguments).await,
        Command::Tail { run_id, json } => tail::run(&run_id, json).await,
        Command::Sweep(options) => retention::sweep(options).await,
        Command::Forget { user, options } => retention::forget(&user, options).await,
    }
}

async fn show_kept(run_id: &str, json: bool) -> anyhow::Result<Exit> {
    print(&show(&*store::open().await?, run_id, json).await?)?;
    Ok(Exit::Success)
}

async fn show(store: &dyn RunStore, run_id: &str, as_json: bool) -> anyhow::Result<String> {
    // First the record, which is written last: with one, the journal is whole.
    let record =
        store.find(run_id).await.with_context(|| format!("the record of {run_id:?} cannot be read"))?;
    let events =
        store.read(run_id, 0).await.with_context(|| format!("the journal of {run_id:?} cannot be read"))?;
    if record.is_none() && events.is_empty() {
        bail!("the store has no run {run_id:?}: it was never recorded, or is not recorded yet");
    }
    Ok(if as_json {
        let record = record.as_ref().map(list::record_as_json).transpose()?;
        json_text(&json!({ "record": record, "events": events }))?
    } else {
        timeline(&events, record.as_ref())
    })
}

#[cfg(test)]
mod tests {
    use agent_core::ports::{Epoch, Journal as _};
    use agent_core::testing::TestRuns;
    use agent_core::words::Event;

    use super::*;

    #[tokio::test]
    async fn a_run_is_shown_as_text_or_as_json_and_an_unknown_one_is_an_error() {
        let store = TestRuns::default();
        store.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
        let text = show(&store, "run_1", false).await.unwrap();
        assert!(text.contains("cancelled"), "{text}");
        let text = show(&store, "run_1", true).await.unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value, json!({ "record": null, "events": [{ "event": "cancelled" }] }));
        let error = show(&store, "run_2", false).await.unwrap_err();
        assert!(error.to_string().contains("the store has no run \"run_2\""), "{error}");
        store.switch.fail(true);
        let error = show(&store, "run_1", false).await.unwrap_err();
        assert!(error.to_string().contains("the record of \"run_1\" cannot be read"), "{error}");
    }
}
