//! One circuit that many calls pass through at once.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Circuit, CircuitState, Ticket, Transition, Transitions, Verdict};

/// A circuit and the clock. Clones are the same circuit.
#[derive(Debug, Clone)]
pub struct SharedCircuit(Arc<Mutex<Timed>>);

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
    pub fn new(min_volume: u64) -> Self {
        Self(Arc::new(Mutex::new(Timed { circuit: Circuit::new(min_volume, now()), last_success: None })))
    }

    /// Lets a call through, or says how long until one would be.
    pub fn enter(&self) -> Result<Pass, Duration> {
        let ticket = self.0.lock().circuit.enter(now())?;
        Ok(Pass { circuit: self.clone(), ticket, ended: false })
    }

    /// Where it stands, for metrics.
    pub fn state(&self) -> CircuitState {
        self.0.lock().circuit.state(now())
    }

    /// How often it has turned, for metrics.
    pub fn transitions(&self) -> Transitions {
        self.0.lock().circuit.transitions()
    }

    /// How long until a call would be let through, if not now.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.lock().circuit.retry_after(now())
    }

    /// When a call last ended well.
    pub fn last_success(&self) -> Option<Instant> {
        self.0.lock().last_success
    }
}

impl Pass {
    /// Takes note of how the call ended, and says what that changed.
    pub fn end(mut self, verdict: Verdict) -> Option<Transition> {
        self.ended = true;
        let mut timed = self.circuit.0.lock();
        if verdict == Verdict::Success {
            timed.last_success = Some(Instant::now());
        }
        timed.circuit.end(&self.ticket, verdict, now())
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if !self.ended {
            self.circuit.0.lock().circuit.end(&self.ticket, Verdict::Neither, now());
        }
    }
}

/// By tokio's clock, which tests can stop.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}
