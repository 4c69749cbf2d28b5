//! A probe whose answer is kept for a while: for checks that cost money.
//!
//! The check is made by a task of its own, [`Checks::run`], and callers only wait for it. So one that hangs
//! up early neither stops the check nor ages it, and a prober with less patience than the provider needs
//! finds its answer when it asks again.

use parking_lot::Mutex;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{Probe, ProbeError};
use boxed_async::boxed_async;
use futures::FutureExt;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

type ProbeResult = Result<Option<Duration>, ProbeError>;

/// A failure is kept no longer than this: it costs little to look again, and a service that could be ready is
/// not to be kept out for its successes' time to live.
const FAILURE_KEPT: Duration = Duration::from_secs(5);

/// How long a caller waits for a check when the last one was good, before it is told so. Less than the second
/// after which the usual prober hangs up.
const PATIENCE: Duration = Duration::from_millis(500);

/// Asks the probe behind it at most once per time to live, and never twice at once. Clones are the same.
#[derive(Clone)]
pub struct CachedProbe(Arc<SharedProbe>);

/// The task that makes the checks of a [`CachedProbe`].
pub struct Checks<P> {
    probe: P,
    limit: Duration,
    shared: Arc<SharedProbe>,
    /// How many answers there have been. When it goes away, nobody waits for another.
    answered: watch::Sender<u64>,
}

struct SharedProbe {
    name: &'static str,
    time_to_live: Duration,
    tells_last_while_slow: bool,
    state: Mutex<ProbeState>,
    wanted: Notify,
    answered: watch::Receiver<u64>,
}

#[derive(Default)]
struct ProbeState {
    /// The last answer, and when it was given.
    last: Option<(Instant, ProbeResult)>,
    /// A check is under way, or about to be.
    checking: bool,
}

/// What a caller can be told at once.
enum KnownAnswer {
    /// The last answer, which is young enough.
    Fresh(ProbeResult),
    /// No answer before the check under way has ended, unless that takes long: then the last one, if it was
    /// good.
    Pending(Option<ProbeResult>),
}

impl CachedProbe {
    /// Keeps good answers for `time_to_live`; zero means that only callers of the same moment share a check.
    /// A check that takes longer than `limit` has failed. Nothing is checked unless the task runs.
    ///
    /// While a check takes long, callers are told the last answer if it was good.
    pub fn new<P: Probe>(probe: P, time_to_live: Duration, limit: Duration) -> (Self, Checks<P>) {
        Self::open(probe, time_to_live, true, limit)
    }

    /// The same, but callers wait for a check that takes long: no answer is older than `time_to_live`.
    pub fn strict<P: Probe>(probe: P, time_to_live: Duration, limit: Duration) -> (Self, Checks<P>) {
        Self::open(probe, time_to_live, false, limit)
    }

    fn open<P: Probe>(
        probe: P,
        time_to_live: Duration,
        tells_last_while_slow: bool,
        limit: Duration,
    ) -> (Self, Checks<P>) {
        let (answered, receiver) = watch::channel(0);
        let shared = Arc::new(SharedProbe {
            name: probe.name(),
            time_to_live,
            tells_last_while_slow,
            state: Mutex::default(),
            wanted: Notify::new(),
            answered: receiver,
        });
        (Self(Arc::clone(&shared)), Checks { probe, limit, shared, answered })
    }

    /// The probe's dependency was seen to work, and took so long: as good as a check.
    pub fn passed(&self, took: Duration) {
        self.0.state.lock().last = Some((Instant::now(), Ok(Some(took))));
    }
}

impl SharedProbe {
    /// What is known, and a check begun if that is not enough.
    fn ask(&self) -> KnownAnswer {
        let mut state = self.state.lock();
        let last = state.last.as_ref();
        if let Some((when, outcome)) = last {
            let kept = match outcome {
                Ok(_) => self.time_to_live,
                Err(_) => self.time_to_live.min(FAILURE_KEPT),
            };
            if when.elapsed() < kept {
                return KnownAnswer::Fresh(outcome.clone());
            }
        }
        // Not one of long ago: nobody has asked since, so nothing is known.
        let longest = self.time_to_live.saturating_mul(2);
        let recent = last.filter(|(when, _)| self.tells_last_while_slow && when.elapsed() < longest);
        let good = recent.map(|(_, outcome)| outcome.clone()).filter(Result::is_ok);
        if !state.checking {
            state.checking = true;
            self.wanted.notify_one();
        }
        KnownAnswer::Pending(good)
    }

