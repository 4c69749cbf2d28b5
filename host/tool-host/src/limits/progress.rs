//! Phase and cost of a call, readable while it runs, because a call that is stopped or abandoned has a cost
//! too.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::observer::Cost;

/// Shared between a call's store and its caller.
#[derive(Debug)]
pub(crate) struct Progress {
    start: Instant,
    /// Nanoseconds after `start`; 0 when it has not come to that.
    begun: AtomicU64,
    instantiated: AtomicU64,
    ended: AtomicU64,
    peak_memory: AtomicUsize,
    fuel: AtomicU64,
    metering: bool,
    cancelled: AtomicBool,
    ticked: AtomicBool,
}

impl Progress {
    pub(crate) fn new(start: Instant, metering: bool) -> Self {
        Self {
            start,
            begun: AtomicU64::new(0),
            instantiated: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            peak_memory: AtomicUsize::new(0),
            fuel: AtomicU64::new(0),
            metering,
            cancelled: AtomicBool::new(false),
            ticked: AtomicBool::new(false),
        }
    }

    /// The store is being made.
    pub(crate) fn begin(&self) {
        self.begun.store(self.now(), Relaxed);
    }

    /// The guest begins to run.
    pub(crate) fn instantiated(&self) {
        self.instantiated.store(self.now(), Relaxed);
    }

    /// The guest returned or was stopped.
    pub(crate) fn ended(&self) {
        self.ended.store(self.now(), Relaxed);
    }

    /// The most bytes that its memories have had together.
    pub(crate) fn set_peak_memory(&self, bytes: usize) {
        self.peak_memory.store(bytes, Relaxed);
    }

    pub(crate) fn set_fuel(&self, used: u64) {
        self.fuel.store(used, Relaxed);
    }

    /// Nobody waits for the call any more.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// The clock has ticked while the guest computed.
    pub(crate) fn tick(&self) {
        self.ticked.store(true, Relaxed);
    }

    pub(crate) fn has_ticked(&self) -> bool {
        self.ticked.load(Relaxed)
    }

    /// What the call used up until now.
    pub(crate) fn cost(&self) -> Cost {
        let begun = self.begun.load(Relaxed);
        if begun == 0 {
            return Cost::default();
        }
        let or_now = |at: u64| if at == 0 { self.now() } else { at };
        let (instantiated, ended) = (self.instantiated.load(Relaxed), or_now(self.ended.load(Relaxed)));
        let run = if instantiated == 0 { 0 } else { ended.saturating_sub(instantiated) };
        let made = if instantiated == 0 { ended } else { instantiated };
        Cost {
            instantiate: Duration::from_nanos(made.saturating_sub(begun)),
            run: Duration::from_nanos(run),
            peak_memory_bytes: self.peak_memory.load(Relaxed),
            fuel: self.metering.then(|| self.fuel.load(Relaxed)),
        }
    }

    /// From the beginning until the store was being made: the wait for permits, and checks.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.begun.load(Relaxed))
    }

    /// Since the call, or this attempt at it, began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }
}
