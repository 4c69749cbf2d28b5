//! Keeps jobs from being spent on a model provider that is down: while it is, nothing is claimed but one job
//! at a time, to see whether it answers again, and what it failed goes back to the queue without an attempt.
//!
//! The circuit that requests pass through is asked as well, but does not suffice: it counts calls within ten
//! seconds, and five slots whose calls take thirty seconds to fail never open it.
//!
//! What does not belong here: which errors are the provider's (`retry_or_fail.rs`).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::circuit_breaker::{CircuitState, RESET_TIMEOUT, SharedCircuit};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

/// How long nothing is claimed after a failure, at first and at most. One trial costs a run with all its
/// retries.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = RESET_TIMEOUT;

/// The longest pause that a provider may ask for with its `Retry-After`.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// A call that ended well during a run, and within this time before its failure, shows that the provider
/// works: then the failure may be the job's own, such as a prompt that takes longer than any call may. So
/// does one that ended well since the last failure of a job that was handed back before.
const RECENT: Duration = Duration::from_secs(5);

/// How often in a row, without any progress of its run, a job is handed back for the provider's sake. Then
/// its failures count: a job that alone is in the queue and times out whenever it is tried must not live for
/// ever. With the delays of [`delay`] that is more than half an hour.
pub(super) const MOST_HAND_BACKS: u32 = 20;

/// How many runs that were handed back are remembered; forgetting them costs no job an attempt.
const MOST_REMEMBERED: usize = 10_000;

/// Longest delay of a job that was handed back.
const LONGEST_DELAY: Duration = Duration::from_secs(2 * 60);

/// Why a run failed that its provider is to blame for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// No connection, or it broke: never about a job.
    Unreachable,
    /// Too many calls or tokens; never about a job. How long the provider wants to be left alone, if it says
    /// so.
    RateLimited(Option<Duration>),
    /// The provider answered with a failure of its own, or not in time. With a provider that works for others
    /// it is the job's own fault.
    Unwell(Option<Duration>),
}

/// What the workers of one process know of an outage of their provider.
#[derive(Debug)]
pub(super) struct ProviderOutage {
    circuit: SharedCircuit,
    state: Mutex<OutageState>,
    changed: Notify,
    /// Held by the worker whose job is the trial.
    trial: Arc<Semaphore>,
}

#[derive(Debug)]
struct OutageState {
    down: Option<Down>,
    pause: Backoff,
    /// Runs that were handed back for the provider's sake, and when each failed last.
    handed_back: HashMap<String, Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Down {
    since: Instant,
    /// Nothing is claimed before.
    until: Instant,
}

/// The right to claim one job and to run it. While the provider is down there is one at a time, for a trial.
#[derive(Debug)]
pub(super) struct ClaimPermit {
    trial: Option<OwnedSemaphorePermit>,
}

enum Passage {
    Free,
    Trial,
    Wait(Duration),
}

/// How often a worker that waits for the provider polls whether it works again.
const POLL: Duration = Duration::from_secs(1);

impl ProviderOutage {
    pub(super) fn new(circuit: SharedCircuit) -> Self {
        let pause = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
        let state = OutageState { down: None, pause, handed_back: HashMap::new() };
        Self { circuit, state: Mutex::new(state), changed: Notify::new(), trial: Arc::new(Semaphore::new(1)) }
    }

    /// Waits until a job may be claimed. Nothing is lost when the future is dropped.
    pub(super) async fn claim_permit(&self) -> ClaimPermit {
        loop {
            // Registered before the look, so that no change falls in between.
            let changed = self.changed.notified();
            match self.passage(Instant::now()) {
                Passage::Free => return ClaimPermit { trial: None },
                Passage::Wait(pause) => {
                    tokio::select! {
                        biased;
                        // Requests may find out earlier that the provider works, and do not notify.
                        () = sleep(pause.min(POLL)) => {}
                        () = changed => {}
                    }
                }
                Passage::Trial => {
                    tokio::select! {
                        biased;
                        trial = self.trial.clone().acquire_owned() => {
                            if matches!(self.passage(Instant::now()), Passage::Trial) {
                                // The semaphore is never closed.
                                return ClaimPermit { trial: trial.ok() };
                            }
                        }
                        // A trial may take long after others have been answered.
                        () = sleep(POLL) => {}
                        () = changed => {}
                    }
                }
            }
        }
    }