    /// Takes note of how the check ended that began at `start`.
    fn note(&self, start: Instant, outcome: ProbeResult) {
        let mut state = self.state.lock();
        state.checking = false;
        // What was seen to work meanwhile is busy, not ill.
        let has_passed = matches!(&state.last, Some((when, Ok(_))) if *when > start);
        if outcome.is_ok() || !has_passed {
            state.last = Some((Instant::now(), outcome));
        }
    }
}

#[boxed_async]
impl Probe for CachedProbe {
    fn name(&self) -> &'static str {
        self.0.name
    }

    async fn check(&self) -> ProbeResult {
        // Before the state is looked at, so that no answer falls between the two.
        let mut answered = self.0.answered.clone();
        answered.mark_unchanged();
        let good = match self.0.ask() {
            KnownAnswer::Fresh(outcome) => return outcome,
            KnownAnswer::Pending(good) => good,
        };
        let ended = match good {
            None => answered.changed().await,
            Some(good) => match timeout(PATIENCE, answered.changed()).await {
                Ok(ended) => ended,
                Err(_elapsed) => return good,
            },
        };
        let last = self.0.state.lock().last.clone();
        match (ended, last) {
            (Ok(()), Some((_, outcome))) => outcome,
            (Ok(()) | Err(_), _) => Err(ProbeError("the check broke off".into())),
        }
    }
}

impl<P: Probe> Checks<P> {
    /// Makes checks whenever callers want one, for ever.
    pub async fn run(self) {
        loop {
            self.shared.wanted.notified().await;
            let start = Instant::now();
            let outcome = self.check().await;
            self.shared.note(start, outcome);
            self.answered.send_modify(|answers| *answers += 1);
        }
    }

