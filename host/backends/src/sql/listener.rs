//! The stores of this process that hear what others announce on PostgreSQL, and which of its tasks listens
//! for them (`listening.rs`).

use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// Where jobs, their ends and versions of tools are announced, in each database by itself.
pub(super) const JOBS: &str = "agent_host_jobs";
pub(super) const ENDED_JOBS: &str = "agent_host_ended";
pub(super) const TOOLS: &str = "agent_host_tools";

/// A store that announcements are for. It is told on the task that listens, so it does not wait.
pub(super) trait Hears: Send + Sync {
    /// From now on announcements arrive, or do not. Either way some may have been missed.
    fn listening(&self, is_listening: bool);

    /// An announcement has arrived.
    fn hear(&self, channel: &str, text: &str);

    /// Nothing can be heard although the database answers, because of this.
    fn deaf(&self, _why: &str) {}
}

/// What listens on one database, and for whom.
#[derive(Default)]
pub(super) struct Listener {
    stores: Mutex<Vec<Weak<dyn Hears>>>,
    /// Held by the caller that listens; another takes over when that one is dropped.
    pub(super) turn: tokio::sync::Mutex<()>,
}

impl Listener {
    /// From now on announcements are for this store too.
    pub(super) fn add(&self, store: &Arc<impl Hears + 'static>) {
        let store: Weak<dyn Hears> = Arc::downgrade(&(store.clone() as Arc<dyn Hears>));
        let mut stores = self.stores.lock();
        stores.retain(|store| store.strong_count() > 0);
        stores.push(store);
    }

    /// Tells every store that is still there.
    pub(super) fn each(&self, tell: impl Fn(&dyn Hears)) {
        let stores: Vec<_> = self.stores.lock().iter().filter_map(Weak::upgrade).collect();
        stores.iter().for_each(|store| tell(&**store));
    }
}
