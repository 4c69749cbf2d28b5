//! What the replicas count in a trial.

use std::time::Duration;

use agent_core::ports::tool_versions::{MOST_ID_BYTES, VersionsError};
use agent_core::words::{CallCounts, ComponentRecord, TrialCounts, UserCounts};
use futures::future::join_all;

use super::{Bench, DAMAGED, line, trial};

/// Counts that all differ.
fn counts(of: u64, durations: &[u64]) -> TrialCounts {
    let calls = |times: u64, durations: &[u64]| CallCounts {
        calls: times,
        failed: 2 * times,
        trapped: 3 * times,
        compared: 4 * times,
        agreed: 5 * times,
        durations: durations.into(),
    };
    let of_user = UserCounts { old: calls(of, durations), ..UserCounts::default() };
    let users = (of > 0).then(|| ("u1".to_owned(), of_user));
    TrialCounts { old: calls(of, durations), new: calls(100 * of, &[]), users: users.into_iter().collect() }
}

pub(crate) async fn counts_are_added_each_to_its_own(bench: &Bench) {
    let added = |counts: &TrialCounts| (counts.old.calls, counts.old.durations.clone());
    assert_eq!(bench.store.add_counts("t1", &counts(1, &[0, 1])).await.unwrap(), counts(1, &[0, 1]));
    assert_eq!(bench.peer.add_counts("t1", &counts(2, &[7, 1, 3])).await.unwrap(), counts(3, &[7, 2, 3]));
    assert_eq!(bench.store.add_counts("t1", &counts(3, &[1])).await.unwrap(), counts(6, &[8, 2, 3]));
    let other = bench.store.add_counts("t2", &counts(1, &[])).await.unwrap();
    assert_eq!(added(&other), (1, vec![]), "another trial");
    let mut most = TrialCounts::default();
    most.new.failed = u64::MAX;
    for _ in 0..2 {
        let sum = bench.store.add_counts("t3", &most).await.unwrap();
        assert_eq!(sum, most, "what does not fit stays at the largest number");
    }
}

pub(crate) async fn counts_of_eight_replicas_at_once_all_count(bench: &Bench) {
    let adds = (0..8).map(async |replica: u64| {
        let store = if replica.is_multiple_of(2) { &bench.store } else { &bench.peer };
        let mut last = 0;
        for _ in 0..5 {
            let sum = store.add_counts("t1", &counts(1, &[1, 0, 2])).await.unwrap();
            assert!(sum.old.calls > last, "its own counts at least");
            last = sum.old.calls;
        }
        last
    });
    let sums = join_all(adds).await;
    assert_eq!(sums.iter().max(), Some(&40), "the last one saw all: {sums:?}");
    let sum = bench.store.add_counts("t1", &TrialCounts::default()).await.unwrap();
    assert_eq!(sum, counts(40, &[40, 0, 80]));
}

pub(crate) async fn nothing_is_added_to_read_the_counts(bench: &Bench) {
    let nothing = TrialCounts::default();
    let longest = "\0".repeat(MOST_ID_BYTES);
    for id in ["t1", "", &longest] {
        assert_eq!(bench.store.add_counts(id, &nothing).await.unwrap(), nothing);
        bench.store.add_counts(id, &counts(1, &[3])).await.unwrap();
        assert_eq!(bench.peer.add_counts(id, &nothing).await.unwrap(), counts(1, &[3]));
    }
    for counts in [nothing, counts(1, &[])] {
        let error = bench.store.add_counts(&(longest.clone() + "x"), &counts).await.unwrap_err();
        assert!(matches!(error, VersionsError::TooLarge(_)), "{error:?}");
    }
}

pub(crate) async fn counts_that_no_record_names_are_removed(bench: &Bench) {
    let with_trial = |id: &str| ComponentRecord { trial: Some(trial(id)), ..ComponentRecord::default() };
    for id in ["t1", "t2", "of nobody"] {
        bench.store.add_counts(id, &counts(1, &[])).await.unwrap();
    }
    bench.store.write("echo", 0, &with_trial("t1"), &line("canary")).await.unwrap();
    bench.store.write(DAMAGED, 0, &with_trial("t2"), &line("canary")).await.unwrap();
    bench.behind.damage().await;
    bench.store.prune(Duration::from_secs(3600)).await.unwrap();
    let read = async |id: &str| bench.peer.add_counts(id, &TrialCounts::default()).await.unwrap().old.calls;
    assert_eq!((read("t1").await, read("t2").await, read("of nobody").await), (1, 1, 0));
    bench.store.write("echo", 1, &with_trial("t3"), &line("canary")).await.unwrap();
    bench.store.prune(Duration::ZERO).await.unwrap();
    assert_eq!((read("t1").await, read("t2").await), (0, 1), "the trial is another one");
}

pub(crate) async fn counts_of_first_calls_stay_while_that_version_serves(bench: &Bench) {
    let serving = |since| ComponentRecord {
        active: Some("sha256:a".into()),
        active_since: Some(since),
        trial: Some(trial("t1")),
        ..ComponentRecord::default()
    };
    let (first, second) =
        (serving(5).first_calls_id("echo").unwrap(), serving(6).first_calls_id("echo").unwrap());
    for id in ["t1", &first, &second] {
        bench.store.add_counts(id, &counts(1, &[])).await.unwrap();
    }
    let read = async |id: &str| bench.peer.add_counts(id, &TrialCounts::default()).await.unwrap().old.calls;
    bench.store.write("echo", 0, &serving(5), &line("proposed")).await.unwrap();
    bench.store.prune(Duration::ZERO).await.unwrap();
    assert_eq!((read("t1").await, read(&first).await, read(&second).await), (1, 1, 0));
    bench.store.write("echo", 1, &serving(6), &line("proposed")).await.unwrap();
    bench.store.prune(Duration::ZERO).await.unwrap();
    assert_eq!((read("t1").await, read(&first).await), (1, 0), "it came to serve another time");
}