    async fn check(&self) -> ProbeResult {
        let start = Instant::now();
        // A check that panics must not take the task with it.
        let check = AssertUnwindSafe(self.probe.check()).catch_unwind();
        match timeout(self.limit, check).await {
            Ok(Ok(outcome)) => outcome.map(|latency| latency.or_else(|| Some(start.elapsed()))),
            Ok(Err(_panic)) => Err(ProbeError("the check broke off".into())),
            Err(_elapsed) => Err(ProbeError(format!("no answer within {} ms", self.limit.as_millis()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;
    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const SECOND: Duration = Duration::from_secs(1);

    /// Takes its time; counts how often it is asked and that it is never asked twice at once.
    struct Slow {
        takes: Duration,
        asked: AtomicU32,
        under_way: AtomicU32,
        answer: fn(u32) -> ProbeResult,
    }

    #[boxed_async]
    impl Probe for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }

        async fn check(&self) -> ProbeResult {
            assert_eq!(self.under_way.fetch_add(1, Ordering::SeqCst), 0, "asked twice at once");
            sleep(self.takes).await;
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            (self.answer)(self.asked.fetch_add(1, Ordering::SeqCst))
        }
    }

    /// Those of a store, each of which takes a second.
    fn start_strict(answer: fn(u32) -> ProbeResult) -> Setting {
        let (asked, under_way) = (AtomicU32::new(0), AtomicU32::new(0));
        let probe = Arc::new(Slow { takes: SECOND, asked, under_way, answer });
        let (cached, checks) = CachedProbe::strict(Arc::clone(&probe), SECOND, 10 * SECOND);
        let mut task = JoinSet::new();
        task.spawn(checks.run());
        Setting { probe, cached, task }
    }

    /// A probe behind a cache whose task runs.
    struct Setting {
        probe: Arc<Slow>,
        cached: CachedProbe,
        task: JoinSet<()>,
    }

    fn start(takes: Duration, time_to_live: Duration, answer: fn(u32) -> ProbeResult) -> Setting {
        let (asked, under_way) = (AtomicU32::new(0), AtomicU32::new(0));
        let probe = Arc::new(Slow { takes, asked, under_way, answer });
        let (cached, checks) = CachedProbe::new(Arc::clone(&probe), time_to_live, 10 * SECOND);
        let mut task = JoinSet::new();
        task.spawn(checks.run());
        Setting { probe, cached, task }
    }

    impl Setting {
        fn asked(&self) -> u32 {
            self.probe.asked.load(Ordering::SeqCst)
        }

        /// What a caller sees that hangs up after so long.
        async fn within(&self, patience: Duration) -> Option<ProbeResult> {
            timeout(patience, self.cached.check()).await.ok()
        }
    }

    fn well(_: u32) -> ProbeResult {
        Ok(Some(Duration::from_millis(7)))
    }

    fn ill() -> ProbeResult {
        Err(ProbeError("down".into()))
    }

    #[tokio::test(start_paused = true)]
    async fn many_callers_share_one_check_and_its_latency() {
        let setting = start(SECOND, MINUTE, well);
        for outcome in join_all((0..10).map(|_| setting.cached.check())).await {
            assert_eq!(outcome, well(0));
        }
        assert_eq!((setting.cached.check().await, setting.asked()), (well(0), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_time_to_live_only_callers_of_one_moment_share_a_check() {
        let setting = start(SECOND, Duration::ZERO, well);
        for asked in 1..4 {
            join_all((0..3).map(|_| setting.cached.check())).await;
            assert_eq!(setting.asked(), asked);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_goes_on_when_its_callers_have_hung_up() {
        let setting = start(Duration::from_millis(1200), MINUTE, well);
        assert_eq!(setting.within(Duration::from_millis(300)).await, None);
        sleep(6 * SECOND).await;
        assert_eq!(setting.within(Duration::ZERO).await, Some(well(0)));
        assert_eq!(setting.asked(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_impatient_prober_beside_a_slow_provider_sees_the_truth() {
        let setting = start(Duration::from_millis(1200), 30 * SECOND, well);
        let mut seen = Vec::new();
        for _ in 0..10 {
            seen.push(setting.within(SECOND).await.is_some_and(|outcome| outcome.is_ok()));
            sleep(9 * SECOND).await;
        }
        assert_eq!(seen, [false, true, true, true, true, true, true, true, true, true]);
        assert!(setting.asked() <= 4, "{}", setting.asked());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_looked_at_again_sooner_than_a_success() {
        let setting = start(SECOND, MINUTE, |asked| if asked == 0 { ill() } else { well(0) });
        assert_eq!(setting.cached.check().await, ill());
        sleep(FAILURE_KEPT - SECOND).await;
        assert_eq!((setting.cached.check().await, setting.asked()), (ill(), 1));
        sleep(SECOND).await;
        // It is not told once more what was true then.
        assert_eq!((setting.cached.check().await, setting.asked()), (well(0), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_failed_since_is_told_when_the_check_has_ended() {
        let setting = start(SECOND, 30 * SECOND, |asked| if asked == 0 { well(0) } else { ill() });
        assert_eq!(setting.cached.check().await, well(0));
        sleep(31 * SECOND).await;
        assert_eq!(setting.cached.check().await, well(0), "the last answer, while the next is on its way");
        sleep(SECOND).await;
        assert_eq!(setting.cached.check().await, ill());
    }

    #[tokio::test(start_paused = true)]
    async fn where_no_answer_may_be_old_a_slow_check_is_waited_for() {
        let setting = start_strict(|asked| if asked == 0 { well(0) } else { ill() });
        for outcome in join_all((0..10).map(|_| setting.cached.check())).await {
            assert_eq!(outcome, well(0));
        }
        sleep(SECOND / 2).await;
        assert_eq!((setting.cached.check().await, setting.asked()), (well(0), 1));
        sleep(SECOND / 2).await;
        assert_eq!((setting.cached.check().await, setting.asked()), (ill(), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_answer_of_hours_ago_says_nothing_about_now() {
        let setting = start(SECOND, MINUTE, |asked| if asked == 0 { well(0) } else { ill() });
        assert_eq!(setting.cached.check().await, well(0));
        sleep(180 * MINUTE).await;
        assert_eq!(
            setting.within(SECOND * 3 / 4).await,
            None,
            "longer than what is told while a check takes long"
        );
        assert_eq!(setting.cached.check().await, ill());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_to_work_needs_no_check() {
        let setting = start(SECOND, MINUTE, |_| ill());
        assert_eq!(setting.cached.check().await, ill());
        setting.cached.passed(Duration::from_millis(7));
        assert_eq!((setting.cached.check().await, setting.asked()), (well(0), 1));
        // Nor does a check that began before make it ill.
        sleep(MINUTE).await;
        assert_eq!(setting.within(Duration::ZERO).await, None);
        sleep(SECOND / 2).await;
        setting.cached.passed(Duration::from_millis(7));
        sleep(SECOND).await;
        assert_eq!((setting.cached.check().await, setting.asked()), (well(0), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_or_panics_fails_and_the_next_one_is_made() {
        let setting = start(MINUTE, Duration::ZERO, well);
        let late = Err(ProbeError("no answer within 10000 ms".into()));
        assert_eq!(setting.cached.check().await, late);
        let mut setting = start(SECOND, Duration::ZERO, |asked| match asked {
            0 => panic!("a bug in a probe"),
            _ => well(0),
        });
        assert_eq!(setting.cached.check().await, Err(ProbeError("the check broke off".into())));
        assert_eq!(setting.cached.check().await, well(0));
        setting.task.shutdown().await;
        assert_eq!(setting.cached.check().await, Err(ProbeError("the check broke off".into())));
    }
}
