//! `agent-host runs show`: what a run did, from the store where runs are kept.

use agent_core::ports::RunStore;
use agent_core::runs::timeline;
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::json;

use super::Exit;
use super::tools::print;
use crate::config::{ProcessEnv, Stores};
use crate::wire;

/// Reads runs.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what a run did: every model call and tool call, what it cost and what it reached
    ///
    /// Reads the store that MONGODB_URL names, or DATABASE_URL; the service may be running or not. What people, models
    /// and tools wrote is cut; --json has all that is kept.
    Show {
        /// Its id, run_…: it stands in results and in the log
        run_id: String,
        /// Print the record and the events as they are kept, as JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let Command::Show { run_id, json } = arguments.command;
    // There is one TLS backend in this process; only a second call could fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let opened = wire::open_stores(&Stores::from_vars(&ProcessEnv)?).await?;
    let Some(runs) = opened.runs else {
        bail!(
            "neither MONGODB_URL nor DATABASE_URL is set, so there is no store to read runs from: set the one that the \
             service has (agent-host dev has sqlite://target/dev.db in the repository and sqlite://dev.db elsewhere)"
        );
    };
    print(&show(&*runs.store, &run_id, json).await?)?;
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
        serde_json::to_string_pretty(&json!({ "record": record, "events": events }))? + "\n"
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
