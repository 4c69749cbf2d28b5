//! Runs outlive their readers, and every reader reads the same.

use std::time::Duration;

use agent_core::ports::{Journal, Model, Unobserved};
use agent_core::testing::{EchoTools, ScriptedModel, TestRuns, TokioSpawn, asks_for, says};
use agent_core::words::{Event, StopReason};
use serde_json::json;

use super::*;
use crate::journal::{Backlog, WriteBehind};
use crate::layers::{Agent, InvokeError, Recorded};
use crate::testing::ScriptedInvoke;

/// Runs of an agent whose tools hang or answer, and the store behind them.
fn runs(tools: EchoTools) -> (Runs, Arc<TestRuns>) {
    let store = Arc::new(TestRuns::default());
    let (behind, flusher) = WriteBehind::new(store.clone(), Backlog::default(), Arc::new(Unobserved));
    let flush = async move { flusher.run(tokio_util::sync::CancellationToken::new()).await };
    TokioSpawn.spawn("flusher", flush.boxed());
    let journal: Arc<dyn Journal> = Arc::new(behind.clone());
    let script = [Ok(asks_for(&[("1", "echo", json!({}))])), Ok(says("done"))];
    let agent = Agent::new(Arc::new(ScriptedModel::new(script)) as Arc<dyn Model>, Arc::new(tools), journal);
    (Runs::new(Arc::new(Recorded::new(agent, behind)), Arc::new(TokioSpawn)), store)
}

fn ask() -> Ask {
    Ask::new("req-1".into(), "hi".into())
}

#[tokio::test(start_paused = true)]
async fn readers_that_come_at_any_time_are_told_the_same_result() {
    let (runs, _store) = runs(EchoTools::new(&["echo"]));
    let ask = ask();
    let id = ask.run_id.clone();
    let run = runs.start(ask);
    let late = runs.attach(&id).unwrap();
    let (first, second) = (run.result().await.unwrap(), late.result().await.unwrap());
    assert_eq!((first.result.output.as_str(), &first.result), ("done", &second.result));
    assert!(runs.attach(&id).is_none() && runs.under_way() == 0, "it is over");
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
async fn a_run_that_is_made_once_more_can_be_attached_to_when_the_first_one_ends() {
    let runs = Runs::new(Arc::new(ScriptedInvoke::hanging()), Arc::new(TokioSpawn));
    let ask = || Ask { run_id: "run_1".into(), ..ask() };
    let (first, second) = (runs.start(ask()), runs.start(ask()));
    first.cancel();
    first.result().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    runs.attach("run_1").expect("the second one goes on").cancel();
    second.result().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(runs.under_way(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_ends_with_a_result_that_says_so() {
    let (runs, store) = runs(EchoTools::new(&["echo"]).hanging());
    let ask = ask();
    let id = ask.run_id.clone();
    let run = runs.start(ask);
    let second = Duration::from_secs(1);
    tokio::time::sleep(second).await;
    run.cancel();
    assert_eq!(run.result().await.unwrap().result.stop_reason, StopReason::Cancelled);
    tokio::time::sleep(second).await;
    let events = store.events(&id);
    assert!(matches!(events[..], [_, Event::ModelReplied { .. }, Event::Cancelled]), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_panics_fails_for_all_of_its_readers() {
    struct Panicking;
    #[boxed_async]
    impl Invoke for Panicking {
        async fn invoke(&self, _ask: Ask) -> InvokeResult {
            tokio::task::yield_now().await;
            panic!("a bug")
        }
    }
    let runs = Runs::new(Arc::new(Panicking), Arc::new(TokioSpawn));
    let run = runs.start(ask());
    let (first, second) = tokio::join!(run.result(), run.result());
    for outcome in [first, second] {
        assert!(matches!(outcome, Err(InvokeError::Run(RunError::Panicked))), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_told_when_the_owner_is_gone() {
    let runs = Runs::new(Arc::new(ScriptedInvoke::hanging()), Arc::new(TokioSpawn));
    let ask = ask();
    let id = ask.run_id.clone();
    let mut owner = runs.invoke(ask);
    assert!((&mut owner).now_or_never().is_none());
    let reader = runs.attach(&id).unwrap();
    drop(owner);
    assert!(matches!(reader.result().await, Err(InvokeError::Run(RunError::Stopped))));
    assert!(runs.attach(&id).is_none());
}
