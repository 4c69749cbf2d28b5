//! Versions of components that serve no longer and stay loaded for a while: runs that began with them may be
//! taken up. [`Swapped`] is what serves, with what it replaced.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

use crate::component::Component;

/// Most versions that are kept loaded after they were replaced. A resumed run loads others again.
const MOST_RETIRED: usize = 16;

/// Versions that were replaced, the last one first.
#[derive(Default)]
pub(crate) struct Retired {
    kept: Mutex<VecDeque<Arc<Component>>>,
    /// Held while a version is loaded that is to be kept.
    loading: AsyncMutex<()>,
}

impl Retired {
    /// Keeps those that served and do not any more.
    pub(crate) fn keep(&self, before: &[Arc<Component>], now: &[Arc<Component>]) {
        for component in before {
            if !now.iter().any(|other| other.id == component.id) {
                self.add(component.clone());
            }
        }
    }

    /// Keeps a version.
    pub(crate) fn add(&self, component: Arc<Component>) {
        let mut kept = self.kept.lock();
        kept.retain(|other| other.id != component.id);
        kept.push_front(component);
        kept.truncate(MOST_RETIRED);
    }

    /// Waits until nothing else is being loaded to be kept.
    pub(crate) async fn one_load(&self) -> MutexGuard<'_, ()> {
        self.loading.lock().await
    }

    /// A version that is kept.
    pub(crate) fn get(&self, name: &str, digest: &str) -> Option<Arc<Component>> {
        let kept = self.kept.lock();
        kept.iter().find(|component| *component.name == *name && component.digest == digest).cloned()
    }
}

/// Something that has components and is swapped whole. Whoever finds the next one finds the versions that it
/// replaced as well.
pub(crate) struct Swapped<T> {
    current: ArcSwap<T>,
    retired: Retired,
}

impl<T> Swapped<T> {
    /// The first one, which replaces nothing.
    pub(crate) fn new(first: T) -> Self {
        Self { current: ArcSwap::from_pointee(first), retired: Retired::default() }
    }

    /// What serves at this moment.
    pub(crate) fn load(&self) -> Guard<Arc<T>> {
        self.current.load()
    }

    /// The versions that served before.
    pub(crate) fn retired(&self) -> &Retired {
        &self.retired
    }

    pub(crate) fn swap(&self, next: T, components: impl Fn(&T) -> &[Arc<Component>]) {
        let (before, next) = (self.current.load_full(), Arc::new(next));
        self.retired.keep(components(&before), components(&next));
        self.current.store(next);
    }
}
