//! Live streams: what a reader is shown is stored, comes without a gap, and comes to its end; what is watched
//! is forgotten with the last watcher.

use std::sync::Arc;

use agent_core::ports::{Deltas as _, Epoch, Journal as _};
use agent_core::testing::TestRuns;
use agent_core::words::Event;
use shuttle::future::{block_on, spawn};

use super::live::{Live, LiveJournal, LiveRuns};
use crate::locks::point;

const RUN: &str = "run_1";
const EVENTS: u64 = 3;
const READERS: usize = 2;
const WORDS: [&str; 2] = ["one ", "two"];

pub(crate) fn scenario() {
    block_on(async {
        let (store, live) = (Arc::new(TestRuns::default()), LiveRuns::default());
        let journal = Arc::new(LiveJournal::new(store.clone(), store.clone(), live.clone()));
        let readers: Vec<_> =
            (0..READERS).map(|_| spawn(read(live.clone(), journal.clone(), store.clone()))).collect();
        let run = live.run(RUN);
        if let Some(deltas) = run.deltas(0) {
            WORDS.iter().for_each(|words| deltas.text(words));
        }
        for number in 0..EVENTS {
            let appended = journal.append(RUN, Epoch(1), number, &[Event::HandedBack]).await;
            assert!(appended.is_ok(), "{appended:?}");
        }
        for reader in readers {
            assert!(reader.await.is_ok());
        }
        assert_eq!(live.watched(), 0, "nothing is left behind");
    });
}

/// As the readers of streams: watched before the journal is read, so that nothing happens in between.
async fn read(live: LiveRuns, journal: Arc<LiveJournal>, store: Arc<TestRuns>) {
    let mut watcher = live.watch(RUN);
    let kept = journal.read(RUN, 0).await;
    let mut next = kept.map_or(0, |events| events.len() as u64);
    let mut told = String::new();
    while next < EVENTS {
        match watcher.next().await {
            Ok(Live::Stored(stored)) => {
                point();
                let end = stored.first + stored.events.len() as u64;
                assert!(
                    store.events(RUN).len() as u64 >= end,
                    "event {} is shown and not stored",
                    stored.first
                );
                assert!(stored.first <= next, "event {next} is missing before event {}", stored.first);
                next = next.max(end);
            }
            Ok(Live::Reply(new)) => {
                if new.is_anew {
                    told.clear();
                }
                told.push_str(&new.text);
                assert!(WORDS.concat().ends_with(&told) || WORDS.concat().starts_with(&told), "{told:?}");
            }
            Ok(Live::Progress(_)) => {}
            Err(behind) => return assert!(next > EVENTS, "three events are not too many: {behind}"),
        }
    }
}
