//! An approval is of what serves: a component is held to how it described itself, at every load.

use agent_core::ports::{AdminAction, AdminError, ToolAdmin, ToolVersions as _, Toolbox, Versions};
use agent_core::words::Principal;
use test_servers::eventually;
use tool_host::ToolLimits;
use tool_policy::signature::{Signed, SigningKey};

use crate::fleet::{Fleet, answering, approve, canary_of, is_waiting, named};
use crate::harness::{Host, entry, limits, policy, put};
use crate::text::Text;
use crate::wasi::PACKAGES;

/// Clocks and random numbers, of the contract and of WASI.
const IMPORTS: &str = r#"
    (import "agent:tool/clock@0.1.1" "now-ms" (func $now_ms (result i64)))
    (import "agent:tool/context@0.1.1" "remaining-ms" (func $remaining_ms (result i64)))
    (import "wasi:random/random@0.2.3" "get-random-u64" (func $random_number (result i64)))
    (import "wasi:clocks/wall-clock@0.2.3" "now" (func $now (param i32)))
    (import "wasi:clocks/monotonic-clock@0.2.3" "now" (func $ticks (result i64)))
    (import "wasi:clocks/monotonic-clock@0.2.3" "subscribe-duration" (func $in (param i64) (result i32)))
    (import "wasi:clocks/monotonic-clock@0.2.3" "subscribe-instant" (func $at (param i64) (result i32)))
    (import "wasi:io/poll@0.2.3" "[method]pollable.block" (func $wait (param i32)))"#;

/// A letter for a number.
const LETTER: &str = "(func $letter (param i64) (result i32)
    (i32.add (i32.const 97) (i32.wrap_i64 (i64.rem_u (local.get 0) (i64.const 26)))))";

/// A description that begins with four letters of what the guest was told. It waits for an hour twice, which
/// a loop could count out, and for which it has no time.
const TELLS: &str = "
    (call $wait (call $in (i64.const 3600000000000)))
    (call $wait (call $at (i64.const 3600000000000)))
    (if (i64.ne (call $ticks) (i64.const 0)) (then unreachable))
    (call $now (i32.const 3000))
    (i32.store8 (i32.const 384) (call $letter (call $now_ms)))
    (i32.store8 (i32.const 385) (call $letter (call $remaining_ms)))
    (i32.store8 (i32.const 386) (call $letter (i64.load (i32.const 3000))))
    (i32.store8 (i32.const 387) (call $letter (call $random_number)))
    (i32.const 0)";

/// A description that is another one where less than 32 MiB of memory are granted.
const GROWS: &str = "
    (if (i32.eq (memory.grow (i32.const 500)) (i32.const -1))
        (then (i32.store8 (i32.const 384) (i32.const 33))))
    (i32.const 0)";

fn grows() -> Vec<u8> {
    Text { tool: "greet", describe: GROWS, ..Text::default() }.component()
}

fn sign(key: &SigningKey, name: &str, component: &[u8]) -> Vec<u8> {
    key.sign(&Signed { name, component, manifest: &[] })
}

/// The lines of a policy for components that this key has signed.
fn trusted(name: &str, key: &SigningKey) -> String {
    format!("[[component]]\nname = \"{name}\"\nsigner = \"{}\"\n", key.public())
}

fn little_memory() -> ToolLimits {
    ToolLimits { memory_bytes: 16 << 20, ..limits() }
}

