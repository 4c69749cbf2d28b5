//! `agent-host runs list`: records of runs as a table, or as JSON.

use std::fmt::Write as _;

use agent_core::ports::RunStore;
use agent_core::terminal_text::shown;
use agent_core::words::{RunOutcome, RunQuery, RunRecord};
use anyhow::{Context as _, bail};
use clap::Args;
use run_service::runs::moment;
use serde_json::Value;

use super::store;
use crate::cli::Exit;
use host_setup::output::{json_line, print};

/// Most characters of a user's id in the table.
const USER_CHARS: usize = 32;

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// Only the runs of this user, by the id that tokens have
    #[arg(long)]
    user: Option<String>,
    /// How many at most
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Go on after this run: the last one of the list before
    #[arg(long, value_name = "RUN_ID")]
    after: Option<String>,
    /// Print the records, a line of JSON each
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let records = find(&*store::open().await?, arguments).await?;
    print(&if arguments.json { lines(&records)? } else { table(&records) })?;
    Ok(Exit::Success)
}

async fn find(runs: &dyn RunStore, arguments: &Arguments) -> anyhow::Result<Vec<RunRecord>> {
    let last = match &arguments.after {
        None => None,
        Some(id) => {
            match runs.find(id).await.with_context(|| format!("the record of {id:?} cannot be read"))? {
                None => bail!("the store has no record of {id:?}, so it is not known what comes after it"),
                found => found,
            }
        }
    };
    let wanted = RunQuery {
        user_id: arguments.user.as_deref(),
        limit: arguments.limit,
        after: last.as_ref().map(|last| (last.finished_at, &*last.id)),
    };
    runs.list(&wanted).await.context("the records cannot be read")
}

fn lines(records: &[RunRecord]) -> anyhow::Result<String> {
    let mut text = String::new();
    for record in records {
        text.push_str(&json_line(&record_as_json(record)?));
    }
    Ok(text)
}

/// A record for programs: as it is kept, with its times as all other JSON has them. A run that a job goes on
/// with has no `finishedAt`.
pub(super) fn record_as_json(record: &RunRecord) -> serde_json::Result<Value> {
    let mut json = serde_json::to_value(record)?;
    json["startedAt"] = moment(record.started_at).into();
    match record.last_seen() {
        Some(end) => json["finishedAt"] = moment(end).into(),
        None => drop(json.as_object_mut().and_then(|fields| fields.remove("finishedAt"))),
    }
    Ok(json)
}

fn table(records: &[RunRecord]) -> String {
    if records.is_empty() {
        return "No runs are recorded.\n".to_owned();
    }
    let mut text = String::new();
    for record in records {
        let RunRecord { id, user_id, job_id, started_at, outcome, .. } = record;
        let took =
            record.took().map_or_else(|| "-".to_owned(), |took| format!("{:.3} s", took.as_secs_f64()));
        let user = user_id.as_deref().map_or_else(|| "-".to_owned(), |id| shown(id, USER_CHARS));
        let job = job_id.as_deref().map(|id| format!(" job {}", shown(id, USER_CHARS)));
        let (what, id) = (came_to(outcome), shown(id, 2 * USER_CHARS));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{id:<36} {} {took:>10}  {what:<28} {user}{}",
            moment(*started_at),
            job.unwrap_or_default()
        );
    }
    text
}

fn came_to(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Running => "under way".to_owned(),
        RunOutcome::Ended { stop_reason, usage, .. } => {
            format!("{}, {} tokens", stop_reason.as_str(), usage.total())
        }
        RunOutcome::Failed { usage, .. } => format!("failed, {} tokens", usage.total()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use agent_core::testing::TestRuns;
    use agent_core::words::Usage;

    use super::*;

    fn arguments(after: Option<&str>) -> Arguments {
        Arguments { user: None, limit: 2, after: after.map(str::to_owned), json: false }
    }

    fn record(id: &str, user: &str, ended: u64) -> RunRecord {
        RunRecord {
            user_id: Some(user.into()),
            finished_at: UNIX_EPOCH + Duration::from_millis(ended),
            ..agent_core::testing::record(
                id,
                RunOutcome::Failed {
                    error: "it broke".into(),
                    iterations: 1,
                    usage: Usage::of(1, 2),
                    kind: Default::default(),
                },
            )
        }
    }

    #[tokio::test]
    async fn runs_are_listed_page_by_page_and_play_no_tricks_on_a_terminal() {
        let runs = TestRuns::default();
        for record in
            [record("run_1", "u1", 1_500), record("run_2", "\u{1b}[2J", 2_000), record("run_3", "u1", 900)]
        {
            runs.save(&record).await.unwrap();
        }
        let page = find(&runs, &arguments(None)).await.unwrap();
        let text = table(&page);
        assert!(!text.contains('\u{1b}'), "{text:?}");
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("run_2 ") && first.contains("failed, 3 tokens"), "{text}");
        assert!(text.lines().nth(1).unwrap().contains("   1.500 s"), "{text}");
        let next = find(&runs, &arguments(Some("run_1"))).await.unwrap();
        assert_eq!(next.iter().map(|record| &*record.id).collect::<Vec<_>>(), ["run_3"]);
        let json: Value = serde_json::from_str(&lines(&next).unwrap()).unwrap();
        assert_eq!(json["finishedAt"], "1970-01-01T00:00:00.900Z");
        let error = find(&runs, &arguments(Some("run_9"))).await.unwrap_err();
        assert!(error.to_string().contains("no record of \"run_9\""), "{error}");
        assert_eq!(table(&[]), "No runs are recorded.\n");
    }

    #[test]
    fn a_run_that_waits_for_somebody_took_no_time_yet_and_has_no_end() {
        let (job_id, outcome) = (Some("j1".to_owned()), RunOutcome::Running);
        let parked = RunRecord { job_id, outcome, ..record("run_1", "u1", 86_400_005) };
        let text = table(std::slice::from_ref(&parked));
        assert!(text.contains("  -  under way") && !text.contains("86400"), "{text}");
        let json = record_as_json(&parked).unwrap();
        assert!(json.get("finishedAt").is_none() && json["startedAt"].is_string(), "{json}");
        let streamed = RunRecord { job_id: None, ..parked };
        assert_eq!(record_as_json(&streamed).unwrap()["finishedAt"], "1970-01-02T00:00:00.005Z");
    }
}
