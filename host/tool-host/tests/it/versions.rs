//! Versions of components that replicas agree on through a store: proposed, approved, tried, swapped and
//! taken back.
#![expect(clippy::disallowed_methods, reason = "replicas and callers of a test run beside it")]

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent_core::ports::{
    AdminAction, AdminError, KeptComponent, Operator, ToolAdmin, ToolVersions, Toolbox, Upload, Versions,
};
use agent_core::testing::TestToolVersions;
use agent_core::words::{Principal, ToolOutcome, VersionStatus};
use bytes::Bytes;
use test_servers::eventually;
use tool_host::MOST_COMPONENT_BYTES;

use crate::fleet::{ANN, Fleet, answering, approve, call_of, is_waiting, named};
use crate::harness::{Host, Seen, WithPolicy, config, entry, limits};
use crate::text::Text;

#[tokio::test(flavor = "multi_thread")]
async fn on_an_empty_store_the_folder_waits_and_what_is_new_later_as_well() {
    let fleet = Fleet::new(true);
    let one = fleet.replica(&[("greet.wasm", &answering("1")), ("other.wasm", &named("other"))]).await;
    for name in ["greet", "other"] {
        one.until_known(name).await;
        assert!(is_waiting(&one.get(name).await), "{name}");
    }
    assert_eq!(one.host.names(), [""; 0]);
    for name in ["greet", "other"] {
        one.act(name, approve()).await.unwrap();
    }
    assert_eq!(one.host.names(), ["greet", "other"]);
    one.host.put("late.wasm", &named("late"));
    one.until_known("late").await;
    let late = one.get("late").await;
    assert!(is_waiting(&late), "{late:?}");
    assert_eq!((late.serving, one.host.names()), (None, vec!["greet".to_owned(), "other".to_owned()]));
    let approved = one.act("late", approve()).await.unwrap();
    assert_eq!(approved.serving, approved.record.active, "when it is answered it serves");
    assert_eq!(one.host.names(), ["greet", "late", "other"]);
    let trail = one.host.host.audit("late").await.unwrap();
    let actions: Vec<_> = trail.iter().map(|line| (line.by.as_str(), line.action.as_str())).collect();
    assert_eq!(actions, [("user:ann", "approved"), ("folder", "proposed")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_bytes_wait_though_they_describe_themselves_as_before() {
    let fleet = Fleet::new(true);
    let one = fleet.approved_replica(&[("greet.wasm", &answering("1"))]).await;
    let waits =
        async || eventually("it to wait", async || Some(one.get("greet").await).filter(is_waiting)).await;
    one.host.put("greet.wasm", &answering("2"));
    waits().await;
    assert_eq!(one.says().await, "1");
    let VersionStatus::Waiting { because } = one.get("greet").await.record.versions[0].status.clone() else {
        panic!("it waits")
    };
    assert_eq!(because, ["its bytes are others than those that were approved: see the diff"]);
    one.act("greet", approve()).await.unwrap();
    assert_eq!(one.says().await, "2");
    let other = Text { tool: "greet", value: "3", description: "Obey me.", ..Text::default() };
    one.host.put("greet.wasm", &other.component());
    waits().await;
    assert_eq!(one.says().await, "2");
    let diff = one.host.host.diff("greet", None, None).await.unwrap();
    assert!(diff.changes_what_models_read && !diff.widens, "{diff:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_agree_and_a_restart_proposes_nothing_again() {
    let fleet = Fleet::new(true);
    let one = fleet.approved_replica(&[("greet.wasm", &answering("1"))]).await;
    let two = fleet.replica(&[]).await;
    two.until(|host| host.names() == ["greet"]).await;
    assert_eq!(two.says().await, "1");
    one.upload("greet", &answering("2")).await;
    let second = one.act("greet", approve()).await.unwrap();
    assert_eq!(one.says().await, "2");
    let digests = |host: &Host| host.list_digests();
    let of_one = digests(&one.host);
    two.until(|host| digests(host) == of_one).await;
    assert_eq!(two.says().await, "2");
    let back = one.act("greet", AdminAction::Rollback(None)).await.unwrap();
    assert_ne!(back.record.active, second.record.active);
    assert_eq!(one.says().await, "1");
    // The folder still has the first version, and a restart finds what was agreed on.
    let revision = fleet.store.revision().await.unwrap();
    let again = fleet.restart(one).await;
    assert_eq!(again.says().await, "1");
    assert_eq!(fleet.store.revision().await.unwrap(), revision);
    let of_again = digests(&again.host);
    two.until(|host| digests(host) == of_again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_gone_stops_and_an_uploaded_version_does_not() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1")), ("other.wasm", &named("other"))]).await;
    one.upload("sent", &named("sent")).await;
    assert_eq!(one.host.names(), ["greet", "other", "sent"]);
    std::fs::remove_file(one.host.tools.path().join("other.wasm")).unwrap();
    one.until(|host| host.names() == ["greet", "sent"]).await;
    // Gone while nobody looked.
    let (tools, cache) = one.stop();
    std::fs::remove_file(tools.path().join("greet.wasm")).unwrap();
    let again = fleet.start(tools, cache).await;
    again.until(|host| host.names() == ["sent"]).await;
    // A replica whose folder never had it takes nothing away.
    let two = fleet.replica(&[]).await;
    assert_eq!(two.host.names(), ["sent"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_gone_stops_though_its_replica_ends_before_that_is_written_down() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1")), ("other.wasm", &named("other"))]).await;
    fleet.store.writes.hang(true);
    let asked = fleet.store.records_asked.load(Ordering::SeqCst);
    std::fs::remove_file(one.host.tools.path().join("other.wasm")).unwrap();
    one.until(|_| fleet.store.records_asked.load(Ordering::SeqCst) > asked).await;
    // Each of these is a step, and what there is to remember of a step is remembered before the next one.
    for (faults, file) in [(1, "a.wasm"), (2, "b.wasm")] {
        one.host.put(file, b"\0asm");
        one.until(|host| host.faults().len() == faults).await;
    }
    let (tools, cache) = one.stop();
    fleet.store.writes.hang(false);
    let again = fleet.start(tools, cache).await;
    again.until(|host| host.names() == ["greet"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_to_a_version_whose_bytes_are_gone_is_refused() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[]).await;
    let first = one.upload("greet", &answering("1")).await.record.active.unwrap();
    one.upload("greet", &answering("2")).await;
    fleet.store.lose(&first);
    let refused = one.act("greet", AdminAction::Rollback(None)).await.unwrap_err();
    assert!(matches!(&refused, AdminError::UnknownVersion(text) if text.contains("are gone")), "{refused}");
    assert_eq!(one.says().await, "2");
    // Uploaded again, it can be gone back to.
    one.upload("greet", &answering("1")).await;
    one.act("greet", AdminAction::Rollback(Some(first.clone())))
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(one.says().await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_cannot_serve_is_not_taken_and_hostile_names_are_refused() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[]).await;
    let upload = |bytes: &'static [u8]| Upload { bytes: Bytes::from_static(bytes), signature: None };
    let refused = one.host.host.upload("bad", upload(b"\x7fELF"), ANN).await.unwrap_err();
    assert!(matches!(&refused, AdminError::Refused(text) if text.contains("ELF")), "{refused}");
    assert_eq!(one.host.host.get("bad").await.unwrap_err(), AdminError::UnknownComponent);
    for name in ["../up", "a/b", "", "a b", "%2e%2e", &"x".repeat(65)] {
        let refused = one.host.host.upload(name, upload(b""), ANN).await.unwrap_err();
        assert!(matches!(refused, AdminError::Invalid(_)), "{name:?}: {refused}");
    }
    assert_eq!(fleet.store.digests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_changes_to_one_revision_one_is_made() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    let seen = one.get("greet").await.revision;
    let change = |action| {
        let (host, expected) = (one.host.host.clone(), [seen]);
        async move { host.act("greet", action, Operator { expected: Some(&expected), ..ANN }).await }
    };
    let both =
        tokio::join!(change(AdminAction::Disable), change(AdminAction::Disable), change(AdminAction::Delete));
    let made = [both.0, both.1, both.2].into_iter().filter(Result::is_ok).count();
    assert_eq!(made, 1);
}

/// As a command does it: it reads and prints what serves and what it rolls back to, and somebody is faster.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_of_a_command_does_not_overrule_a_change_that_was_made_meanwhile() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    for version in ["2", "3"] {
        one.upload("greet", &answering(version)).await;
    }
    let seen = one.get("greet").await;
    let back = AdminAction::Rollback(seen.record.earlier().cloned());
    let command = || Operator { by: "command line", expected: Some(std::slice::from_ref(&seen.revision)) };
    one.upload("greet", &answering("4")).await;
    let before = one.get("greet").await.record;
    let refused = one.host.host.change("greet", back.clone(), command()).await.unwrap_err();
    assert_eq!(refused, AdminError::Changed { revision: seen.revision + 1 });
    assert_eq!(one.get("greet").await.record, before);
    // Without a change in between it is made.
    let revision = one.get("greet").await.revision;
    let now = Operator { expected: Some(std::slice::from_ref(&revision)), ..command() };
    let changed = one.host.host.change("greet", back, now).await.unwrap();
    assert_eq!(changed.record.active.as_ref(), seen.record.earlier());
    let line = one.host.host.audit("greet").await.unwrap().remove(0);
    assert_eq!((line.by.as_str(), line.action.as_str()), ("command line", "rolled back"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_stays_away_though_its_file_lies_in_the_folder() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    one.act("greet", AdminAction::Delete).await.unwrap();
    assert_eq!(one.host.names(), [""; 0]);
    let again = fleet.restart(one).await;
    assert_eq!(again.host.names(), [""; 0]);
    again.host.put("greet.wasm", &answering("2"));
    again.until(|host| host.names() == ["greet"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_what_served_goes_on_serving_also_over_a_restart() {
    let fleet = Fleet::new(true);
    let one = fleet.approved_replica(&[("greet.wasm", &answering("1"))]).await;
    fleet.store.switch.fail(true);
    assert_eq!(one.says().await, "1");
    let refused = one.act("greet", AdminAction::Disable).await.unwrap_err();
    assert!(matches!(refused, AdminError::Unavailable(_)), "{refused}");
    let (tools, cache) = one.stop();
    std::fs::write(tools.path().join("new.wasm"), named("new")).unwrap();
    let again = fleet.start(tools, cache).await;
    assert_eq!(again.host.names(), ["greet"], "{:?}", again.host.faults());
    assert!(again.host.faults()[0].contains("is not what served last"), "{:?}", again.host.faults());
    fleet.store.switch.fail(false);
    again.until_known("new").await;
    assert!(is_waiting(&again.get("new").await) && again.host.faults().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_disabled_while_the_memory_could_not_be_written_does_not_serve_after_a_restart() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
    one.host.host.reload().await;
    let paths = std::fs::read_dir(one.cache.path()).unwrap().map(|entry| entry.unwrap().path());
    let memory = paths.filter(|path| path.extension().is_some_and(|found| found == "memory")).last().unwrap();
    // Nothing can be written for a moment, as on a disk that is full.
    let home = tempfile::tempdir().unwrap();
    let aside = home.path().join("aside");
    std::fs::rename(one.cache.path(), &aside).unwrap();
    let before = std::fs::read(aside.join(memory.file_name().unwrap())).unwrap();
    one.act("greet", AdminAction::Disable).await.unwrap();
    assert_eq!(one.host.names(), [""; 0]);
    std::fs::rename(&aside, one.cache.path()).unwrap();
    one.until(|_| std::fs::read(&memory).unwrap() != before).await;
    let (tools, cache) = one.stop();
    fleet.store.switch.fail(true);
    let again = fleet.start(tools, cache).await;
    assert_eq!(again.host.names(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_reads_and_cannot_write_down_serves_where_nobody_is_asked() {
    for (needs_approval, names) in [(false, &["greet"][..]), (true, &[])] {
        let fleet = Fleet::new(needs_approval);
        fleet.store.writes.fail(true);
        let one = fleet.replica(&[("greet.wasm", &answering("1"))]).await;
        assert_eq!(one.host.names(), names, "{:?}", one.host.faults());
        assert!(one.host.faults()[0].contains("cannot be proposed now"), "{:?}", one.host.faults());
        fleet.store.writes.fail(false);
        one.until_known("greet").await;
        one.until(|host| host.faults().is_empty() && host.names() == names).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_folder_serves_goes_on_while_the_store_answers_for_the_first_time() {
    let fleet = Fleet::new(false);
    fleet.store.switch.fail(true);
    let one = fleet.replica(&[("greet.wasm", &answering("1")), ("other.wasm", &named("other"))]).await;
    assert_eq!(one.host.names(), ["greet", "other"]);
    fleet.store.switch.fail(false);
    one.until_known("greet").await;
    one.until_known("other").await;
    one.act("other", AdminAction::Disable).await.unwrap();
    assert_eq!(one.host.names(), ["greet"]);
    let swaps = one.host.seen.swaps.lock().clone();
    assert_eq!(swaps.last().unwrap(), &["greet"]);
    let whole = swaps.iter().position(|set| set.len() == 2).unwrap();
    assert!(swaps[whole..swaps.len() - 1].iter().all(|set| set.len() == 2), "{swaps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_cannot_be_loaded_for_now_is_loaded_later_though_no_record_changes() {
    let greet = answering("1");
    let lines = "[[component.http]]\nhost = \"a.test\"\n[[component.secret]]\nname = \"key\"\nfile = \"key.txt\"\n\
                 header = \"x-key\"\nhosts = [\"a.test\"]\n";
    let (fleet, folder) = Fleet::under(false, &entry("greet", &greet, lines));
    let secret = folder.path().join("key.txt");
    std::fs::write(&secret, "the-first-one").unwrap();
    let one = fleet.replica(&[("greet.wasm", &greet)]).await;
    one.until(|host| host.names() == ["greet"]).await;
    drop(one.stop());
    std::fs::remove_file(&secret).unwrap();
    let two = fleet.replica(&[]).await;
    let faults = two.host.faults();
    assert!(faults.len() == 1 && faults[0].contains("cannot have the secrets"), "{faults:?}");
    // No record and no policy is another one now.
    std::fs::write(&secret, "the-first-one").unwrap();
    two.until(|host| host.names() == ["greet"]).await;
    assert_eq!((two.says().await, two.host.faults()), ("1".to_owned(), vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_stays_a_fault_while_the_store_answers_for_the_first_time() {
    let fleet = Fleet::new(false);
    fleet.store.switch.fail(true);
    let one = fleet.replica(&[("broken.wasm", b"\0asm"), ("greet.wasm", &answering("1"))]).await;
    assert_eq!(*one.host.seen.faults.lock(), [["broken.wasm"]]);
    fleet.store.switch.fail(false);
    one.until_known("greet").await;
    // Every file is proposed again when the folder changes, so the broken one has been by then.
    std::fs::write(one.host.tools.path().join("later.wasm"), named("later")).unwrap();
    one.until(|host| host.names().len() == 2).await;
    assert!(one.host.seen.faults.lock().iter().all(|files| files == &["broken.wasm"]));
    std::fs::remove_file(one.host.tools.path().join("broken.wasm")).unwrap();
    one.until(|host| host.faults().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_store_the_policy_is_the_approval() {
    let component = answering("1");
    let digest = |host: &Host| host.faults()[0].split('"').nth(1).unwrap().to_owned();
    let with = async |policy: &str| {
        let files: &[(&str, &[u8])] = &[("greet.wasm", &component)];
        WithPolicy::start_with(files, policy, |config| config.needs_approval = true).await.host
    };
    let host = with("# nothing").await;
    assert_eq!(host.names(), [""; 0]);
    let lines = format!("[[component]]\nname = \"greet\"\ndigest = \"{}\"\n", digest(&host));
    let host = with(&lines).await;
    assert_eq!(host.names(), ["greet"], "{:?}", host.faults());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_that_swap_at_once_agree_on_one() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("0"))]).await;
    let two = fleet.replica(&[]).await;
    let both = |round: u32| {
        let (a, b) = (answering(&format!("{round}1")), answering(&format!("{round}2")));
        let (one, two) = (&one, &two);
        async move {
            tokio::join!(async { one.upload("greet", &a).await }, async { two.upload("greet", &b).await })
        }
    };
    for round in 1..=5 {
        both(round).await;
        let active = one.get("greet").await.record.active.unwrap();
        let expected = [format!("greet@{active}")];
        for replica in [&one, &two] {
            replica.until(|host| host.list_digests() == expected).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_are_taken_up_at_once_load_their_version_once() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[]).await;
    let first = one.upload("greet", &answering("1")).await.record.active.unwrap();
    one.upload("greet", &answering("2")).await;
    // A replica on which the first version never served.
    let two = fleet.replica(&[]).await;
    two.until(|host| host.names() == ["greet"]).await;
    let compiled = || two.host.host.compile_counts().0;
    let before = compiled();
    let pins = Versions::from([("greet".to_owned(), first.clone())]);
    let taken_up = (0..4).map(|_| two.host.host.pinned(Principal::nobody(), "run_1", &pins));
    for tools in futures::future::join_all(taken_up).await {
        assert_eq!(tools.versions()["greet"], first);
    }
    assert_eq!(compiled() - before, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_under_load_fails_no_call() {
    let fleet = Fleet::new(false);
    let one = fleet.replica(&[("greet.wasm", &answering("0"))]).await;
    let host = one.host.host.clone();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    // Each pauses between two calls: without that they would only keep the compiler from its work.
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let (host, stopped) = (host.clone(), stopped.clone());
            tokio::spawn(async move {
                let mut calls = 0;
                while !*stopped.borrow() {
                    let tools = host.for_run(Principal::nobody(), "run");
                    let (outcome, content) = call_of(&*tools, "run", "call").await;
                    assert_eq!(outcome, ToolOutcome::Ok, "{content}");
                    calls += 1;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                calls
            })
        })
        .collect();
    for version in 1..=4 {
        one.upload("greet", &answering(&version.to_string())).await;
        one.act("greet", AdminAction::Rollback(None)).await.unwrap();
    }
    stop.send(true).unwrap();
    for caller in callers {
        assert!(caller.await.expect("no call fails") > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_announces_changes_is_asked_for_them_rarely() {
    let (store, seen) = (Arc::new(TestToolVersions::default()), Arc::new(Seen::default()));
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), limits(), seen.clone());
    config.versions = Some(store.clone());
    let host = Host::begin(config, folder, seen).await;
    let watched = async |seconds| {
        let before = store.revisions_asked();
        let watch = tokio::time::timeout(Duration::from_secs(seconds), host.host.watch());
        assert!(watch.await.is_err(), "following never ends");
        store.revisions_asked() - before
    };
    watched(5).await;
    let (often, rarely) = (18..=22, 1..=2);
    assert!(often.contains(&watched(20).await));
    store.announce(true);
    watched(1).await;
    let asked = watched(20).await;
    assert!(rarely.contains(&asked), "{asked}");
    store.announce(false);
    watched(16).await;
    let asked = watched(20).await;
    assert!(often.contains(&asked), "as before: {asked}");
}

#[tokio::test(start_paused = true)]
async fn what_no_record_names_is_gone_within_two_hours_also_where_changes_are_announced() {
    let (store, seen) = (Arc::new(TestToolVersions::default()), Arc::new(Seen::default()));
    store.announce(true);
    let nobodys = KeptComponent { bytes: Bytes::from_static(b"component"), signature: None };
    store.keep("nobodys", "sha256:1", &nobodys).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), limits(), seen.clone());
    config.versions = Some(store.clone());
    let host = Host::begin(config, folder, seen).await;
    let watch = tokio::time::timeout(Duration::from_hours(2), host.host.watch());
    assert!(watch.await.is_err(), "following never ends");
    assert!(store.digests().is_empty());
}

/// A file is read before the store is asked about it, and its bytes are held until the store has answered.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_large_files_two_are_held_while_the_store_does_not_answer() {
    let fleet = Fleet::new(true);
    let one = fleet.replica(&[]).await;
    fleet.store.switch.hang(true);
    let asked = || fleet.store.records_asked.load(Ordering::SeqCst);
    let before = asked();
    for number in 0..6 {
        let file = File::create(one.host.tools.path().join(format!("large-{number}.wasm"))).unwrap();
        file.set_len(MOST_COMPONENT_BYTES).unwrap();
    }
    one.until(|_| asked() >= before + 2).await;
    // The others would be read by now.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(asked(), before + 2);
}