    /// The right to claim a job, if there is one without waiting and without a trial.
    pub(super) fn claim_permit_now(&self) -> Option<ClaimPermit> {
        matches!(self.passage(Instant::now()), Passage::Free).then_some(ClaimPermit { trial: None })
    }

    /// The provider answered one of our runs.
    pub(super) fn answered(&self) {
        let mut state = self.state.lock();
        state.pause.reset();
        if let Some(down) = state.down.take() {
            info!(
                outage_ms = down.since.elapsed().as_millis(),
                "jobs are claimed again: the provider answers"
            );
            self.changed.notify_waiters();
        }
    }

    /// The provider failed a run that began then. True when the job is not to pay for it.
    pub(super) fn failed(&self, permit: &ClaimPermit, fault: Fault, began: Instant, run_id: &str) -> bool {
        let now = Instant::now();
        let success = self.last_success();
        let mut state = self.state.lock();
        let before = state.handed_back.get(run_id).copied();
        let works = success.is_some_and(|at| {
            let during_the_run = at >= began && now.saturating_duration_since(at) < RECENT;
            during_the_run || before.is_some_and(|before| at > before)
        });
        if works && matches!(fault, Fault::Unwell(_)) {
            // One answer to others costs a job one attempt: the provider may have gone down behind it.
            if let Some(before) = state.handed_back.get_mut(run_id) {
                *before = now;
            }
            return false;
        }
        if state.handed_back.len() >= MOST_REMEMBERED {
            state.handed_back.clear();
        }
        state.handed_back.insert(run_id.to_owned(), now);
        if works {
            // Other runs are answered: only this job waits.
            return true;
        }
        // Runs that were under way when it went down say nothing new about it.
        if permit.trial.is_some() || state.down.is_none() {
            let pause = state.pause.next().max(fault.retry_after().unwrap_or_default());
            let since = state.down.map_or(now, |down| down.since);
            if state.down.is_none() {
                warn!(pause_ms = pause.as_millis(), "no jobs are claimed while the provider fails");
            }
            state.down = Some(Down { since, until: now + pause });
        }
        true
    }

    /// How long until the next job may be claimed.
    pub(super) fn remaining(&self) -> Duration {
        let own = self.state.lock().down.map(|down| down.until.saturating_duration_since(Instant::now()));
        own.unwrap_or_default().max(self.circuit.retry_after().unwrap_or_default())
    }

    fn last_success(&self) -> Option<Instant> {
        self.circuit.last_success().map(Instant::from_std)
    }

    fn passage(&self, now: Instant) -> Passage {
        let circuit = match (self.circuit.state(), self.circuit.retry_after()) {
            (CircuitState::Closed, _) => Passage::Free,
            (CircuitState::Open | CircuitState::HalfOpen, Some(wait)) => Passage::Wait(wait),
            (CircuitState::Open | CircuitState::HalfOpen, None) => Passage::Trial,
        };
        let mut state = self.state.lock();
        // Requests have found out that it works.
        if let (Some(down), Some(success)) = (state.down, self.last_success())
            && success > down.since
        {
            state.down = None;
            state.pause.reset();
        }
        match (state.down, circuit) {
            (_, Passage::Wait(wait)) => Passage::Wait(wait),
            (Some(down), _) if now < down.until => Passage::Wait(down.until - now),
            (Some(_), _) => Passage::Trial,
            (None, circuit) => circuit,
        }
    }
}

impl Fault {
    /// How long the provider wants to be left alone, if it says so.
    pub(super) fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Unreachable => None,
            Self::RateLimited(asked) | Self::Unwell(asked) => asked.map(|asked| asked.min(LONGEST_PAUSE)),
        }
    }
}

