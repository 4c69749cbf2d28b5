//! `agent-host runs tail`: a run as it goes on, from the store, which is asked again until the run has ended.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::time::Duration;

use agent_core::ports::RunStore;
use agent_core::terminal_text::shown_json;
use agent_core::words::{Event, RunOutcome, RunRecord};
use anyhow::{Context as _, bail};
use run_service::runs::TimelineTail;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::sleep;

use super::store;
use crate::cli::Exit;

/// How often the store is asked.
const PAUSE: Duration = Duration::from_millis(500);

/// How often the store may fail in a row.
const MOST_FAILURES: u32 = 20;

pub(super) async fn run(run_id: &str, json: bool) -> anyhow::Result<Exit> {
    let (runs, output) = (store::open().await?, io::stdout());
    let show = |text: &str| io::stdout().write_all(text.as_bytes());
    tokio::select! {
        tailed = tail(&*runs, run_id, json, show) => tailed?,
        () = left(&output) => {}
    }
    Ok(Exit::Success)
}

/// Resolves once nobody reads this output any more: the next write, which would find out, waits for the run.
async fn left(output: &impl AsFd) {
    while !is_closed(output) {
        sleep(PAUSE).await;
    }
}

/// Whether the other end of a pipe or a socket is closed. Errors and hang-ups are told without being asked
/// for. A file has no other end.
fn is_closed(output: &impl AsFd) -> bool {
    let mut asked = [PollFd::new(output, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Shows what there is, and goes on until the run has ended, or until the reader of that has seen enough.
async fn tail(
    runs: &dyn RunStore,
    run_id: &str,
    json: bool,
    show: impl FnMut(&str) -> io::Result<()>,
) -> anyhow::Result<()> {
    match follow(runs, run_id, json, show).await {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        followed => followed,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

async fn follow(
    runs: &dyn RunStore,
    run_id: &str,
    json: bool,
    mut show: impl FnMut(&str) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut timeline = TimelineTail::default();
    let (mut shown, mut failures) = (0_u64, 0);
    loop {
        let read = read(runs, run_id, shown).await;
        let (record, events) = match read {
            Ok(read) => read,
            Err(error) if failures + 1 >= MOST_FAILURES => return Err(error),
            Err(_) => {
                failures += 1;
                sleep(PAUSE).await;
                continue;
            }
        };
        failures = 0;
        let has_ended = record.as_ref().is_some_and(|record| record.outcome != RunOutcome::Running);
        if record.is_none() && events.is_empty() && shown == 0 {
            bail!("the store has no run {run_id:?}: it was never recorded, or is not recorded yet");
        }
        shown += events.len() as u64;
        if json {
            for event in &events {
                show(&(shown_json(&serde_json::to_string(event)?) + "\n"))?;
            }
        } else {
            show(&timeline.go_on(events))?;
        }
        if has_ended {
            if !json {
                show(&timeline.end(record.as_ref()))?;
            }
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

/// The record first, which is written last: with one of a run that has ended, the journal is whole.
async fn read(
    runs: &dyn RunStore,
    run_id: &str,
    from: u64,
) -> anyhow::Result<(Option<RunRecord>, Vec<Event>)> {
    let record =
        runs.find(run_id).await.with_context(|| format!("the record of {run_id:?} cannot be read"))?;
    let events =
        runs.read(run_id, from).await.with_context(|| format!("the journal of {run_id:?} cannot be read"))?;
    Ok((record, events))
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use agent_core::ports::{Epoch, Journal as _};
    use agent_core::testing::{TestRuns, record, says};
    use agent_core::words::StopReason;

    use super::*;

    fn ended() -> RunRecord {
        let ended = agent_core::testing::ended(StopReason::Completed);
        RunRecord { user_id: None, ..record("run_1", ended) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_shown_as_it_goes_on_until_it_has_ended_also_when_the_store_fails_for_a_while() {
        let (runs, shown) = (TestRuns::default(), Mutex::new(String::new()));
        runs.append("run_1", Epoch(1), 0, &[Event::from(says("one"))]).await.unwrap();
        let tailing = tail(&runs, "run_1", false, |text| {
            shown.lock().push_str(text);
            Ok(())
        });
        let going_on = async {
            sleep(PAUSE * 2).await;
            assert!(shown.lock().contains("\"one\""));
            runs.switch.fail(true);
            sleep(PAUSE * 3).await;
            runs.switch.fail(false);
            runs.append("run_1", Epoch(1), 1, &[Event::from(says("two"))]).await.unwrap();
            sleep(PAUSE * 2).await;
            assert!(!shown.lock().contains("completed; "));
            runs.save(&ended()).await.unwrap();
        };
        let (tailed, ()) = tokio::join!(tailing, going_on);
        tailed.unwrap();
        let shown = shown.lock();
        assert_eq!(shown.matches("\"one\"").count(), 1, "{shown}");
        assert!(shown.find("\"two\"") < shown.find("completed; "), "{shown}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_seen_enough_of_a_run_is_not_kept_until_its_end() {
        let (runs, mut lines) = (TestRuns::default(), 0);
        runs.append("run_1", Epoch(1), 0, &[Event::from(says("one")), Event::from(says("two"))])
            .await
            .unwrap();
        let tailing = tail(&runs, "run_1", true, |_| {
            lines += 1;
            if lines > 1 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        });
        tailing.await.unwrap();
        let full = tail(&runs, "run_1", true, |_| Err(io::ErrorKind::StorageFull.into())).await;
        assert!(full.is_err(), "that is none of the reader's wishes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_leaves_is_noticed_without_an_event() {
        let (reader, writer) = io::pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        assert!(!is_closed(&writer) && !is_closed(&file));
        let leaving = async {
            sleep(PAUSE * 3).await;
            drop(reader);
        };
        tokio::join!(left(&writer), leaving);
        assert!(is_closed(&writer) && !is_closed(&file));
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_is_not_there_and_a_store_that_stays_away_are_errors() {
        let runs = TestRuns::default();
        let error = tail(&runs, "run_1", true, |_| Ok(())).await.unwrap_err();
        assert!(error.to_string().contains("the store has no run \"run_1\""), "{error}");
        runs.switch.fail(true);
        let error = tail(&runs, "run_1", true, |_| Ok(())).await.unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}
