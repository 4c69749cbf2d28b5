//! A journal that tells the watchers of a run what was appended to it, once it is stored.

use std::sync::Arc;

use agent_core::ports::{Appended, Epoch, Journal, JournalResult};
use agent_core::words::Event;
use boxed_async::boxed_async;

use super::{LiveRuns, Stored};

/// Appends to one journal and reads from another, which has all that was appended and may have more.
pub struct LiveJournal {
    appended_to: Arc<dyn Journal>,
    read_from: Arc<dyn Journal>,
    live: LiveRuns,
}

impl LiveJournal {
    /// Tells the watchers of `live`.
    pub fn new(appended_to: Arc<dyn Journal>, read_from: Arc<dyn Journal>, live: LiveRuns) -> Self {
        Self { appended_to, read_from, live }
    }
}

#[boxed_async]
impl Journal for LiveJournal {
    async fn append(&self, run_id: &str, epoch: Epoch, first: u64, events: &[Event]) -> JournalResult {
        self.appended_to.append(run_id, epoch, first, events).await?;
        self.live.tell(run_id, || Stored { first, events: events.into() });
        Ok(())
    }

    /// What is only on its way is found by whoever reads at the end.
    async fn append_last(
        &self,
        run_id: &str,
        epoch: Epoch,
        first: u64,
        events: &[Event],
    ) -> JournalResult<Appended> {
        let appended = self.appended_to.append_last(run_id, epoch, first, events).await?;
        if appended == Appended::Stored {
            self.live.tell(run_id, || Stored { first, events: events.into() });
        }
        Ok(appended)
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        self.read_from.read(run_id, from).await
    }

    async fn read_page(&self, run_id: &str, from: u64, most: u32) -> JournalResult<Vec<Event>> {
        self.read_from.read_page(run_id, from, most).await
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::TestRuns;

    use super::*;
    use crate::live::Live;

    #[tokio::test]
    async fn what_is_not_stored_is_not_told() {
        let (store, live) = (Arc::new(TestRuns::default()), LiveRuns::default());
        let journal = LiveJournal::new(store.clone(), store.clone(), live.clone());
        let mut watcher = live.watch("run_1");
        store.switch.fail(true);
        journal.append("run_1", Epoch(1), 0, &[Event::HandedBack]).await.unwrap_err();
        store.switch.fail(false);
        journal.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
        let Ok(Live::Stored(Stored { first: 0, events })) = watcher.next().await else { panic!() };
        assert_eq!(*events, [Event::Cancelled]);
        assert_eq!(journal.read("run_1", 0).await, Ok(vec![Event::Cancelled]));
    }
}
