//! Tests that nothing is lost in silence, and that nothing waits for the store.

use std::sync::atomic::{AtomicU64, Ordering};

use agent_core::testing::TestRuns;
use agent_core::words::StopReason;
use futures::FutureExt;

use super::*;
use crate::testing::flush;

#[derive(Default)]
struct Lost(AtomicU64);

impl Observer for Lost {
    fn records_lost(&self, runs: u64) {
        self.0.fetch_add(runs, Ordering::SeqCst);
    }
}

struct Bench {
    store: Arc<TestRuns>,
    lost: Arc<Lost>,
    behind: WriteBehind,
    drain: Flusher,
}

fn bench(bounds: Backlog) -> Bench {
    let (store, lost) = (Arc::new(TestRuns::default()), Arc::new(Lost::default()));
    let (behind, drain) = WriteBehind::new(store.clone(), bounds, lost.clone());
    Bench { store, lost, behind, drain }
}

impl Bench {
    /// A run of three events. Never waits.
    fn run(&self, run_id: &str) {
        for sequence in 0..3 {
            let event = Event::TakenUp { by: format!("{run_id} {sequence}") };
            self.behind
                .append(run_id, Epoch(1), sequence, std::slice::from_ref(&event))
                .now_or_never()
                .unwrap()
                .unwrap();
        }
        self.behind.end(record(run_id));
    }

    fn lost(&self) -> u64 {
        self.lost.0.load(Ordering::SeqCst)
    }

    /// Stops the drain at once: what is queued is written all the same.
    async fn drain(self) -> (Arc<TestRuns>, Arc<Lost>) {
        flush(&self.drain).await;
        assert_eq!(self.behind.0.held.lock().bytes, 0);
        (self.store, self.lost)
    }
}

fn record(run_id: &str) -> RunRecord {
    RunRecord {
        user_id: None,
        ..agent_core::testing::record(run_id, agent_core::testing::failed("it failed"))
    }
}

