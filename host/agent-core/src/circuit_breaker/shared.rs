//! One circuit that many calls pass through at once.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Circuit, CircuitState, Ticket, Transition, Transitions, Verdict};

/// What says the time.
pub type Clock = fn() -> Instant;

/// A circuit and its clock. Clones are the same circuit.
#[derive(Debug, Clone)]
pub struct SharedCircuit {
    timed: Arc<Mutex<Timed>>,
    clock: Clock,
}

#[derive(Debug)]
struct Timed {
    circuit: Circuit,
    /// When a call last ended well.
    last_success: Option<Instant>,
}

/// A call on its way. Dropped before its end, it counts neither way and makes room for another trial.
#[derive(Debug)]
pub struct Pass {
    circuit: SharedCircuit,
    ticket: Ticket,
    ended: bool,
}

impl SharedCircuit {
    /// A closed circuit that does not open before it has seen `min_volume` calls within 10 s.
    pub fn new(min_volume: u64, clock: Clock) -> Self {
        let timed = Timed { circuit: Circuit::new(min_volume, clock()), last_success: None };
        Self { timed: Arc::new(Mutex::new(timed)), clock }
    }

    /// Lets a call through, or says how long until one would be.
    pub fn enter(&self) -> Result<Pass, Duration> {
        let ticket = self.timed.lock().circuit.enter(self.now())?;
        Ok(Pass { circuit: self.clone(), ticket, ended: false })
    }

    /// Where it stands, for metrics.
    pub fn state(&self) -> CircuitState {
        self.timed.lock().circuit.state(self.now())
    }

    /// How often it has turned, for metrics.
    pub fn transitions(&self) -> Transitions {
        self.timed.lock().circuit.transitions()
    }

    /// How long until a call would be let through, if not now.
    pub fn retry_after(&self) -> Option<Duration> {
        self.timed.lock().circuit.retry_after(self.now())
    }

    /// When a call last ended well.
    pub fn last_success(&self) -> Option<Instant> {
        self.timed.lock().last_success
    }

    fn now(&self) -> Instant {
        (self.clock)()
    }
}

impl Pass {
    /// Takes note of how the call ended, and says what that changed.
    pub fn end(mut self, verdict: Verdict) -> Option<Transition> {
        self.ended = true;
        let mut timed = self.circuit.timed.lock();
        if verdict == Verdict::Success {
            timed.last_success = Some(self.circuit.now());
        }
        timed.circuit.end(&self.ticket, verdict, self.circuit.now())
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if !self.ended {
            self.circuit.timed.lock().circuit.end(&self.ticket, Verdict::Neither, self.circuit.now());
        }
    }
}
