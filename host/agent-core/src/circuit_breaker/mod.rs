//! A circuit breaker as a value: the arithmetic of the reference's breaker, with the time as an argument.
//!
//! What does not belong here: waiting, clocks, and what counts as a failure of whom. Those who pass through a
//! circuit know that; [`SharedCircuit`] lets several of them pass through the same one.

mod shared;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

pub use shared::{Clock, Pass, SharedCircuit};

/// Default of `CIRCUIT_MIN_VOLUME` (host/docs/interface/decisions-http.md#capacity-and-time): fewer calls
/// than that never open the circuit.
pub const DEFAULT_MIN_VOLUME: u64 = 5;

/// How long an open circuit turns everybody away (host/docs/interface/errors-and-limits.md#errors).
pub const RESET_TIMEOUT: Duration = Duration::from_secs(30);

/// More failures than that open the circuit, in percent of the calls
/// (host/docs/interface/errors-and-limits.md#errors).
const ERROR_THRESHOLD: u64 = 50;

/// The window that calls are counted in is this many buckets of this length
/// (host/docs/interface/node-clients.md#circuit-breaker).
const BUCKETS: usize = 10;
const BUCKET: Duration = Duration::from_secs(1);

/// How long to wait when one call is being tried: it may be over in a moment.
const TRIAL_UNDER_WAY: Duration = Duration::from_secs(1);

/// Counts calls and their failures in a rolling window, and turns calls away after too many of them.
///
/// As in the reference, a call counts when it begins and its failure when it ends: calls that take 30 s to
/// fail open the circuit only while others keep coming.
#[derive(Debug)]
pub struct Circuit {
    min_volume: u64,
    /// When the window was begun; buckets are numbered from there.
    epoch: Instant,
    /// Number of the newest bucket. Bucket `n` is at `n % BUCKETS`.
    newest: u64,
    buckets: [Bucket; BUCKETS],
    state: CircuitPhase,
    transitions: Transitions,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Calls, those that were turned away included.
    fires: u64,
    failures: u64,
}

#[derive(Debug, Clone, Copy)]
enum CircuitPhase {
    Closed,
    Open { since: Instant },
    HalfOpen { trial_under_way: bool },
}

/// Where a circuit stands, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    /// Everybody passes.
    Closed,
    /// Nobody passes.
    Open,
    /// One call passes, to see how it goes.
    HalfOpen,
}

/// A call that was let through. It has to be given back to [`Circuit::end`].
#[derive(Debug)]
pub struct Ticket {
    bucket: u64,
    is_trial: bool,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// What is behind the circuit works.
    Success,
    /// The service behind the circuit does not work.
    Failure,
    /// The call says nothing about it, and is not counted.
    Neither,
}

/// What a call's end did to a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// The circuit opened.
    Opened,
    /// The circuit closed.
    Closed,
}

/// How often a circuit has turned, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transitions {
    /// How often it opened. A trial that fails counts.
    pub opened: u64,
    /// How often it closed.
    pub closed: u64,
}

impl Circuit {
    /// A closed circuit that does not open before it has seen `min_volume` calls within its window.
    pub fn new(min_volume: u64, now: Instant) -> Self {
        let buckets = [Bucket::default(); BUCKETS];
        Self {
            min_volume,
            epoch: now,
            newest: 0,
            buckets,
            state: CircuitPhase::Closed,
            transitions: Transitions::default(),
        }
    }

    /// Lets a call through, or says how long until one would be.
    pub fn enter(&mut self, now: Instant) -> Result<Ticket, Duration> {
        self.roll(now);
        self.bucket().fires += 1;
        match &mut self.state {
            CircuitPhase::Closed => Ok(Ticket { bucket: self.newest, is_trial: false }),
            CircuitPhase::Open { since } => {
                let left = RESET_TIMEOUT.saturating_sub(now.saturating_duration_since(*since));
                if !left.is_zero() {
                    return Err(left);
                }
                self.state = CircuitPhase::HalfOpen { trial_under_way: true };
                Ok(Ticket { bucket: self.newest, is_trial: true })
            }
            CircuitPhase::HalfOpen { trial_under_way: true } => Err(TRIAL_UNDER_WAY),
            CircuitPhase::HalfOpen { trial_under_way } => {
                *trial_under_way = true;
                Ok(Ticket { bucket: self.newest, is_trial: true })
            }
        }
    }

