//! Versions that are tried beside the one that serves, and runs that are pinned to those that they began
//! with.

use std::sync::atomic::Ordering;
use std::time::Duration;

use agent_core::ports::{AdminAction, ToolSet, Toolbox};
use agent_core::words::{Principal, Thresholds, ToolOutcome, TrialKind, TrialState};
use serde_json::json;

use crate::fleet::{Fleet, answering, attempt, call_of, is_waiting, named, traps};
use crate::harness::call_on;
use crate::text::Text;

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_traps_is_withdrawn_by_itself_everywhere() {
    let fleet = Fleet::new(true);
    let one = fleet.approved_replica(&[("greet.wasm", &answering("1"))]).await;
    let two = fleet.replica(&[]).await;
    two.until(|host| host.names() == ["greet"]).await;
    let old = one.get("greet").await.record.active;
    // What would serve at once is held back by trying it first.
    let described = Text { tool: "greet", description: "Greets.", call: "unreachable", ..Text::default() };
    let bad = one.upload("greet", &described.component()).await;
    assert!(is_waiting(&bad));
    one.act("greet", AdminAction::Approve { digest: None, facts: None, serve: false }).await.unwrap();
    let tried = one.act("greet", attempt(TrialKind::Canary, 1.0, Thresholds::default())).await.unwrap();
    assert_eq!(tried.record.active, old);
    let caller = Principal::nobody();
    two.until(|host| {
        host.host.for_run(caller, "run_1").catalog().digest()
            != host.host.current_for(caller).catalog().digest()
    })
    .await;
    let tools = two.host.host.for_run(caller, "run_1");
    assert_eq!(call_of(&*tools, "run_1", "run_1-1").await.0, ToolOutcome::Trapped);
    assert_eq!(two.says().await, "1", "others notice nothing");
    for replica in [&one, &two] {
        replica
            .until(|host| {
                let of_run = host.host.for_run(caller, "run_1");
                of_run.catalog().digest() == host.host.current_for(caller).catalog().digest()
            })
            .await;
    }
    let ended = one.get("greet").await;
    let Some(TrialState::Failed { because, .. }) = ended.record.trial.map(|trial| trial.state) else {
        panic!("it has failed")
    };
    assert!(because[0].contains("trapped"), "{because:?}");
    assert_eq!(ended.record.active, old);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_holds_is_promoted() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    let first = one.get("greet").await.record.active;
    one.upload("greet", &answering("2")).await;
    one.act("greet", AdminAction::Rollback(first.clone())).await.unwrap();
    let thresholds = Thresholds { min_calls: 3, pass_after: 5, promote: true, ..Thresholds::default() };
    one.act("greet", attempt(TrialKind::Canary, 1.0, thresholds)).await.unwrap();
    let caller = Principal::nobody();
    for run in 0..200 {
        if one.get("greet").await.record.active != first {
            break;
        }
        let run_id = format!("run_{run}");
        let (current, canary) = (one.host.host.current_for(caller), one.host.host.for_run(caller, &run_id));
        call_of(&*current, &run_id, "a").await;
        call_of(&*canary, &run_id, "b").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    one.until(|host| host.list_digests() != [format!("greet@{}", first.clone().unwrap())]).await;
    assert_eq!(one.says().await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_is_compared_and_its_answers_reach_nobody() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    let first = one.get("greet").await.record.active;
    one.upload("greet", &answering("2")).await;
    one.act("greet", AdminAction::Rollback(first)).await.unwrap();
    let thresholds = Thresholds { min_calls: 2, ..Thresholds::default() };
    one.act("greet", attempt(TrialKind::Shadow, 1.0, thresholds)).await.unwrap();
    let caller = Principal::nobody();
    let failed = async {
        let mut call = 0;
        loop {
            call += 1;
            let tools = one.host.host.for_run(caller, "run_1");
            assert_eq!(call_of(&*tools, "run_1", &format!("call-{call}")).await.1, "1");
            let state = one.get("greet").await.record.trial.unwrap().state;
            if let TrialState::Failed { because, .. } = state {
                return because;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let because = tokio::time::timeout(Duration::from_secs(60), failed).await.expect("it fails");
    assert_eq!(because.len(), 1, "{because:?}");
    let counts = one.get("greet").await.counts.unwrap();
    assert!(counts.new.compared >= 2 && counts.new.agreed == 0, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_taken_up_has_the_versions_that_it_began_with() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1")), ("other.wasm", &named("other"))]).await;
    let caller = Principal::nobody();
    let pins = one.host.host.for_run(caller, "run_1").versions();
    one.upload("greet", &answering("2")).await;
    one.upload("new", &named("new")).await;
    one.act("other", AdminAction::Disable).await.unwrap();
    assert_eq!(one.host.names(), ["greet", "new"]);
    let pinned = one.host.host.pinned(caller, "run_1", &pins).await;
    let names = |set: &dyn ToolSet| -> Vec<String> {
        set.catalog().tools().iter().map(|tool| tool.name.clone()).collect()
    };
    assert_eq!(names(&*pinned), ["greet"], "what was taken away is gone, and what is new it does not have");
    assert_eq!(call_on(&*pinned, "greet", json!({})).await.content, "1");
    // Another process finds the version in the store.
    let two = fleet.replica(&[]).await;
    let pinned = two.host.host.pinned(caller, "run_1", &pins).await;
    assert_eq!(call_on(&*pinned, "greet", json!({})).await.content, "1");
    // One that is gone is no reason not to go on.
    for digest in pins.values() {
        fleet.store.lose(digest);
    }
    let three = fleet.replica(&[]).await;
    let pinned = three.host.host.pinned(caller, "run_1", &pins).await;
    assert_eq!(call_on(&*pinned, "greet", json!({})).await.content, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trapping_component_says_nothing_of_others() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &traps()), ("other.wasm", &named("other"))]).await;
    assert_eq!(one.host.call("greet", json!({})).await.receipt.outcome, ToolOutcome::Trapped);
    assert_eq!(one.host.call("other", json!({})).await.receipt.outcome, ToolOutcome::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_whose_version_cannot_be_loaded_fails_also_where_that_is_not_written_down_at_once() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    let first = one.get("greet").await.record.active;
    one.upload("greet", &answering("2")).await;
    one.act("greet", AdminAction::Rollback(first)).await.unwrap();
    let tried = one.act("greet", attempt(TrialKind::Canary, 1.0, Thresholds::default())).await.unwrap();
    drop(one.stop());
    fleet.store.lose(&tried.record.trial.unwrap().digest);
    fleet.store.writes.fail(true);
    let asked = || fleet.store.records_asked.load(Ordering::SeqCst);
    let before = asked();
    // Another machine, which has no copy of it. The record is read before it is written, so at the second
    // reading a write has failed.
    let two = fleet.replica(&[]).await;
    two.until(|_| asked() >= before + 2).await;
    fleet.store.writes.fail(false);
    let failed = async {
        while !matches!(two.get("greet").await.record.trial.unwrap().state, TrialState::Failed { .. }) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), failed).await.expect("its failure is written in the end");
}
