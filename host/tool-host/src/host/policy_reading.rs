//! Reads the policy again on a thread for blocking work, and waits for that up to a limit: the file of the
//! policy, and those of secrets, may lie on a mount that does not answer.
//!
//! There is one reading at a time, so a mount that hangs costs one thread. A reading that answers late counts
//! when the next one is asked for.

use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::folder::ANSWER_LIMIT;

/// The reading that is under way, if there is one.
#[derive(Default)]
pub(super) struct PolicyReading(Mutex<State>);

#[derive(Default)]
struct State {
    under_way: Option<UnderWay>,
    /// Whether a reading has put another policy in force that nobody was told of yet.
    has_changed: bool,
}

struct UnderWay {
    begun: Instant,
    answer: JoinHandle<bool>,
}

impl PolicyReading {
    /// Whether another policy came into force since the last call, which `read` says. While the reading
    /// before has not answered, `read` is not called.
    ///
    /// Cancellation-safe: a reading that was begun goes on, and the next call waits for it.
    pub(super) async fn read(&self, read: impl FnOnce() -> bool + Send + 'static) -> bool {
        let mut state = self.0.lock().await;
        if state.has_answered().await {
            let answer = tokio::task::spawn_blocking(read);
            state.under_way = Some(UnderWay { begun: Instant::now(), answer });
            if !state.has_answered().await {
                tracing::error!(
                    seconds = ANSWER_LIMIT.as_secs(),
                    "the file of the policy or of a secret does not answer: until it does, what was read last stays in force"
                );
            }
        }
        std::mem::take(&mut state.has_changed)
    }
}

impl State {
    /// Waits for the reading that is under way, until the limit has passed since it began. True when there is
    /// none any more.
    async fn has_answered(&mut self) -> bool {
        let Some(UnderWay { begun, answer }) = &mut self.under_way else { return true };
        let Ok(ended) = tokio::time::timeout_at(*begun + ANSWER_LIMIT, answer).await else { return false };
        // silent-ok: a reading that panicked has been logged, and the next one comes.
        self.has_changed |= ended.unwrap_or(false);
        self.under_way = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reading_that_does_not_answer_takes_one_thread_and_counts_when_it_does() {
        let reading = PolicyReading::default();
        let (release, held) = mpsc::channel::<()>();
        {
            let mut hung = pin!(reading.read(move || held.recv().is_err()));
            assert!(futures::poll!(&mut hung).is_pending());
            tokio::time::advance(ANSWER_LIMIT + Duration::from_secs(1)).await;
            assert!(!hung.await);
        }
        assert!(!reading.read(|| panic!("the first one has not answered")).await);
        drop(release);
        // The thread ends when the machine lets it.
        while !reading.read(|| false).await {
            tokio::task::yield_now().await;
        }
        assert!(!reading.read(|| false).await);
    }

    #[tokio::test]
    async fn a_reading_whose_caller_went_away_counts() {
        let reading = PolicyReading::default();
        let (release, held) = mpsc::channel::<()>();
        {
            let mut dropped = pin!(reading.read(move || held.recv().is_err()));
            assert!(futures::poll!(&mut dropped).is_pending());
        }
        drop(release);
        assert!(reading.read(|| false).await);
    }
}