    /// Takes note of how a call ended, and says what that changed.
    pub fn end(&mut self, ticket: &Ticket, verdict: Verdict, now: Instant) -> Option<Transition> {
        self.roll(now);
        match verdict {
            Verdict::Success => {}
            Verdict::Failure => self.bucket().failures += 1,
            Verdict::Neither => self.uncount(ticket),
        }
        match (self.state, verdict) {
            (CircuitPhase::Closed, Verdict::Failure) if self.fails_too_often() => self.open(now),
            (CircuitPhase::HalfOpen { .. }, Verdict::Failure) if ticket.is_trial => self.open(now),
            (CircuitPhase::HalfOpen { .. }, Verdict::Success) if ticket.is_trial => {
                // The window is not cleared (host/docs/interface/node-clients.md#circuit-breaker): one
                // failure soon after may open the circuit again.
                self.state = CircuitPhase::Closed;
                self.transitions.closed += 1;
                Some(Transition::Closed)
            }
            (CircuitPhase::HalfOpen { .. }, Verdict::Neither) if ticket.is_trial => {
                self.state = CircuitPhase::HalfOpen { trial_under_way: false };
                None
            }
            // A call that began before the circuit opened says nothing about how things are now.
            _ => None,
        }
    }

    /// Where it stands.
    pub fn state(&self, now: Instant) -> CircuitState {
        match self.state {
            CircuitPhase::Closed => CircuitState::Closed,
            CircuitPhase::Open { since } if now.saturating_duration_since(since) < RESET_TIMEOUT => {
                CircuitState::Open
            }
            CircuitPhase::Open { .. } | CircuitPhase::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    /// How often it has turned.
    pub fn transitions(&self) -> Transitions {
        self.transitions
    }

    /// How long until a call would be let through, if not now.
    pub fn retry_after(&self, now: Instant) -> Option<Duration> {
        match self.state {
            CircuitPhase::Closed | CircuitPhase::HalfOpen { trial_under_way: false } => None,
            CircuitPhase::HalfOpen { trial_under_way: true } => Some(TRIAL_UNDER_WAY),
            CircuitPhase::Open { since } => {
                let left = RESET_TIMEOUT.saturating_sub(now.saturating_duration_since(since));
                (!left.is_zero()).then_some(left)
            }
        }
    }

    fn open(&mut self, now: Instant) -> Option<Transition> {
        self.state = CircuitPhase::Open { since: now };
        self.transitions.opened += 1;
        Some(Transition::Opened)
    }

    fn fails_too_often(&self) -> bool {
        let fires: u64 = self.buckets.iter().map(|bucket| bucket.fires).sum();
        let failures: u64 = self.buckets.iter().map(|bucket| bucket.failures).sum();
        fires >= self.min_volume && failures * 100 > fires * ERROR_THRESHOLD
    }

    /// Empties the buckets that time has passed over.
    fn roll(&mut self, now: Instant) {
        let number = now.saturating_duration_since(self.epoch).as_nanos() / BUCKET.as_nanos();
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        let passed = number.saturating_sub(self.newest).min(BUCKETS as u64);
        self.newest = self.newest.max(number);
        for back in 0..passed {
            *self.bucket_at(self.newest - back) = Bucket::default();
        }
    }

    /// Takes a call out of its bucket, if that has not left the window.
    fn uncount(&mut self, ticket: &Ticket) {
        if self.newest - ticket.bucket < BUCKETS as u64 {
            let bucket = self.bucket_at(ticket.bucket);
            bucket.fires = bucket.fires.saturating_sub(1);
        }
    }

    fn bucket(&mut self) -> &mut Bucket {
        self.bucket_at(self.newest)
    }

    fn bucket_at(&mut self, number: u64) -> &mut Bucket {
        &mut self.buckets[(number % BUCKETS as u64) as usize]
    }
}

impl CircuitState {
    /// The state as it stands in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}