/// How long a job waits that was handed back so many times before: longer each time, so that the next trial
/// is another job's if there is one, and one job that cannot be answered does not keep the others waiting.
pub(super) fn delay(remaining: Duration, hand_backs: u32) -> Duration {
    (remaining.max(FIRST_PAUSE) * (hand_backs + 1)).min(LONGEST_DELAY.max(remaining))
}

#[cfg(test)]
mod tests {
    use agent_core::circuit_breaker::{DEFAULT_MIN_VOLUME, Verdict};
    use futures::FutureExt;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn gate() -> (ProviderOutage, SharedCircuit) {
        let circuit = agent_core::testing::circuit(DEFAULT_MIN_VOLUME);
        (ProviderOutage::new(circuit.clone()), circuit)
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_nothing_is_claimed_for_a_while_and_then_one_job_is_the_trial() {
        let (gate, _circuit) = gate();
        let first = gate.claim_permit().await;
        assert!(gate.failed(&first, Fault::Unreachable, Instant::now(), "run"));
        assert!(gate.claim_permit().now_or_never().is_none());
        let start = Instant::now();
        let trial = gate.claim_permit().await;
        assert!(start.elapsed() >= FIRST_PAUSE && trial.trial.is_some());
        assert!(gate.claim_permit().now_or_never().is_none(), "there is one trial at a time");
        // One that was under way all the time does not make the pause longer, the trial does.
        assert!(gate.failed(&first, Fault::Unreachable, start, "run"));
        assert!(gate.remaining().is_zero());
        assert!(gate.failed(&trial, Fault::Unreachable, start, "run"));
        assert!(gate.remaining() > FIRST_PAUSE);
        drop(trial);
        let trial = gate.claim_permit().await;
        gate.answered();
        drop(trial);
        assert!(gate.claim_permit().now_or_never().is_some_and(|permit| permit.trial.is_none()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_says_for_how_long_it_wants_to_be_left_alone() {
        let (gate, _circuit) = gate();
        let permit = gate.claim_permit().await;
        gate.failed(&permit, Fault::RateLimited(Some(SECOND * 20)), Instant::now(), "run");
        assert_eq!(gate.remaining(), SECOND * 20);
        drop(permit);
        let trial = {
            tokio::time::sleep(SECOND * 20).await;
            gate.claim_permit().await
        };
        gate.failed(&trial, Fault::RateLimited(Some(SECOND * 86_400)), Instant::now(), "run");
        assert_eq!(gate.remaining(), LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_pays_for_its_failure_when_the_provider_answers_others() {
        for (fault, pays) in
            [(Fault::Unwell(None), true), (Fault::Unreachable, false), (Fault::RateLimited(None), false)]
        {
            let (gate, circuit) = gate();
            let (permit, began) = (gate.claim_permit().await, Instant::now());
            tokio::time::sleep(SECOND * 20).await;
            circuit.enter().unwrap().end(Verdict::Success);
            tokio::time::sleep(SECOND).await;
            assert_eq!(gate.failed(&permit, fault, began, "run"), !pays, "{fault:?}");
            assert!(gate.claim_permit().now_or_never().is_some(), "the others go on: {fault:?}");
            tokio::time::sleep(RECENT).await;
            assert!(gate.failed(&permit, fault, began, "run"), "it may have gone down since: {fault:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_was_handed_back_pays_when_others_were_answered_since() {
        let (gate, circuit) = gate();
        let permit = gate.claim_permit().await;
        assert!(gate.failed(&permit, Fault::Unwell(None), Instant::now(), "run"));
        tokio::time::sleep(SECOND).await;
        circuit.enter().unwrap().end(Verdict::Success);
        tokio::time::sleep(SECOND * 60).await;
        assert!(gate.failed(&permit, Fault::Unwell(None), Instant::now(), "another run"));
        assert!(!gate.failed(&permit, Fault::Unwell(None), Instant::now(), "run"));
    }

    /// The provider goes down again behind that answer.
    #[tokio::test(start_paused = true)]
    async fn one_answer_to_others_costs_a_job_one_attempt_however_often_it_fails_behind_it() {
        let (gate, circuit) = gate();
        let permit = gate.claim_permit().await;
        let is_spared = || gate.failed(&permit, Fault::Unwell(None), Instant::now(), "run");
        assert!(is_spared());
        for _ in 0..2 {
            tokio::time::sleep(SECOND).await;
            circuit.enter().unwrap().end(Verdict::Success);
            tokio::time::sleep(SECOND * 60).await;
            assert_eq!([is_spared(), is_spared(), is_spared()], [false, true, true]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_tell_jobs_that_the_provider_is_down_and_that_it_is_back() {
        let (gate, circuit) = gate();
        for _ in 0..DEFAULT_MIN_VOLUME {
            circuit.enter().unwrap().end(Verdict::Failure);
        }
        assert!(gate.claim_permit().now_or_never().is_none());
        assert_eq!(gate.remaining(), RESET_TIMEOUT);
        tokio::time::sleep(RESET_TIMEOUT).await;
        let trial = gate.claim_permit().await;
        assert!(trial.trial.is_some());
        gate.failed(&trial, Fault::Unreachable, Instant::now(), "run");
        drop(trial);
        tokio::time::sleep(SECOND / 2).await;
        circuit.enter().unwrap().end(Verdict::Success);
        assert!(gate.claim_permit().now_or_never().is_some_and(|permit| permit.trial.is_none()));
    }

    /// Nobody tells those that wait, so they have to look.
    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_the_provider_notices_soon_that_requests_are_answered_again() {
        let (gate, circuit) = gate();
        let permit = gate.claim_permit().await;
        gate.failed(&permit, Fault::RateLimited(Some(SECOND * 120)), Instant::now(), "run");
        assert_notices_soon(&gate, &circuit).await;
    }

    /// Whoever wants a permit is given one soon after others were answered.
    async fn assert_notices_soon(gate: &ProviderOutage, circuit: &SharedCircuit) {
        let start = Instant::now();
        let others = async {
            tokio::time::sleep(SECOND * 10).await;
            circuit.enter().unwrap().end(Verdict::Success);
        };
        let (next, ()) = tokio::join!(gate.claim_permit(), others);
        assert!(next.trial.is_none() && start.elapsed() < SECOND * 12, "{:?}", start.elapsed());
    }

    /// A trial takes as long as its run, which is not over with its first answer.
    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_the_trial_of_another_goes_on_when_the_provider_answers_others() {
        let (gate, circuit) = gate();
        let permit = gate.claim_permit().await;
        gate.failed(&permit, Fault::Unreachable, Instant::now(), "run");
        let _trial = gate.claim_permit().await;
        assert_notices_soon(&gate, &circuit).await;
        gate.failed(&permit, Fault::Unreachable, Instant::now(), "another run");
        tokio::time::sleep(FIRST_PAUSE * 2).await;
        let answered = async { gate.answered() };
        let (next, ()) = tokio::join!(gate.claim_permit(), answered);
        assert!(next.trial.is_none(), "at once, when another run is answered");
    }

    #[test]
    fn a_job_that_fails_again_and_again_lets_others_go_first() {
        let delays: Vec<_> = (0..5).map(|times| delay(SECOND * 30, times).as_secs()).collect();
        assert_eq!(delays, [30, 60, 90, 120, 120]);
        assert_eq!(delay(Duration::ZERO, 0), SECOND);
        assert_eq!(delay(LONGEST_PAUSE, 3), LONGEST_PAUSE);
        let alone: Duration = (0..MOST_HAND_BACKS).map(|times| delay(LAST_PAUSE, times)).sum();
        assert!(alone > Duration::from_secs(30 * 60), "{alone:?}");
    }
}
