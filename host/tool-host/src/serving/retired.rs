//! Versions of components that serve no longer and stay loaded for a while: runs that began with them may be
//! taken up.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::component::Component;

/// Most versions that are kept loaded after they were replaced. A resumed run loads others again.
const MOST_RETIRED: usize = 16;

/// Versions that were replaced, the last one first.
#[derive(Default)]
pub(crate) struct Retired(Mutex<VecDeque<Arc<Component>>>);

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
        let mut kept = self.0.lock();
        kept.retain(|other| other.id != component.id);
        kept.push_front(component);
        kept.truncate(MOST_RETIRED);
    }

    /// A version that is kept.
    pub(crate) fn get(&self, name: &str, digest: &str) -> Option<Arc<Component>> {
        let kept = self.0.lock();
        kept.iter().find(|component| *component.name == *name && component.digest == digest).cloned()
    }
}
