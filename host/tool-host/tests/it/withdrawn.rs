//! Versions that serve and whose calls trap, and files that are older than what serves.

use agent_core::ports::{AdminAction, AdminError, ToolVersions, Toolbox};
use agent_core::words::{Principal, Thresholds, ToolOutcome, TrialKind, TrialState};
use serde_json::json;
use test_servers::eventually;

use crate::fleet::{Fleet, Replica, answering, attempt, canary_of, is_canary, is_waiting, traps};
use crate::harness::{Host, call_as, put};
use crate::text::Text;

/// A call of a user, of the version that serves or of a canary.
async fn call_by(replica: &Replica, user: &str) -> ToolOutcome {
    call_of_user(replica, user, "greet").await
}

async fn call_of_user(replica: &Replica, user: &str, tool: &str) -> ToolOutcome {
    let principal = Principal::user(user);
    let tools = replica.host.host.for_run(&principal, "run");
    call_as(&*tools, &principal, tool, json!({})).await.receipt.outcome
}

async fn trap(replica: &Replica, user: &str, times: usize) {
    for _ in 0..times {
        assert_eq!(call_by(replica, user).await, ToolOutcome::Trapped);
    }
}

/// Until that version serves.
async fn until_serves(replica: &Replica, digest: &str) {
    let listed = [format!("greet@{digest}")];
    replica.until(|host| host.list_digests() == listed).await;
}

