//! Tables of calls and where they leave a circuit.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

struct Bench {
    circuit: Circuit,
    now: Instant,
}

impl Bench {
    fn new(min_volume: u64) -> Self {
        let now = Instant::now();
        Self { circuit: Circuit::new(min_volume, now), now }
    }

    fn state(&self) -> CircuitState {
        self.circuit.state(self.now)
    }

    fn enter(&mut self) -> Result<Ticket, Duration> {
        self.circuit.enter(self.now)
    }

    fn end(&mut self, ticket: &Ticket, verdict: Verdict) -> Option<Transition> {
        self.circuit.end(ticket, verdict, self.now)
    }

    /// One call after the other: `+` succeeds, `-` fails, `.` says nothing, a digit waits as many seconds.
    fn run(&mut self, calls: &str) -> CircuitState {
        for call in calls.chars() {
            let verdict = match call {
                '+' => Verdict::Success,
                '-' => Verdict::Failure,
                '.' => Verdict::Neither,
                digit => {
                    self.now += SECOND * digit.to_digit(10).unwrap();
                    continue;
                }
            };
            let ticket = self.enter().expect("it is closed");
            self.end(&ticket, verdict);
        }
        self.state()
    }
}

#[test]
fn it_opens_when_more_than_half_of_enough_calls_fail() {
    use CircuitState::{Closed, Open};
    for (min_volume, calls, state) in [
        // Measured with the reference at a volume threshold of 0.
        (0, "-", Open),
        (0, "+-", Closed),
        (0, "+--", Open),
        // Exactly half is not more than half.
        (5, "+-+-+-+-", Closed),
        (5, "+-+-+-+--", Open),
        // Too few calls, and the fifth is enough.
        (5, "----", Closed),
        (5, "-----", Open),
        (5, "++---", Open),
        (5, "+++--", Closed),
        // Only a failure opens it, however many there were.
        (5, "----+", Closed),
        (5, "----+-", Open),
        // Calls that say nothing are neither successes nor volume.
        (5, "----......", Closed),
        (5, "..++.-.-.-", Open),
        // The window forgets.
        (5, "----99-", Closed),
        (5, "----8-", Open),
        (5, "++++++99-----", Open),
    ] {
        assert_eq!(Bench::new(min_volume).run(calls), state, "{calls} with {min_volume}");
    }
}

#[test]
fn a_call_is_forgotten_ten_buckets_after_its_own() {
    let mut bench = Bench::new(5);
    bench.now += SECOND / 2;
    assert_eq!(bench.run("----9-"), CircuitState::Open, "9.5 s after the start all are there");
    let mut bench = Bench::new(5);
    bench.now += SECOND / 2;
    bench.run("----9");
    bench.now += SECOND / 2;
    assert_eq!(bench.run("-"), CircuitState::Closed, "10 s after the start the first bucket is gone");
}

#[test]
fn a_call_counts_when_it_begins_and_its_failure_when_it_ends() {
    let mut bench = Bench::new(2);
    let slow: Vec<_> = (0..3).map(|_| bench.enter().unwrap()).collect();
    bench.now += 30 * SECOND;
    for ticket in &slow {
        assert_eq!(bench.end(ticket, Verdict::Failure), None, "no call within the window");
    }
    let mut bench = Bench::new(2);
    let slow: Vec<_> = (0..2).map(|_| bench.enter().unwrap()).collect();
    bench.now += 25 * SECOND;
    let _under_way: Vec<_> = (0..2).map(|_| bench.enter().unwrap()).collect();
    bench.now += 5 * SECOND;
    assert_eq!(bench.end(&slow[0], Verdict::Failure), None, "one of two");
    assert_eq!(bench.end(&slow[1], Verdict::Failure), Some(Transition::Opened));
}

#[test]
fn an_open_circuit_turns_everybody_away_and_counts_them() {
    let mut bench = Bench::new(5);
    bench.run("-----");
    bench.now += 4 * SECOND;
    for _ in 0..20 {
        assert_eq!(bench.enter().unwrap_err(), RESET_TIMEOUT - 4 * SECOND);
    }
    bench.now += 26 * SECOND;
    let trial = bench.enter().unwrap();
    for _ in 0..20 {
        assert!(bench.enter().is_err());
    }
    assert_eq!(bench.end(&trial, Verdict::Success), Some(Transition::Closed));
    // 21 calls stand in the window: ten failures in a row are less than half of them.
    assert_eq!(bench.run("----------"), CircuitState::Closed);
}

#[test]
fn half_open_lets_exactly_one_call_through_and_its_end_decides() {
    for (verdict, state) in [(Verdict::Success, CircuitState::Closed), (Verdict::Failure, CircuitState::Open)]
    {
        let mut bench = Bench::new(5);
        assert_eq!(bench.run("-----"), CircuitState::Open);
        bench.now += RESET_TIMEOUT;
        assert_eq!(bench.state(), CircuitState::HalfOpen);
        let trial = bench.enter().unwrap();
        assert!(bench.enter().is_err());
        bench.end(&trial, verdict);
        assert_eq!(bench.state(), state);
    }
}

#[test]
fn a_trial_that_says_nothing_makes_room_for_the_next_one() {
    let mut bench = Bench::new(5);
    bench.run("-----");
    bench.now += RESET_TIMEOUT;
    for _ in 0..3 {
        let trial = bench.enter().unwrap();
        assert_eq!(bench.end(&trial, Verdict::Neither), None);
        assert_eq!(bench.state(), CircuitState::HalfOpen);
    }
    let trial = bench.enter().unwrap();
    assert_eq!(bench.end(&trial, Verdict::Failure), Some(Transition::Opened));
    assert_eq!(bench.circuit.retry_after(bench.now), Some(RESET_TIMEOUT));
}

#[test]
fn a_call_from_before_it_opened_decides_nothing_afterwards() {
    for late in [Verdict::Success, Verdict::Failure, Verdict::Neither] {
        let mut bench = Bench::new(5);
        let old = bench.enter().unwrap();
        assert_eq!(bench.run("----"), CircuitState::Open);
        bench.now += RESET_TIMEOUT;
        let trial = bench.enter().unwrap();
        assert_eq!(bench.end(&old, late), None);
        assert!(bench.enter().is_err(), "the trial is still under way");
        assert_eq!(bench.end(&trial, Verdict::Success), Some(Transition::Closed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_is_dropped_counts_neither_way() {
    let circuit = crate::testing::circuit(1);
    for _ in 0..10 {
        drop(circuit.enter().unwrap());
    }
    assert_eq!(circuit.enter().unwrap().end(Verdict::Failure), Some(Transition::Opened));
    assert_eq!((circuit.state(), circuit.retry_after()), (CircuitState::Open, Some(RESET_TIMEOUT)));
    tokio::time::advance(RESET_TIMEOUT).await;
    drop(circuit.enter().unwrap());
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    assert_eq!(circuit.enter().unwrap().end(Verdict::Success), Some(Transition::Closed));
    assert_eq!(circuit.state().as_str(), "closed");
}