#[tokio::test(start_paused = true)]
async fn runs_are_written_in_order_with_their_records_also_those_queued_at_the_end() {
    let bench = bench(Backlog::default());
    for number in 0..200 {
        bench.run(&format!("run_{number}"));
    }
    let (store, lost) = bench.drain().await;
    assert_eq!((store.records().len(), store.journals()), (200, 200));
    assert_eq!(store.events("run_7")[2], Event::TakenUp { by: "run_7 2".into() });
    assert_eq!(lost.0.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn runs_that_end_later_wake_the_drain() {
    let Bench { store, lost, behind, drain } = bench(Backlog::default());
    let stopping = CancellationToken::new();
    let requests = async {
        for number in 0..10 {
            sleep(Duration::from_secs(1)).await;
            behind.append("run", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
            behind.end(RunRecord { request_id: number.to_string(), ..record("run") });
        }
        stopping.cancel();
    };
    tokio::join!(drain.run(stopping.clone()), requests);
    assert_eq!((store.events("run").len(), store.records().len()), (1, 1));
    assert_eq!(store.records()[0].request_id, "9");
    assert_eq!(lost.0.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn last_events_that_were_taken_are_written_though_there_is_no_room_any_more() {
    let bench = bench(Backlog { runs: 1, ..Backlog::default() });
    assert!(bench.behind.take_last("run_job", Epoch(1), 0, &[Event::Cancelled]));
    bench.run("run_1");
    assert!(!bench.behind.take_last("run_late", Epoch(1), 0, &[Event::Cancelled]), "there is no room");
    bench.run("run_2");
    bench.behind.end(record("run_job"));
    let (store, lost) = bench.drain().await;
    assert_eq!(store.events("run_job"), [Event::Cancelled]);
    assert_eq!((store.records().len(), lost.0.load(Ordering::SeqCst)), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_gets_everything() {
    let bench = bench(Backlog::default());
    bench.store.switch.fail(true);
    bench.run("run_1");
    let (store, stopping) = (bench.store.clone(), CancellationToken::new());
    let back = async {
        sleep(Duration::from_secs(20)).await;
        store.switch.fail(false);
        stopping.cancel();
    };
    tokio::join!(bench.drain.run(stopping.clone()), back);
    assert_eq!((store.events("run_1").len(), store.records().len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_dropped_by_whole_runs_and_counted() {
    let bench = bench(Backlog { runs: 3, ..Backlog::default() });
    for number in 0..5 {
        bench.run(&format!("run_{number}"));
    }
    assert_eq!(bench.lost(), 2);
    let (store, _) = bench.drain().await;
    assert_eq!((store.records().len(), store.journals()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_run_too_big_for_the_queue_has_a_record_and_no_journal() {
    let bench = bench(Backlog { bytes: 500, ..Backlog::default() });
    bench.run("run_1");
    assert_eq!(bench.lost(), 1);
    let (store, _) = bench.drain().await;
    assert_eq!((store.records().len(), store.journals()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_events_cannot_be_written_has_a_record_and_no_journal() {
    let bench = bench(Backlog::default());
    bench.store.damage("run_1");
    bench.run("run_1");
    let (store, _) = bench.drain().await;
    assert_eq!((store.records().len(), store.journals()), (1, 0));
}

#[tokio::test]
async fn a_page_of_a_run_that_is_not_written_yet_is_one_of_its_journal() {
    let bench = bench(Backlog::default());
    bench.run("run_1");
    let event = |sequence: u64| Event::TakenUp { by: format!("run_1 {sequence}") };
    for (from, most, page) in
        [(0, 1, vec![event(0)]), (1, 9, vec![event(1), event(2)]), (3, 9, vec![]), (u64::MAX, 9, vec![])]
    {
        assert_eq!(bench.behind.read_page("run_1", from, most).await, Ok(page), "{from}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_counted_as_lost_once() {
    // The run's journal did not fit, and then there is no place for its record either.
    let full = bench(Backlog { runs: 0, bytes: 500 });
    full.run("run_1");
    assert_eq!(full.lost(), 1);

    // Nor does the store take its record.
    let failing = bench(Backlog { bytes: 500, ..Backlog::default() });
    failing.store.switch.fail(true);
    failing.run("run_1");
    let (lost, stopping) = (failing.lost.clone(), CancellationToken::new());
    let later = async {
        sleep(PATIENCE + Duration::from_secs(5)).await;
        stopping.cancel();
    };
    tokio::join!(failing.drain.run(stopping.clone()), later);
    assert_eq!(lost.0.load(Ordering::SeqCst), 1);

    // Or the process ends first.
    let hanging = bench(Backlog { bytes: 500, ..Backlog::default() });
    hanging.store.switch.hang(true);
    hanging.run("run_1");
    hanging.run("run_2");
    flush(&hanging.drain).await;
    assert_eq!(hanging.lost.0.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_does_not_hold_up_the_end_of_the_process() {
    let bench = bench(Backlog::default());
    bench.store.switch.hang(true);
    for number in 0..100 {
        bench.run(&format!("run_{number}"));
    }
    let start = Instant::now();
    flush(&bench.drain).await;
    assert!(start.elapsed() <= FLUSH_LIMIT + Duration::from_millis(10), "{:?}", start.elapsed());
    assert_eq!(bench.lost.0.load(Ordering::SeqCst), 100);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_for_long_loses_runs_and_the_drain_goes_on() {
    let bench = bench(Backlog::default());
    bench.store.switch.fail(true);
    bench.run("run_1");
    let (store, lost, behind) = (bench.store.clone(), bench.lost.clone(), bench.behind.clone());
    let stopping = CancellationToken::new();
    let later = async {
        sleep(PATIENCE + Duration::from_secs(5)).await;
        store.switch.fail(false);
        assert_eq!(lost.0.load(Ordering::SeqCst), 1);
        behind.end(record("run_2"));
        stopping.cancel();
    };
    tokio::join!(bench.drain.run(stopping.clone()), later);
    assert_eq!(store.records()[0].id, "run_2");
}

#[tokio::test(start_paused = true)]
async fn the_last_events_of_a_job_outlast_a_store_that_is_down_for_minutes() {
    let bench = bench(Backlog::default());
    bench.store.switch.fail(true);
    assert!(bench.behind.take_last("run_job", Epoch(1), 0, &[Event::Cancelled]));
    bench.behind.end(record("run_job"));
    let (store, stopping) = (bench.store.clone(), CancellationToken::new());
    let later = async {
        sleep(PATIENCE_WITH_JOBS - PATIENCE).await;
        store.switch.fail(false);
        sleep(PATIENCE).await;
        assert_eq!((store.events("run_job").len(), store.records().len()), (1, 1));
        stopping.cancel();
    };
    tokio::join!(bench.drain.run(stopping.clone()), later);
    assert_eq!(bench.lost.0.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_forgotten_run_is_not_written() {
    let bench = bench(Backlog::default());
    bench.behind.append("run_1", Epoch(1), 0, &[Event::Cancelled]).await.unwrap();
    bench.behind.forget("run_1");
    let (store, _) = bench.drain().await;
    assert_eq!((store.records().len(), store.journals()), (0, 0));
}

#[tokio::test]
async fn whoever_waits_for_what_has_ended_goes_on_when_it_is_written() {
    let bench = bench(Backlog::default());
    bench.behind.written().now_or_never().expect("nothing is waited for when there is nothing");
    bench.run("a");
    bench.run("b");
    assert!(bench.behind.written().now_or_never().is_none());
    let Bench { store, behind, drain, .. } = bench;
    tokio::select! {
        () = drain.run(CancellationToken::new()) => panic!("the drain was not told to stop"),
        () = behind.written() => {}
    }
    assert_eq!((behind.queued(), store.records().len()), (0, 2));
}

/// As when the write of another one panics.
#[tokio::test]
async fn a_run_that_was_taken_and_never_begun_is_lost_and_not_waited_for() {
    let bench = bench(Backlog::default());
    bench.run("a");
    let mut waits = Box::pin(bench.behind.written());
    assert!(waits.as_mut().now_or_never().is_none());
    drop(bench.drain.0.take(1, true));
    waits.now_or_never().expect("it is woken, and nothing is left");
    assert_eq!((bench.behind.queued(), bench.behind.waiting("a"), bench.lost()), (0, None, 1));
    assert_eq!(bench.behind.0.held.lock().bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_that_is_recorded_late_does_not_replace_the_end_of_its_job() {
    let ended = agent_core::testing::ended(StopReason::Completed);
    let failed = record("run_1").outcome;
    for (job_id, before, after) in [
        (Some("1"), &ended, &ended),
        (Some("1"), &failed, &failed),
        // A request's owner was too slow, and another replica has cancelled the run in its journal.
        (None, &ended, &ended),
    ] {
        let bench = bench(Backlog::default());
        let of_job = RunRecord { job_id: job_id.map(str::to_owned), ..record("run_1") };
        bench.store.save(&RunRecord { outcome: before.clone(), ..of_job.clone() }).await.unwrap();
        bench.behind.end(RunRecord { request_id: "late".into(), ..of_job });
        let (store, lost) = bench.drain().await;
        let [kept] = &store.records()[..] else { panic!("one record") };
        assert_eq!(&kept.outcome, after, "{job_id:?}");
        assert_eq!(kept.request_id == "late", before != after || *before == failed, "{job_id:?}");
        assert_eq!(lost.0.load(Ordering::SeqCst), 0);
    }
}

/// Requests that come one after the other share a commit; what a job or a waiting function ends with does not
/// wait for others.
#[tokio::test(start_paused = true)]
async fn runs_of_requests_gather_behind_those_that_were_taken_unless_somebody_waits() {
    let Bench { store, behind, drain, .. } = bench(Backlog::default());
    let written = |count: usize| {
        let store = store.clone();
        async move {
            let began = Instant::now();
            while store.records().len() < count {
                sleep(Duration::from_millis(1)).await;
            }
            began.elapsed()
        }
    };
    let of_job = |id: &str| RunRecord { job_id: Some("1".into()), ..record(id) };
    let requests = async {
        behind.end(record("first"));
        assert!(written(1).await < GATHER, "the first one is taken at once");
        behind.end(record("second"));
        behind.end(record("third"));
        let (took, records) = (written(2).await, store.records().len());
        assert!(took + Duration::from_millis(2) >= GATHER && records == 3, "{took:?}, {records}");
        sleep(GATHER * 2).await;
        behind.end(record("after a pause"));
        assert!(written(4).await < GATHER, "nothing gathers any more");
        behind.end(record("with a job"));
        behind.end(of_job("of a job"));
        assert!(written(6).await <= Duration::from_millis(1), "a job ends the gathering");
        behind.end(record("awaited"));
        let began = Instant::now();
        behind.written().await;
        assert_eq!((began.elapsed(), store.records().len()), (Duration::ZERO, 7));
        behind.end(record("begins another"));
        assert!(written(8).await < GATHER);
        for number in 0..AT_ONCE {
            behind.end(record(&number.to_string()));
        }
        assert!(
            written(8 + AT_ONCE).await <= Duration::from_millis(1),
            "there are as many as are written at once"
        );
    };
    tokio::select! {
        () = drain.run(CancellationToken::new()) => panic!("the drain was not told to stop"),
        () = requests => {}
    }
}