/// Adds up and judges what was counted until now.
async fn judge(replica: &Replica) {
    // A reading of the store that was under way may have begun before.
    replica.host.host.reload().await;
    replica.host.host.reload().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_whose_calls_trap_is_withdrawn_on_all_replicas_though_nobody_tried_it() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    let two = fleet.replica(&[]).await;
    let good = one.get("greet").await.record.active.unwrap();
    let bad = one.upload("greet", &traps()).await.record.active.unwrap();
    until_serves(&two, &bad).await;
    // Too few on each of the two, and enough on both.
    trap(&one, "ann", 3).await;
    trap(&two, "ann", 2).await;
    for replica in [&one, &two] {
        until_serves(replica, &good).await;
    }
    let line = one.newest_line("greet").await;
    assert_eq!(
        (line.by.as_str(), line.action.as_str(), line.digest),
        ("host", "withdrawn", Some(bad.clone()))
    );
    assert!(line.detail.starts_with("5 of its first 5 calls trapped"), "{}", line.detail);
    let told = |replica: &Replica| replica.host.seen.withdrawn.lock().clone();
    assert_eq!([told(&one), told(&two)].concat(), ["greet"], "one replica has withdrawn it");
    // The version that trapped comes back only if somebody names it.
    let refused = one.act("greet", AdminAction::Rollback(None)).await.unwrap_err();
    assert!(matches!(refused, AdminError::Conflict(_)), "{refused}");
    assert_eq!(one.get("greet").await.record.active, Some(good));
    assert_eq!(
        one.act("greet", AdminAction::Promote(Some(bad.clone()))).await.unwrap().record.active,
        Some(bad)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_of_several_does_not_have_a_version_withdrawn() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    for user in ["ann", "ben"] {
        assert_eq!(call_by(&one, user).await, ToolOutcome::Ok);
    }
    let good = one.get("greet").await.record.active.unwrap();
    let bad = one.upload("greet", &traps()).await.record.active;
    trap(&one, "ann", 9).await;
    judge(&one).await;
    assert_eq!(one.get("greet").await.record.active, bad, "the other user has not called it");
    trap(&one, "ben", 1).await;
    until_serves(&one, &good).await;
    assert!(one.newest_line("greet").await.detail.starts_with("10 of its first 10 calls trapped"));
}

/// After a restart nobody is known to call anything, so whoever calls first must not be taken for everybody.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_one_user_of_several_decides_neither_this_nor_a_trial() {
    for is_trial in [false, true] {
        let fleet = Fleet::new(false);
        let other = Text { tool: "other", ..Text::default() }.component();
        let one = fleet.replica(&[("greet.wasm", &answering("1")), ("other.wasm", &other)]).await;
        one.until(|host| host.names() == ["greet", "other"]).await;
        let good = one.get("greet").await.record.active.unwrap();
        let bad = one.upload("greet", &traps()).await.record.versions[0].digest.clone();
        if is_trial {
            one.act("greet", AdminAction::Rollback(Some(good.clone()))).await.unwrap();
            one.act("greet", canary_of(&bad)).await.unwrap();
        }
        let one = fleet.restart(one).await;
        let of_run = |host: &Host| host.host.for_run(&Principal::user("ann"), "run").versions();
        one.until(|host| of_run(host).get("greet") == Some(&bad)).await;
        fleet.store.switch.fail(true);
        trap(&one, "ann", 5).await;
        assert_eq!(call_of_user(&one, "ben", "other").await, ToolOutcome::Ok);
        fleet.store.switch.fail(false);
        judge(&one).await;
        let record = one.get("greet").await.record;
        let trial = record.trial.map(|trial| trial.state);
        assert_eq!(record.active, Some(if is_trial { good.clone() } else { bad }));
        assert_eq!(trial, is_trial.then_some(TrialState::Running));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_withdrawn_where_the_policy_says_so_or_nothing_is_kept() {
    let (fleet, folder) = Fleet::under(false, "rollback-on-traps = false\n");
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    let good = one.get("greet").await.record.active.unwrap();
    let bad = one.upload("greet", &traps()).await.record.active;
    trap(&one, "ann", 9).await;
    judge(&one).await;
    assert_eq!(one.get("greet").await.record.active, bad);
    // From the next call on.
    put(folder.path(), "policy.toml", "# nothing is granted\n");
    one.host.host.reload().await;
    trap(&one, "ann", 5).await;
    until_serves(&one, &good).await;

    let lone = Fleet::new(false);
    let one = lone.replica(&[("greet.wasm", &traps())]).await;
    trap(&one, "ann", 9).await;
    judge(&one).await;
    assert_eq!(one.host.names(), ["greet"], "there is no version to go back to");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_by_the_schema_count_in_a_trial() {
    let schema = r#"{"type":"object","required":["title"]}"#;
    let wants_more = Text { tool: "greet", input_schema: schema, ..Text::default() };
    let (one, _) = Fleet::new(false).rolled_back(&answering("1"), &wants_more.component()).await;
    one.act("greet", attempt(TrialKind::Canary, 1.0, Thresholds::default())).await.unwrap();
    one.until(is_canary).await;
    let tools = one.host.host.for_run(Principal::nobody(), "run_1");
    assert_eq!(crate::fleet::call_of(&*tools, "run_1", "a").await.0, ToolOutcome::InvalidArguments);
    judge(&one).await;
    let counts = one.get("greet").await.counts.unwrap();
    assert_eq!((counts.new.calls, counts.new.failed, counts.new.trapped), (1, 1, 0));
    assert!(counts.users.is_empty(), "who called is not told");
}

/// The tool `greet`, whose answers are kept, and which traps when it has arguments.
fn pure_and_trapping_on_arguments() -> Vec<u8> {
    // Without arguments their text is `{}`.
    let call = "(if (i32.gt_u (local.get 3) (i32.const 2)) (then unreachable)) (i32.const 96)";
    Text { tool: "greet", hints: &[("pure", "true")], value: "1", call, ..Text::default() }.component()
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_answers_do_not_hide_that_a_version_traps() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    let good = one.get("greet").await.record.active.unwrap();
    one.upload("greet", &pure_and_trapping_on_arguments()).await;
    for call in 0..20 {
        let answer = one.host.call("greet", json!({})).await;
        let is_kept = answer.receipt.detail.is_some_and(|detail| detail.cached);
        assert_eq!((answer.receipt.outcome, is_kept), (ToolOutcome::Ok, call > 0));
    }
    for number in 0..5 {
        let answer = one.host.call("greet", json!({ "number": number })).await;
        assert_eq!(answer.receipt.outcome, ToolOutcome::Trapped);
    }
    until_serves(&one, &good).await;
    assert!(one.newest_line("greet").await.detail.starts_with("5 of its first 6 calls trapped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_answers_are_not_counted_in_a_trial() {
    let (one, first) =
        Fleet::new(false).rolled_back(&answering("1"), &pure_and_trapping_on_arguments()).await;
    one.act("greet", attempt(TrialKind::Canary, 1.0, Thresholds::default())).await.unwrap();
    let versions = |host: &Host| host.host.for_run(&Principal::user("ann"), "run").versions();
    one.until(|host| versions(host).get("greet") != Some(&first)).await;
    for _ in 0..20 {
        assert_eq!(call_by(&one, "ann").await, ToolOutcome::Ok);
    }
    judge(&one).await;
    let counts = one.get("greet").await.counts.unwrap();
    assert_eq!((counts.new.calls, counts.new.failed), (1, 0));
}

/// A file that served before the store answered, and a version that was installed meanwhile and is approved a
/// moment later.
#[tokio::test]
async fn what_serves_goes_on_while_a_newer_version_is_installed_and_does_not_replace_it_after_that() {
    let fleet = Fleet::new(false);
    fleet.store.switch.fail(true);
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    assert_eq!(one.says().await, "1");
    let elsewhere = Fleet::new(true);
    let installed = elsewhere.replica(&[]).await.upload("greet", &answering("2")).await;
    assert!(is_waiting(&installed));
    let digest = installed.record.versions[0].digest.clone();
    let component = elsewhere.store.component("greet", &digest).await.unwrap().unwrap();
    let line = elsewhere.store.audit("greet", 1).await.unwrap().remove(0);
    fleet.store.switch.fail(false);
    fleet.store.keep("greet", &digest, &component).await.unwrap();
    fleet.store.write("greet", 0, &installed.record, &line).await.unwrap();
    // The file is proposed too, and stays behind what was installed after it was found.
    until_serves(&one, &digest).await;
    let known = async || (one.get("greet").await.record.known.len() == 2).then_some(());
    eventually("the file to be proposed", known).await;
    judge(&one).await;
    assert_eq!(one.says().await, "2");
    assert_eq!(one.get("greet").await.record.versions[0].digest, digest);
    let swaps = one.host.seen.swaps.lock().clone();
    assert!(swaps.iter().all(|set| set == &["greet"]), "the tool set is never empty: {swaps:?}");
}
