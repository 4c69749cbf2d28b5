//! Removing what no record needs.

use std::time::Duration;

use agent_core::words::ComponentRecord;
use futures::future::join_all;

use super::{Bench, DAMAGED, component, line, random_bytes, record_of};

const HOUR: Duration = Duration::from_secs(3600);

async fn keep_all<D: AsRef<str>>(bench: &Bench, digests: &[D]) {
    for digest in digests {
        bench
            .store
            .keep("echo", digest.as_ref(), &component(digest.as_ref().as_bytes(), None))
            .await
            .unwrap();
    }
}

/// Which of the components are there, with the bytes that [`keep_all`] gave them.
async fn kept<'a>(bench: &Bench, digests: &[&'a str]) -> Vec<&'a str> {
    let mut kept = Vec::new();
    for digest in digests {
        if let Some(found) = bench.peer.component("echo", digest).await.unwrap() {
            assert_eq!(found.bytes, digest.as_bytes());
            kept.push(*digest);
        }
    }
    kept
}

pub(crate) async fn what_no_record_names_is_removed_after_the_grace(bench: &Bench) {
    keep_all(bench, &["a", "b"]).await;
    assert_eq!(bench.store.prune(HOUR).await.unwrap(), 0, "they were kept now");
    bench.behind.an_hour_passes().await;
    keep_all(bench, &["b", "c"]).await;
    assert_eq!(bench.store.prune(2 * HOUR).await.unwrap(), 0);
    assert_eq!(bench.store.prune(Duration::MAX).await.unwrap(), 0);
    assert_eq!(kept(bench, &["a", "b", "c"]).await, ["a", "b", "c"]);
    assert_eq!(bench.store.prune(HOUR).await.unwrap(), 1, "the one that was not kept again");
    assert_eq!(kept(bench, &["a", "b", "c"]).await, ["b", "c"]);
    assert_eq!(bench.peer.prune(Duration::ZERO).await.unwrap(), 2);
    assert_eq!(kept(bench, &["a", "b", "c"]).await, [""; 0]);
    keep_all(bench, &["a"]).await;
    assert_eq!(kept(bench, &["a", "b", "c"]).await, ["a"], "it can be kept anew");
}

pub(crate) async fn what_a_record_names_stays(bench: &Bench) {
    let digests = ["version", "shared", "serves", "previous", "known", "nowhere", "Version", "version "];
    keep_all(bench, &digests).await;
    let mut record = ComponentRecord {
        active: Some("serves".into()),
        previous: vec!["previous".into()],
        known: vec!["known".into()],
        ..record_of(["version", "shared", "shared", "gone"])
    };
    bench.store.write("echo", 0, &record, &line("x")).await.unwrap();
    bench.store.write("other", 0, &record_of(["shared"]), &line("x")).await.unwrap();
    bench.behind.an_hour_passes().await;
    assert_eq!(bench.peer.prune(HOUR).await.unwrap(), 5);
    assert_eq!(kept(bench, &digests).await, ["version", "shared", "serves"]);
    record.versions.remove(0);
    bench.store.write("echo", 1, &record, &line("x")).await.unwrap();
    assert_eq!(bench.peer.prune(HOUR).await.unwrap(), 1);
    assert_eq!(kept(bench, &digests).await, ["shared", "serves"]);
    let deleted = ComponentRecord { deleted: true, ..ComponentRecord::default() };
    bench.store.write("echo", 2, &deleted, &line("deleted")).await.unwrap();
    assert_eq!(bench.peer.prune(HOUR).await.unwrap(), 1);
    assert_eq!(kept(bench, &digests).await, ["shared"], "the other component's");
}

pub(crate) async fn what_a_damaged_record_names_stays(bench: &Bench) {
    keep_all(bench, &["a", "b"]).await;
    bench.store.write(DAMAGED, 0, &record_of(["a"]), &line("x")).await.unwrap();
    bench.behind.damage().await;
    assert_eq!(bench.store.prune(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(kept(bench, &["a", "b"]).await, ["a"]);
}

pub(crate) async fn a_record_that_is_written_keeps_its_components_from_the_pruner(bench: &Bench) {
    keep_all(bench, &["a", "b", "c"]).await;
    bench.store.write("echo", 0, &record_of(["a", "b"]), &line("x")).await.unwrap();
    let writing = async {
        for expected in 1..20 {
            let digests = if expected % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
            bench.store.write("echo", expected, &record_of(digests), &line("x")).await.unwrap();
        }
    };
    let pruning = async {
        let mut removed = 0;
        for _ in 0..40 {
            removed += bench.peer.prune(Duration::ZERO).await.unwrap();
        }
        removed
    };
    let ((), removed) = futures::join!(writing, pruning);
    assert_eq!(removed, 1);
    assert_eq!(kept(bench, &["a", "b", "c"]).await, ["a", "b"]);
}

pub(crate) async fn a_component_kept_again_escapes_the_pruner(bench: &Bench) {
    let digests: Vec<String> = (0..24).map(|number| format!("sha256:{number}")).collect();
    keep_all(bench, &digests).await;
    bench.behind.an_hour_passes().await;
    let (wanted, unwanted) = digests.split_at(12);
    let proposals = wanted.iter().enumerate().map(async |(number, digest)| {
        let store = if number % 2 == 0 { &bench.store } else { &bench.peer };
        store.keep("echo", digest, &component(digest.as_bytes(), None)).await.unwrap();
        store.write(digest, 0, &record_of([digest]), &line("proposed")).await.unwrap();
    });
    let prunings =
        [&bench.store, &bench.peer, &bench.store].map(async |store| store.prune(HOUR).await.unwrap());
    let (_, removed) = futures::join!(join_all(proposals), join_all(prunings));
    assert!(removed.iter().sum::<u64>() >= unwanted.len() as u64, "{removed:?}");
    for (digests, are_there) in [(wanted, true), (unwanted, false)] {
        for digest in digests {
            let found = bench.store.component("echo", digest).await.unwrap();
            assert_eq!(found.map(|found| found.bytes), are_there.then(|| digest.clone().into()), "{digest}");
        }
    }
}

pub(crate) async fn a_component_that_is_removed_while_it_is_read_is_whole_or_absent(bench: &Bench) {
    let kept = component(&random_bytes(3_000_000, 3), None);
    for turns in 0..12 {
        bench.store.keep("echo", "sha256:a", &kept).await.unwrap();
        let pruning = async {
            for _ in 0..turns {
                bench.peer.revision().await.unwrap();
            }
            assert_eq!(bench.peer.prune(Duration::ZERO).await.unwrap(), 1);
        };
        let (read, ()) = futures::join!(bench.store.component("echo", "sha256:a"), pruning);
        assert!(read.unwrap().is_none_or(|read| read == kept), "a part of it");
    }
}
