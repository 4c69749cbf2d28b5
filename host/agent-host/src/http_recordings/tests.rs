//! Recording never waits, and what is recorded is read again.

use parking_lot::Mutex as StdMutex;
use std::panic::AssertUnwindSafe;

use agent_core::ports::HttpRecordingsError;
use boxed_async::boxed_async;
use futures::FutureExt as _;
use tokio::sync::Semaphore;

use super::*;

/// Keeps what it is given, as soon as it has a permit.
struct Store {
    kept: StdMutex<Vec<(String, HttpRecording)>>,
    permits: Semaphore,
    fails: bool,
}

impl Store {
    fn new(permits: usize, fails: bool) -> Arc<Self> {
        Arc::new(Self { kept: StdMutex::default(), permits: Semaphore::new(permits), fails })
    }

    fn calls(&self) -> Vec<(String, String)> {
        let kept = self.kept.lock();
        kept.iter().map(|(run, recording)| (run.clone(), recording.call_id.clone())).collect()
    }
}

#[boxed_async]
impl HttpRecordings for Store {
    async fn append(&self, run_id: &str, recordings: &[HttpRecording]) -> Result<usize, HttpRecordingsError> {
        self.permits.acquire().await.unwrap().forget();
        if self.fails {
            return Err(HttpRecordingsError("it is away".into()));
        }
        let mut kept = self.kept.lock();
        kept.extend(recordings.iter().map(|one| (run_id.to_owned(), one.clone())));
        Ok(recordings.len())
    }

    async fn read(&self, _run_id: &str) -> Result<Vec<HttpRecording>, HttpRecordingsError> {
        Ok(vec![])
    }

    async fn remove(&self, _run_ids: &[String]) -> Result<(), HttpRecordingsError> {
        Ok(())
    }
}

fn request(body: &[u8]) -> HttpRequestRecord {
    HttpRequestRecord {
        method: "POST".into(),
        url: "https://example.org/a?b=c".into(),
        headers: vec![("x-own".into(), "1".into())],
        body: body.to_vec(),
        body_cut: true,
    }
}

fn failed() -> HttpOutcome {
    HttpOutcome::Failed("connection-refused".into())
}

#[tokio::test]
async fn whoever_waits_for_what_is_unwritten_waits_until_it_is_written_or_given_up() {
    for fails in [false, true] {
        let (recorder, drain) = channel(Store::new(9, fails));
        let unwritten = drain.unwritten();
        unwritten.written().await;
        recorder.record(CallKey { run_id: "run_1", call_id: "a" }, request(b""), failed());
        recorder.record(CallKey { run_id: "run_2", call_id: "b" }, request(b""), failed());
        assert!(unwritten.written().now_or_never().is_none());
        let until = CancellationToken::new();
        until.cancel();
        drain.run(until).await;
        assert!(unwritten.written().now_or_never().is_some(), "{fails}");
    }
}

#[tokio::test]
async fn exchanges_are_written_by_the_drain_and_those_of_no_run_are_not() {
    let store = Store::new(9, false);
    let (recorder, drain) = channel(store.clone());
    for (run_id, call_id) in [("run_1", "a"), ("", "b"), ("run_1", "c"), ("run_2", "d")] {
        recorder.record(CallKey { run_id, call_id }, request(b""), failed());
    }
    assert_eq!(store.calls(), []);
    // Whoever is told to end writes what waits first.
    let until = CancellationToken::new();
    until.cancel();
    drain.run(until).await;
    let pair = |run: &str, call: &str| (run.to_owned(), call.to_owned());
    assert_eq!(store.calls(), [pair("run_1", "a"), pair("run_1", "c"), pair("run_2", "d")]);
}

#[tokio::test]
async fn a_store_that_hangs_keeps_nobody_waiting() {
    let (recorder, drain) = channel(Store::new(0, false));
    let key = CallKey { run_id: "run_1", call_id: "a" };
    // Nobody polls the drain: every one of them returns at once.
    for _ in 0..MOST_WAITING + 5 {
        recorder.record(key, request(b""), failed());
    }
    assert_eq!(drain.counts.dropped.load(Ordering::Relaxed), 5);
    let (recorder, drain) = channel(Store::new(0, false));
    let large = vec![7; MOST_WAITING_BYTES / 4];
    for _ in 0..5 {
        recorder.record(key, request(&large), failed());
    }
    assert_eq!(drain.counts.dropped.load(Ordering::Relaxed), 2, "three and a little fit");
}

#[tokio::test]
async fn what_a_store_refuses_is_counted_and_makes_room() {
    let (recorder, drain) = channel(Store::new(9, true));
    recorder.record(CallKey { run_id: "run_1", call_id: "a" }, request(b"body"), failed());
    drop(recorder);
    drain.run(CancellationToken::new()).await;
    assert_eq!(drain.counts.dropped_in_all.load(Ordering::Relaxed), 1);
    assert_eq!(drain.counts.waiting_bytes.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn what_was_written_during_a_panic_makes_room() {
    let store = Store::new(0, false);
    // A batch that waits for a permit then panics.
    store.permits.close();
    let (recorder, drain) = channel(store);
    recorder.record(CallKey { run_id: "run_1", call_id: "a" }, request(b"body"), failed());
    assert!(AssertUnwindSafe(drain.run(CancellationToken::new())).catch_unwind().await.is_err());
    assert_eq!(drain.counts.waiting_bytes.load(Ordering::Relaxed), 0);
    assert!(drain.unwritten().written().now_or_never().is_some());
}