fn descriptions(host: &Host) -> Vec<String> {
    host.host.list().into_iter().map(|tool| tool.description).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_describes_itself_a_component_sees_a_fixed_clock_and_fixed_random_numbers() {
    let text = Text {
        imports: IMPORTS,
        fields: LETTER,
        packages: PACKAGES,
        world: "wasi-tool",
        describe: TELLS,
        ..Text::default()
    };
    let host = Host::start(&[("text.wasm", &text.component())], limits()).await;
    assert_eq!(host.faults(), [""; 0]);
    assert_eq!(descriptions(&host), ["smixten as text."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_describes_itself_otherwise_than_was_approved_is_refused_by_name() {
    let mut fleet = Fleet::new(true);
    let one = fleet.approved_replica(&[("greet.wasm", &grows())]).await;
    assert_eq!(descriptions(&one.host), ["Written as text."]);
    let digest = one.get("greet").await.record.active.unwrap();
    fleet.limits = little_memory();
    // A restart with the same folders, and another replica.
    for replica in [fleet.restart(one).await, fleet.replica(&[]).await] {
        replica.until(|host| !host.faults().is_empty()).await;
        let faults = replica.host.faults();
        assert!(faults[0].starts_with("greet.wasm: describes itself otherwise"), "{faults:?}");
        assert!(
            faults[0].contains("it reads \"!ritten as text.\"") && faults[0].contains(&digest),
            "{faults:?}"
        );
        assert_eq!(replica.host.names(), [""; 0]);
        let view = replica.get("greet").await;
        assert!(view.fault.is_some_and(|fault| fault.contains("describes itself otherwise")));
        assert_eq!(*replica.host.seen.faults.lock().last().unwrap(), ["greet.wasm"]);
    }
    // The new description is approved by its own digest, which stands beside what there is to look at.
    let again = fleet.replica(&[]).await;
    again.until(|host| !host.faults().is_empty()).await;
    let described = again.get("greet").await.described.expect("how it describes itself");
    assert_eq!(described.facts.tools[0].description, "!ritten as text.");
    let fault = again.get("greet").await.fault.unwrap();
    assert!(fault.contains(&format!("--digest {digest} --facts {}", described.facts_digest)), "{fault}");
    let diff = again.host.host.diff("greet", Some(&digest), Some(&digest)).await.unwrap();
    assert_eq!(diff.facts_digest.as_ref(), Some(&described.facts_digest));
    assert!(diff.changes_what_models_read, "{diff:?}");
    let approve = |facts: Option<&str>| AdminAction::Approve {
        digest: Some(digest.clone()),
        facts: facts.map(str::to_owned),
        serve: true,
    };
    // What nobody says to have seen is not approved, and neither is another description than was seen.
    let approved_first = again.get("greet").await.record.versions[0].facts.clone();
    for unseen in [None, Some("sha256:0"), Some(&*digest)] {
        let refused = again.act("greet", approve(unseen)).await.unwrap_err();
        assert!(
            matches!(&refused, AdminError::Conflict(text) if text.contains(&described.facts_digest)),
            "{refused}"
        );
    }
    assert_eq!(again.get("greet").await.record.versions[0].facts, approved_first);
    let approved = again.act("greet", approve(Some(&described.facts_digest))).await.unwrap();
    again.until(|host| descriptions(host) == ["!ritten as text."]).await;
    assert!(again.host.faults().is_empty());
    assert_eq!(approved.record.versions[0].facts.tools[0].description, "!ritten as text.");
    let trail = again.host.host.audit("greet").await.unwrap();
    assert_eq!((trail[0].by.as_str(), trail[0].action.as_str()), ("user:ann", "approved"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_the_policy_for_the_digest_approves_no_other_description() {
    let mut fleet = Fleet::new(true);
    let first = fleet.replica(&[("greet.wasm", &grows())]).await;
    first.until_known("greet").await;
    drop(first);
    let (policy, _folder) = policy(&entry("greet", &grows(), ""));
    fleet.policy = policy;
    let one = fleet.replica(&[]).await;
    one.until(|host| descriptions(host) == ["Written as text."]).await;
    let by_policy = one.host.host.audit("greet").await.unwrap();
    assert_eq!((by_policy[0].by.as_str(), by_policy[0].action.as_str()), ("policy", "approved"));
    fleet.limits = little_memory();
    let again = fleet.restart(one).await;
    again.until(|host| !host.faults().is_empty()).await;
    let faults = again.host.faults();
    assert!(faults[0].starts_with("greet.wasm: describes itself otherwise"), "{faults:?}");
    assert_eq!(again.host.names(), [""; 0]);
    assert_eq!(again.host.host.audit("greet").await.unwrap(), by_policy, "nothing was taken over");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signer_that_the_policy_names_later_approves_what_waits_and_is_signed_by_it() {
    let mut fleet = Fleet::new(true);
    let (greet, other) = (answering("1"), named("other"));
    let (own, foreign) = (SigningKey::generate().unwrap().0, SigningKey::generate().unwrap().0);
    let first = fleet
        .replica(&[
            ("greet.wasm", &greet),
            ("greet.wasm.sig", &sign(&own, "greet", &greet)),
            ("other.wasm", &other),
            ("other.wasm.sig", &sign(&foreign, "other", &other)),
        ])
        .await;
    for name in ["greet", "other"] {
        first.until_known(name).await;
        assert!(is_waiting(&first.get(name).await), "{name}: nobody trusts the key yet");
    }
    drop(first);
    let (policy, _folder) = policy(&(trusted("greet", &own) + &trusted("other", &own)));
    fleet.policy = policy;
    let one = fleet.replica(&[]).await;
    one.until(|host| host.names() == ["greet"]).await;
    let trail = one.host.host.audit("greet").await.unwrap();
    assert_eq!((trail[0].by.as_str(), trail[0].action.as_str()), ("policy", "approved"));
    assert!(is_waiting(&one.get("other").await), "it is signed by another key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_signed_while_it_waits_is_approved_by_the_policy_that_trusts_its_signer() {
    let greet = answering("1");
    let key = SigningKey::generate().unwrap().0;
    let (fleet, folder) = Fleet::under(true, "# nothing");
    let one = fleet.replica(&[("greet.wasm", &greet)]).await;
    one.until_known("greet").await;
    assert!(is_waiting(&one.get("greet").await));
    one.host.put("greet.wasm.sig", &sign(&key, "greet", &greet));
    one.host.host.reload().await;
    assert!(is_waiting(&one.get("greet").await), "nobody trusts the key yet");
    put(folder.path(), "policy.toml", trusted("greet", &key));
    one.until(|host| host.names() == ["greet"]).await;
    let trail = one.host.host.audit("greet").await.unwrap();
    assert_eq!((trail[0].by.as_str(), trail[0].action.as_str()), ("policy", "approved"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_signature_of_a_version_that_was_approved_before_is_kept_for_other_replicas() {
    let greet = answering("1");
    let key = SigningKey::generate().unwrap().0;
    let (fleet, folder) = Fleet::under(true, "# nothing");
    let one = fleet.approved_replica(&[("greet.wasm", &greet)]).await;
    // Started again, it has a copy of its own, without a signature.
    let one = fleet.restart(one).await;
    let before = one.get("greet").await.record;
    let digest = before.active.clone().unwrap();
    put(folder.path(), "policy.toml", trusted("greet", &key));
    one.host.host.reload().await;
    assert_eq!(one.host.faults().len(), 1, "it is not signed");
    let signature = sign(&key, "greet", &greet);
    one.host.put("greet.wasm.sig", &signature);
    one.host.host.reload().await;
    let kept = async || fleet.store.component("greet", &digest).await.unwrap().unwrap().signature;
    let kept = eventually("the signature to be kept", kept).await;
    assert_eq!(&kept[..], &signature[..]);
    one.until(|host| host.faults().is_empty()).await;
    assert_eq!(one.get("greet").await.record, before, "nothing else is said of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_a_trial_nor_a_run_that_is_taken_up_gets_a_version_that_describes_itself_otherwise() {
    let mut fleet = Fleet::new(true);
    let one = fleet.approved_replica(&[("greet.wasm", &grows())]).await;
    let first = one.get("greet").await.record.active.unwrap();
    one.upload("greet", &answering("2")).await;
    one.act("greet", approve()).await.unwrap();
    drop(one);
    fleet.limits = little_memory();
    let two = fleet.replica(&[]).await;
    two.until(|host| host.names() == ["greet"]).await;
    let pins = Versions::from([("greet".to_owned(), first.clone())]);
    let pinned = two.host.host.pinned(Principal::nobody(), "run_1", &pins).await;
    assert_eq!(pinned.catalog().tools()[0].description, "Written as text.");
    assert_ne!(pinned.versions()["greet"], first);
    two.act("greet", canary_of(&first)).await.unwrap();
    let because = two.until_failed().await;
    assert!(because[0].contains("describes itself otherwise"), "{because:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_is_asked_another_description_is_taken_over_with_an_audit_line() {
    let mut fleet = Fleet::new(false);
    drop(fleet.replica(&[("greet.wasm", &grows())]).await);
    fleet.limits = little_memory();
    let two = fleet.replica(&[]).await;
    two.until(|host| descriptions(host) == ["!ritten as text."]).await;
    let view = two.get("greet").await;
    assert_eq!(view.record.versions[0].facts.tools[0].description, "!ritten as text.");
    let trail = two.host.host.audit("greet").await.unwrap();
    assert_eq!((trail[0].by.as_str(), trail[0].action.as_str()), ("off", "approved"));
    assert!(trail[0].detail.contains("describes itself otherwise"), "{}", trail[0].detail);
}

/// As an old release beside a new one, of which each reads the same bytes in its way.
#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_that_read_one_version_otherwise_do_not_take_it_over_in_turns() {
    let mut fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &grows())]).await;
    fleet.limits = little_memory();
    let two = fleet.replica(&[]).await;
    two.until(|host| descriptions(host) == ["!ritten as text."]).await;
    for _ in 0..4 {
        one.host.host.reload().await;
        two.host.host.reload().await;
    }
    assert_eq!(descriptions(&one.host), ["Written as text."]);
    assert_eq!(descriptions(&two.host), ["!ritten as text."]);
    let trail = one.host.host.audit("greet").await.unwrap();
    let taken_over =
        trail.iter().filter(|line| (line.by.as_str(), line.action.as_str()) == ("off", "approved"));
    assert!((1..=2).contains(&taken_over.count()), "{trail:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_digest_of_the_catalog_is_that_of_the_definitions() {
    let digest = |host: &Host| host.host.everything().catalog().digest().to_owned();
    let one = Host::start(&[("greet.wasm", &grows())], limits()).await;
    let same = Host::start(&[("greet.wasm", &grows())], limits()).await;
    let other = Host::start(&[("greet.wasm", &grows())], little_memory()).await;
    assert_eq!(one.list_digests(), other.list_digests());
    assert_eq!(digest(&one), digest(&same));
    assert_ne!(digest(&one), digest(&other));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_nothing_serves_that_is_not_remembered_to_have_served() {
    let component = answering("1");
    let mut fleet = Fleet::new(true);
    let first = fleet.replica(&[("greet.wasm", &component)]).await;
    first.until_known("greet").await;
    drop(first);
    // The policy names it, and for all that is known here an operator has disabled it.
    let (policy, _folder) = policy(&entry("greet", &component, ""));
    fleet.policy = policy;
    fleet.store.switch.fail(true);
    let two = fleet.replica(&[("greet.wasm", &component)]).await;
    assert_eq!(two.host.names(), [""; 0]);
    assert!(two.host.faults()[0].contains("is not what served last"), "{:?}", two.host.faults());
    fleet.store.switch.fail(false);
    two.until(|host| host.names() == ["greet"]).await;
    // A component that was disabled while this replica looked on stays away as well.
    two.act("greet", AdminAction::Disable).await.unwrap();
    let (tools, cache) = two.stop();
    fleet.store.switch.fail(true);
    let again = fleet.start(tools, cache).await;
    assert_eq!(again.host.names(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_emptied_approves_nothing_that_served_before() {
    let fleet = Fleet::new(true);
    let one = fleet.approved_replica(&[("greet.wasm", &answering("1"))]).await;
    assert_eq!(one.host.names(), ["greet"]);
    let again = Fleet::new(true).restart(one).await;
    again.until_known("greet").await;
    again.until(|host| host.names().is_empty()).await;
    assert!(is_waiting(&again.get("greet").await));
}
