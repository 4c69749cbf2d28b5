//! What an answer waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Something that is written behind an answer within that time; whether it was.
fn written_within(time: Duration) -> (LeftBehind, Arc<AtomicBool>) {
    let (writes, is_written) = (Tasks::new(), Arc::<AtomicBool>::default());
    let written = is_written.clone();
    writes.spawn("cache-write", async move {
        sleep(time).await;
        written.store(true, Ordering::Relaxed);
    });
    (LeftBehind { recording: None, http_recordings: None, writes, spans: None }, is_written)
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_what_is_written_behind_it_for_a_while() {
    for (takes, waits_for, is_written) in
        [(Duration::from_secs(1), Duration::from_secs(1), true), (RECORDING * 2, RECORDING, false)]
    {
        let (left_behind, written) = written_within(takes);
        let began = tokio::time::Instant::now();
        left_behind.settle(&CancellationToken::new()).await;
        assert_eq!(began.elapsed().as_secs(), waits_for.as_secs());
        assert_eq!(written.load(Ordering::Relaxed), is_written);
    }
}
