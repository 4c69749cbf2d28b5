//! Runs outlive their readers, and every reader reads the same.

use std::time::Duration;

use agent_core::ports::{Epoch, Model, Unobserved};
use agent_core::testing::{EchoTools, ScriptedModel, TestRuns, TokioSpawn, asks_for, says};
use agent_core::words::{Event, Limits, StopReason};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;

use super::*;
use crate::journal::{Backlog, NotifyingJournal, WriteBehind};
use crate::layers::{Agent, InvokeError, Recorded};
use crate::testing::ScriptedInvoke;

/// Runs of an agent whose tools hang or answer, and the store behind them.
fn runs(tools: EchoTools) -> (Runs, Arc<TestRuns>) {
    let store = Arc::new(TestRuns::default());
    let (behind, flusher) = WriteBehind::new(store.clone(), Backlog::default(), Arc::new(Unobserved));
    let flush = async move { flusher.run(tokio_util::sync::CancellationToken::new()).await };
    TokioSpawn.spawn("flusher", flush.boxed());
    let journal: Arc<dyn Journal> = Arc::new(NotifyingJournal::new(Arc::new(behind.clone())));
    let script = [Ok(asks_for(&[("1", "echo", json!({}))])), Ok(says("done"))];
    let agent = Agent {
        model: Arc::new(ScriptedModel::new(script)) as Arc<dyn Model>,
        toolbox: Arc::new(tools),
        journal: journal.clone(),
        limits: Limits::default(),
        instructions: None,
    };
    (Runs::new(Arc::new(Recorded::new(agent, behind)), journal, Arc::new(TokioSpawn)), store)
}

fn ask() -> Ask {
    Ask::new("req-1".into(), "hi".into())
}

#[tokio::test(start_paused = true)]
async fn readers_that_come_at_any_time_read_the_same_run() {
    let (runs, _store) = runs(EchoTools::new(&["echo"]));
    let run = runs.start(ask());
    let (early, late) = (run.events(0), runs.attach(run.id()).unwrap());
    let early: Vec<_> = early.try_collect().await.unwrap();
    assert_eq!(early.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(matches!(early[0].1, Event::Started { .. }) && matches!(early[3].1, Event::ModelReplied { .. }));
    for from in 0..5 {
        let read: Vec<_> = late.events(from).try_collect().await.unwrap();
        assert_eq!(read, early[usize::try_from(from).unwrap().min(4)..], "from {from}");
    }
    let (first, second) = (run.result().await.unwrap(), late.result().await.unwrap());
    assert_eq!((first.result.output.as_str(), &first.result), ("done", &second.result));
    assert!(runs.attach(run.id()).is_none() && runs.under_way() == 0, "it is over");
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_without_readers_and_ends_with_a_caller_that_owns_it() {
    let (going_on, store) = runs(EchoTools::new(&["echo"]));
    drop(going_on.start(ask()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((going_on.under_way(), store.records().len()), (0, 1));

    let (hanging, store) = runs(EchoTools::new(&["echo"]).hanging());
    let second = Duration::from_secs(1);
    assert!(tokio::time::timeout(second, hanging.invoke(ask())).await.is_err());
    tokio::time::sleep(second).await;
    assert_eq!(hanging.under_way(), 0);
    let records = store.records();
    assert!(format!("{:?}", records[0].outcome).contains("nobody waited for it any more"), "{records:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_ends_with_a_result_that_says_so() {
    let (runs, _store) = runs(EchoTools::new(&["echo"]).hanging());
    let run = runs.start(ask());
    let mut events = std::pin::pin!(run.events(0));
    while !matches!(events.next().await, Some(Ok((_, Event::ModelReplied { .. })))) {}
    run.cancel();
    assert_eq!(run.result().await.unwrap().result.stop_reason, StopReason::Cancelled);
    let rest: Vec<_> = events.try_collect().await.unwrap();
    assert_eq!(rest.last().map(|(_, event)| event), Some(&Event::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_panics_fails_for_all_of_its_readers() {
    struct Panicking;
    #[async_trait]
    impl Invoke for Panicking {
        async fn invoke(&self, _ask: Ask) -> Outcome {
            tokio::task::yield_now().await;
            panic!("a bug")
        }
    }
    let journal = Arc::new(TestRuns::default());
    let runs = Runs::new(Arc::new(Panicking), journal, Arc::new(TokioSpawn));
    let run = runs.start(ask());
    let (first, second) = tokio::join!(run.result(), run.result());
    for outcome in [first, second] {
        assert!(matches!(outcome, Err(InvokeError::Run(RunError::Panicked))), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_told_when_the_journal_fails_or_the_owner_is_gone() {
    let journal = Arc::new(TestRuns::default());
    journal.append("run_x", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
    journal.switch.fail(true);
    let runs = Runs::new(Arc::new(ScriptedInvoke::hanging()), journal, Arc::new(TokioSpawn));
    let run = runs.start(ask());
    let read: Vec<_> = run.events(0).collect().await;
    assert!(matches!(read[..], [Err(_)]), "{read:?}");

    let ask = ask();
    let id = ask.run_id.clone();
    let mut owner = runs.invoke(ask);
    assert!((&mut owner).now_or_never().is_none());
    let reader = runs.attach(&id).unwrap();
    drop(owner);
    assert!(matches!(reader.result().await, Err(InvokeError::Run(RunError::Stopped))));
    assert!(runs.attach(&id).is_none());
}
