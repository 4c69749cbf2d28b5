//! Versions that are tried beside the one that serves, and runs that are pinned to those that they began
//! with.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent_core::ports::{AdminAction, ToolAdmin, ToolSet, Toolbox};
use agent_core::words::{Principal, Thresholds, ToolOutcome, TrialKind};
use serde_json::json;
use tempfile::TempDir;
use test_servers::eventually;

use crate::fleet::{
    Fleet, Replica, answering, attempt, call_of, failure, is_canary, is_waiting, named, traps,
};
use crate::harness::{
    COMPILE, Host, Seen, call_as, call_on, compile_by_shell, config, entry, killed, limits, put,
};
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
    two.until(is_canary).await;
    let tools = two.host.host.for_run(caller, "run_1");
    assert_eq!(call_of(&*tools, "run_1", "run_1-1").await.0, ToolOutcome::Trapped);
    assert_eq!(two.says().await, "1", "others notice nothing");
    for replica in [&one, &two] {
        replica.until(|host| !is_canary(host)).await;
    }
    let ended = one.get("greet").await;
    let because = failure(&ended).expect("it has failed");
    assert!(because[0].contains("trapped"), "{because:?}");
    assert_eq!(ended.record.active, old);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_holds_is_promoted() {
    let (one, first) = Fleet::new(false).rolled_back(&answering("1"), &answering("2")).await;
    let thresholds = Thresholds { min_calls: 3, pass_after: 5, promote: true, ..Thresholds::default() };
    one.act("greet", attempt(TrialKind::Canary, 1.0, thresholds)).await.unwrap();
    let caller = Principal::nobody();
    for run in 0..200 {
        if one.get("greet").await.record.active.as_ref() != Some(&first) {
            break;
        }
        let run_id = format!("run_{run}");
        let (current, canary) = (one.host.host.current_for(caller), one.host.host.for_run(caller, &run_id));
        call_of(&*current, &run_id, "a").await;
        call_of(&*canary, &run_id, "b").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    one.until(|host| host.list_digests() != [format!("greet@{first}")]).await;
    assert_eq!(one.says().await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_is_compared_and_its_answers_reach_nobody() {
    let (one, _) = Fleet::new(false).rolled_back(&answering("1"), &answering("2")).await;
    let thresholds = Thresholds { min_calls: 2, ..Thresholds::default() };
    one.act("greet", attempt(TrialKind::Shadow, 1.0, thresholds)).await.unwrap();
    let caller = Principal::nobody();
    let mut call = 0;
    let because = eventually("the trial to fail", async || {
        call += 1;
        let tools = one.host.host.for_run(caller, "run_1");
        assert_eq!(call_of(&*tools, "run_1", &format!("call-{call}")).await.1, "1");
        failure(&one.get("greet").await)
    })
    .await;
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
    let (one, _) = fleet.rolled_back(&answering("1"), &answering("2")).await;
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
    two.until_failed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_whose_compiler_is_killed_fails_after_three_attempts() {
    let fleet = Fleet::new(false);
    let (one, _) = fleet.rolled_back(&answering("1"), &answering("2")).await;
    one.act("greet", attempt(TrialKind::Canary, 1.0, Thresholds::default())).await.unwrap();
    drop(one.stop());
    let (tools, cache, other) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (serving, attempts) = (other.path().join("serving"), other.path().join("attempts"));
    std::fs::write(&serving, answering("1")).unwrap();
    let seen = Arc::new(Seen::default());
    let mut config = config(tools.path(), limits(), seen.clone());
    config.cache = Some(cache.path().to_owned());
    config.versions = Some(fleet.store.clone());
    compile_by_shell(&mut config.compiler, &serving, COMPILE, &killed(&attempts));
    let host = Host::begin(config, tools, seen).await;
    let failed = async || failure(&host.host.get("greet").await.unwrap());
    let because = tokio::select! {
        () = host.host.watch() => unreachable!("following never ends"),
        because = eventually("the trial to fail", failed) => because,
    };
    assert!(because[0].starts_with("it cannot be loaded: was not compiled"), "{because:?}");
    assert_eq!(std::fs::read_to_string(attempts).unwrap(), ".\n".repeat(3));
}

fn of_beta() -> Principal {
    Principal { role: Some("beta".into()), ..Principal::user("ben") }
}

/// A replica on which a version of `greet` is tried that the policy has for the role `beta` only, with the
/// folder of the policy and the digest of the version that serves, which is for everybody.
async fn trying_for_beta(kind: TrialKind) -> (Replica, TempDir, String) {
    let old = answering("1");
    let new = Text { tool: "greet", description: "Greets.", value: "1", ..Text::default() }.component();
    let lines = entry("greet", &old, "") + &entry("greet", &new, "roles = [\"beta\"]");
    let (fleet, folder) = Fleet::under(false, &lines);
    let (one, first) = fleet.rolled_back(&old, &new).await;
    one.act("greet", attempt(kind, 1.0, Thresholds::default())).await.unwrap();
    (one, folder, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_whose_tool_another_component_has_is_a_fault_until_that_one_is_gone() {
    let newer = Text { tool: "other", value: "2", ..Text::default() }.component();
    let (one, first) = Fleet::new(false).rolled_back(&answering("1"), &newer).await;
    one.upload("other", &named("other")).await;
    one.act("greet", attempt(TrialKind::Canary, 1.0, Thresholds::default())).await.unwrap();
    one.until(|host| !host.host.faults().is_empty()).await;
    let fault = one.get("greet").await.fault.unwrap();
    assert!(fault.contains("serves no run") && fault.contains("other.wasm"), "{fault}");
    let caller = Principal::nobody();
    assert_eq!(one.host.host.for_run(caller, "run_1").versions().get("greet"), Some(&first));
    one.act("other", AdminAction::Disable).await.unwrap();
    one.until(|host| host.host.faults().is_empty()).await;
    assert_ne!(one.host.host.for_run(caller, "run_1").versions().get("greet"), Some(&first));
}

#[tokio::test(flavor = "multi_thread")]
async fn canaries_that_clash_with_each_other_serve_runs_that_have_one_of_them() {
    let shared = |value| Text { tool: "shared", value, ..Text::default() }.component();
    let (one, first) = Fleet::new(false).rolled_back(&answering("1"), &shared("2")).await;
    one.upload("other", &named("other")).await;
    one.until(|host| host.names() == ["greet", "other"]).await;
    let other = one.get("other").await.record.active;
    one.upload("other", &shared("3")).await;
    one.act("other", AdminAction::Rollback(other)).await.unwrap();
    for name in ["greet", "other"] {
        one.act(name, attempt(TrialKind::Canary, 0.5, Thresholds::default())).await.unwrap();
    }
    one.until(|host| host.host.faults().len() == 2).await;
    for (name, other) in [("greet", "other.wasm"), ("other", "greet.wasm")] {
        let fault = one.get(name).await.fault.unwrap();
        assert!(fault.contains(&format!("no run that has the canary of {other} as well")), "{fault}");
    }
    let versions = |run: u32| one.host.host.for_run(Principal::nobody(), &format!("run_{run}")).versions();
    assert!((0..100).any(|run| versions(run).get("greet") != Some(&first)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_serves_only_callers_whom_the_policy_admits_to_it() {
    let (one, policy, first) = trying_for_beta(TrialKind::Canary).await;
    let (nobody, beta) = (Principal::nobody(), of_beta());
    one.until(|host| host.host.for_run(&beta, "run_1").versions().get("greet") != Some(&first)).await;
    let canary = one.host.host.for_run(&beta, "run_1");
    let others = one.host.host.for_run(nobody, "run_1");
    assert_eq!(others.versions().get("greet"), Some(&first));
    assert_eq!(call_of(&*others, "run_1", "a").await, (ToolOutcome::Ok, "1".to_owned()));
    let pinned = one.host.host.pinned(nobody, "run_1", &canary.versions()).await;
    assert_eq!(pinned.versions().get("greet"), Some(&first), "a run that is taken up is given no more");
    let pinned = one.host.host.pinned(&beta, "run_1", &canary.versions()).await;
    assert_eq!(pinned.versions(), canary.versions());
    // A caller who loses it while a run goes on is denied, which says nothing of the version.
    let lines = std::fs::read_to_string(policy.path().join("policy.toml")).unwrap();
    put(policy.path(), "policy.toml", lines.replace("beta", "staff"));
    one.host.host.reload().await;
    let denied = call_as(&*canary, &beta, "greet", json!({})).await;
    assert!(denied.content.starts_with("Error: denied: the operator"), "{}", denied.content);
    one.host.host.reload().await;
    one.host.host.reload().await;
    let counts = one.get("greet").await.counts.unwrap();
    assert_eq!((counts.new.calls, counts.old.calls), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_makes_the_calls_of_callers_whom_the_policy_admits_to_it() {
    let (one, _policy, _) = trying_for_beta(TrialKind::Shadow).await;
    let (nobody, beta) = (Principal::nobody(), of_beta());
    let counts = eventually("it to be compared", async || {
        for caller in [nobody, &beta] {
            let tools = one.host.host.for_run(caller, "run_1");
            assert_eq!(call_as(&*tools, caller, "greet", json!({})).await.content, "1");
        }
        Some(one.get("greet").await.counts.unwrap().new).filter(|counts| counts.compared > 0)
    })
    .await;
    assert_eq!((counts.failed, counts.agreed), (0, counts.compared), "{counts:?}");
}
