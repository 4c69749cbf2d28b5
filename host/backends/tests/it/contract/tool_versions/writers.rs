//! Records that several replicas write at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent_core::ports::ToolVersions;
use agent_core::ports::tool_versions::VersionsError;
use agent_core::words::ComponentRecord;
use futures::future::join_all;

use super::{Bench, line, record_of};

const WRITERS: usize = 16;

/// Every other one is another process.
fn store_of(bench: &Bench, writer: usize) -> &Arc<dyn ToolVersions> {
    if writer.is_multiple_of(2) { &bench.store } else { &bench.peer }
}

pub(crate) async fn of_sixteen_writers_at_once_one_wins_each_revision(bench: &Bench) {
    for expected in 0..4 {
        let writes = (0..WRITERS).map(async |writer| {
            let text = format!("{expected}.{writer}");
            let (record, line) = (record_of([&text]), line(&text));
            let written = store_of(bench, writer).write("echo", expected, &record, &line).await;
            (text, written)
        });
        let mut winners = Vec::new();
        for (text, written) in join_all(writes).await {
            match written {
                Ok(revision) => {
                    assert_eq!(revision, expected + 1);
                    winners.push(text);
                }
                Err(error) => assert!(matches!(error, VersionsError::Conflict), "{error:?}"),
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        let versioned = bench.store.record("echo").await.unwrap().unwrap();
        assert_eq!((versioned.revision, &versioned.record), (expected + 1, &record_of([&winners[0]])));
        assert_eq!(bench.store.audit("echo", 1).await.unwrap(), [line(&winners[0])]);
        assert_eq!(bench.store.revision().await.unwrap(), expected + 1);
    }
}

/// Adds a text to what is known, however often that has to be begun anew.
async fn add_known(store: &dyn ToolVersions, name: &str, text: &str) {
    loop {
        let before = store.record(name).await.unwrap().unwrap_or_default();
        let mut record = before.record;
        record.known.push(text.to_owned());
        match store.write(name, before.revision, &record, &line(text)).await {
            Ok(_) => return,
            Err(error) => assert!(matches!(error, VersionsError::Conflict), "{error:?}"),
        }
    }
}

pub(crate) async fn no_write_of_sixteen_writers_is_lost(bench: &Bench) {
    let adds = (0..WRITERS).map(async |writer| {
        for number in 0..2 {
            add_known(&**store_of(bench, writer), "echo", &format!("{writer}.{number}")).await;
        }
    });
    join_all(adds).await;
    let versioned = bench.store.record("echo").await.unwrap().unwrap();
    let different: BTreeSet<_> = versioned.record.known.iter().collect();
    assert_eq!((different.len(), versioned.record.known.len()), (2 * WRITERS, 2 * WRITERS));
    assert_eq!(versioned.revision, 2 * WRITERS as u64);
    assert_eq!(bench.peer.revision().await.unwrap(), 2 * WRITERS as u64);
    let lines = bench.peer.audit("echo", 1000).await.unwrap();
    let written: Vec<_> = lines.iter().rev().map(|line| line.action.clone()).collect();
    assert_eq!(written, versioned.record.known, "a line for each write, in the order of the writes");
}

pub(crate) async fn records_and_revision_are_of_one_moment(bench: &Bench) {
    let names = ["a", "b", "c", "d"];
    let writing = async {
        join_all(names.iter().enumerate().map(async |(writer, name)| {
            for expected in 0..10 {
                let record = ComponentRecord::default();
                store_of(bench, writer).write(name, expected, &record, &line("x")).await.unwrap();
            }
        }))
        .await;
    };
    let reading = async {
        let mut last = 0;
        while last < 40 {
            let before = bench.peer.revision().await.unwrap();
            let records = bench.store.records().await.unwrap();
            let after = bench.peer.revision().await.unwrap();
            // A write raises one record's revision and the store's, by one each.
            let sum = records.components.values().map(|versioned| versioned.revision).sum::<u64>();
            assert!(records.revision <= sum, "a write before {} is missing: {sum}", records.revision);
            assert!(last <= before && before <= records.revision && records.revision <= after);
            last = records.revision;
        }
    };
    futures::join!(writing, reading);
}
