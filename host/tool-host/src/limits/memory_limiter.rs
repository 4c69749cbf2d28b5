//! The bound on a guest's linear memory and tables: wasmtime asks [`Limiter`] before either one grows.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use super::progress::Progress;
use super::{INSTANCES, MEMORIES, TABLE_ELEMENTS, TABLES};

/// Counts the memory and the tables of one store and refuses what is over the limit.
#[derive(Debug)]
pub(crate) struct Limiter {
    memory_limit: usize,
    memory: usize,
    table_elements: usize,
    denied: bool,
    progress: Arc<Progress>,
}

impl Limiter {
    pub(crate) fn new(memory_limit: usize, progress: Arc<Progress>) -> Self {
        Self { memory_limit, memory: 0, table_elements: 0, denied: false, progress }
    }

    /// Whether the guest's last request for memory or a table was denied. One that traps then trapped because
    /// of it.
    pub(crate) fn denied(&self) -> bool {
        self.denied
    }

    /// The guest went on after a denial, so that a later trap has another cause.
    pub(crate) fn clear_denied(&mut self) {
        self.denied = false;
    }

    /// The sum with this growth; nothing when it is refused. What is beyond the `maximum` that a memory or a
    /// table has of its own is refused as well: wasmtime does that only after it has asked here, so it would
    /// count as used for the rest of the call.
    fn grow(
        &mut self,
        used: usize,
        (current, desired): (usize, usize),
        maximum: Option<usize>,
        limit: usize,
    ) -> Option<usize> {
        let total = desired.checked_sub(current).and_then(|more| used.checked_add(more));
        let fits = |total: &usize| *total <= limit && maximum.is_none_or(|maximum| desired <= maximum);
        let granted = total.filter(fits);
        self.denied = granted.is_none();
        granted
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = self.grow(self.memory, (current, desired), maximum, self.memory_limit);
        if let Some(granted) = granted {
            self.memory = granted;
            // Memories never shrink, so what they have now is the most they had.
            self.progress.set_peak_memory(granted);
        }
        Ok(granted.is_some())
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.denied = true;
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = self.grow(self.table_elements, (current, desired), maximum, TABLE_ELEMENTS);
        self.table_elements = granted.unwrap_or(self.table_elements);
        Ok(granted.is_some())
    }

    fn instances(&self) -> usize {
        INSTANCES as usize
    }

    fn tables(&self) -> usize {
        TABLES as usize
    }

    fn memories(&self) -> usize {
        MEMORIES as usize
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn limiter(memory: usize) -> Limiter {
        Limiter::new(memory, Arc::new(Progress::new(Instant::now(), false)))
    }

    #[test]
    fn memories_share_one_limit() {
        let mut limiter = limiter(1000);
        limiter.progress.begin();
        let mut grow = |current, desired| limiter.memory_growing(current, desired, None).unwrap();
        assert!(grow(0, 600), "the first memory");
        assert!(grow(0, 400), "the second memory, up to the limit");
        assert!(!grow(600, 601), "one byte over it");
        assert!(!grow(0, usize::MAX), "a sum that overflows");
        assert_eq!((limiter.progress.cost().peak_memory_bytes, limiter.denied()), (1000, true));
    }

    #[test]
    fn a_guest_that_went_on_after_a_refusal_is_not_said_to_have_died_of_it() {
        let mut limiter = limiter(1000);
        assert!(!limiter.memory_growing(0, 1001, None).unwrap());
        assert!(limiter.denied());
        assert!(limiter.memory_growing(0, 10, None).unwrap());
        assert!(!limiter.denied(), "it wanted less and got it");
        assert!(!limiter.memory_growing(0, 1001, None).unwrap());
        limiter.clear_denied();
        assert!(!limiter.denied());
    }

    #[test]
    fn what_a_memory_may_not_have_by_its_own_maximum_is_not_counted() {
        let mut limiter = limiter(1000);
        limiter.progress.begin();
        assert!(limiter.memory_growing(0, 600, Some(700)).unwrap());
        assert!(!limiter.memory_growing(600, 701, Some(700)).unwrap());
        assert!(limiter.denied());
        assert_eq!(limiter.progress.cost().peak_memory_bytes, 600);
        assert!(limiter.memory_growing(600, 700, Some(700)).unwrap());
        assert!(limiter.memory_growing(0, 300, None).unwrap(), "what is left for another memory");
        assert!(!limiter.table_growing(0, TABLE_ELEMENTS, Some(1)).unwrap());
        assert!(limiter.table_growing(0, TABLE_ELEMENTS, None).unwrap());
    }

    #[test]
    fn tables_share_one_limit_of_their_own() {
        let mut limiter = limiter(0);
        assert!(limiter.table_growing(0, TABLE_ELEMENTS, None).unwrap());
        assert!(!limiter.table_growing(0, 1, None).unwrap());
    }
}
