//! Who did what.

use agent_core::words::{AuditLine, ComponentRecord};
use futures::future::join_all;

use super::{Bench, line};
use crate::contract::text::NASTY;

pub(crate) async fn audit_lines_come_newest_first(bench: &Bench) {
    let nasty = AuditLine {
        at: u64::MAX,
        by: NASTY.into(),
        action: NASTY.into(),
        digest: Some("sha256:a".into()),
        detail: NASTY.into(),
    };
    let lines = [line("proposed"), nasty, line("approved"), line("approved")];
    for (expected, line) in (0..).zip(&lines) {
        bench.store.write("echo", expected, &ComponentRecord::default(), line).await.unwrap();
        bench.store.write("other", expected, &ComponentRecord::default(), line).await.unwrap();
    }
    let newest_first: Vec<_> = lines.into_iter().rev().collect();
    for most in [0, 1, 3, 4, 5, u32::MAX] {
        let read = bench.peer.audit("echo", most).await.unwrap();
        assert_eq!(read, newest_first[..newest_first.len().min(most as usize)], "{most}");
    }
    assert_eq!(bench.peer.audit("Echo", 10).await.unwrap(), []);
}

pub(crate) async fn audit_lines_are_in_the_order_of_the_writes(bench: &Bench) {
    // What the lines say of the time has no part in that.
    let writes = (0..12).map(async |writer: u64| {
        let store = if writer.is_multiple_of(2) { &bench.store } else { &bench.peer };
        let name = if writer < 6 { "a" } else { "b" };
        let mut revision = 0;
        loop {
            let line = AuditLine { at: 1000 - revision, ..line(&format!("{}", revision + 1)) };
            match store.write(name, revision, &ComponentRecord::default(), &line).await {
                Ok(_) => return,
                Err(_conflict) => {
                    revision = store.record(name).await.unwrap().map_or(0, |found| found.revision);
                }
            }
        }
    });
    join_all(writes).await;
    for name in ["a", "b"] {
        let lines = bench.store.audit(name, 100).await.unwrap();
        let revisions: Vec<_> = lines.iter().map(|line| line.action.as_str()).collect();
        assert_eq!(revisions, ["6", "5", "4", "3", "2", "1"]);
    }
}
