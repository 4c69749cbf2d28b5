//! What one tool call may use up, and the guard that counts it.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// What one tool call may use up.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest a call may take, host functions included. A tool's `timeout-ms` hint can shorten it.
    pub timeout: Duration,
    /// Most bytes of all linear memories of the component together.
    pub memory_bytes: usize,
    /// Most bytes a tool may return.
    pub output_bytes: usize,
    /// Most log lines of one call; further ones are counted and dropped.
    pub log_lines: u32,
    /// Most bytes of one log line; the rest of it is cut off.
    pub log_line_bytes: usize,
    /// Most calls that hold an instance at the same time; further ones wait their turn within their deadline.
    pub concurrency: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            memory_bytes: 64 << 20,
            output_bytes: 1 << 20,
            log_lines: 100,
            log_line_bytes: 1 << 10,
            concurrency: 128,
        }
    }
}

/// Most core instances of one component. Components made of Rust have three; those that carry an interpreter
/// have a dozen.
pub(crate) const INSTANCES: u32 = 32;

/// Most linear memories of one component. Nearly every component has one; composed ones have one each.
pub(crate) const MEMORIES: u32 = 8;

/// Most tables of one component, likewise two.
pub(crate) const TABLES: u32 = 16;

/// Most elements of all tables of a component together.
const TABLE_ELEMENTS: usize = 100_000;

/// Counts the memory and the tables of one store and refuses what is over the limit.
#[derive(Debug)]
pub(crate) struct Limiter {
    memory_limit: usize,
    memory: usize,
    table_elements: usize,
    denied: bool,
}

impl Limiter {
    pub(crate) fn new(memory_limit: usize) -> Self {
        Self { memory_limit, memory: 0, table_elements: 0, denied: false }
    }

    /// Most bytes the memories had together. They never shrink, so what they have now is the most they had.
    pub(crate) fn peak_memory(&self) -> usize {
        self.memory
    }

    /// Whether the guest ever wanted more than it may have.
    pub(crate) fn denied(&self) -> bool {
        self.denied
    }

    fn grow(&mut self, used: usize, current: usize, desired: usize, limit: usize) -> Option<usize> {
        let total = desired.checked_sub(current).and_then(|more| used.checked_add(more));
        let granted = total.filter(|total| *total <= limit);
        self.denied |= granted.is_none();
        granted
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = self.grow(self.memory, current, desired, self.memory_limit);
        self.memory = granted.unwrap_or(self.memory);
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
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = self.grow(self.table_elements, current, desired, TABLE_ELEMENTS);
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
    use super::*;

    #[test]
    fn memories_share_one_limit() {
        let mut limiter = Limiter::new(1000);
        let mut grow = |current, desired| limiter.memory_growing(current, desired, None).unwrap();
        assert!(grow(0, 600), "the first memory");
        assert!(grow(0, 400), "the second memory, up to the limit");
        assert!(!grow(600, 601), "one byte over it");
        assert!(!grow(0, usize::MAX), "a sum that overflows");
        assert_eq!((limiter.peak_memory(), limiter.denied()), (1000, true));
    }

    #[test]
    fn tables_share_one_limit_of_their_own() {
        let mut limiter = Limiter::new(0);
        assert!(limiter.table_growing(0, TABLE_ELEMENTS, None).unwrap());
        assert!(!limiter.table_growing(0, 1, None).unwrap());
    }
}
