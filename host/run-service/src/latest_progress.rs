//! The reports of one tool call on their way to whoever watches it: the latest one wins, and few are handed
//! on.
//!
//! ```text
//! tool ──report──> LatestProgress ──follow──> tell: at once, then every 100 ms at most, and the last one at the end
//! ```
//!
//! The tool never waits and no report is queued, so one that reports in a loop costs a slot. Handing on is
//! done by the task that waits for the call: nothing is spawned.

use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::ProgressSink;
use agent_core::words::ToolProgress;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How long it is between two reports of a call that are handed on, at least.
pub const PAUSE: Duration = Duration::from_millis(100);

/// The latest report that nobody has read.
#[derive(Debug, Default)]
pub struct LatestProgress {
    latest: Mutex<Option<ToolProgress>>,
    reported: Notify,
}

impl ProgressSink for LatestProgress {
    fn report(&self, progress: ToolProgress) {
        *self.latest.lock() = Some(progress);
        self.reported.notify_one();
    }
}

impl LatestProgress {
    /// One as it is kept, and as it is given to a call.
    pub fn shared() -> (Arc<Self>, Arc<dyn ProgressSink>) {
        let latest = Arc::new(Self::default());
        let sink = latest.clone();
        (latest, sink)
    }

    /// The latest report, if it was not read yet.
    pub fn take(&self) -> Option<ToolProgress> {
        self.latest.lock().take()
    }

    /// The next report. For one reader. Cancellation-safe.
    pub async fn next(&self) -> ToolProgress {
        loop {
            if let Some(progress) = self.take() {
                return progress;
            }
            // A report since then has left a permit.
            self.reported.notified().await;
        }
    }

    /// Waits for a call and has `tell` hand on its reports meanwhile. The last one is handed on before this
    /// returns.
    pub async fn follow<T>(&self, call: impl Future<Output = T>, mut tell: impl FnMut(ToolProgress)) -> T {
        let mut call = pin!(call);
        let mut told: Option<Instant> = None;
        loop {
            let next = async {
                if let Some(told) = told {
                    sleep_until(told + PAUSE).await;
                }
                self.next().await
            };
            tokio::select! {
                biased;
                answer = &mut call => {
                    self.take().into_iter().for_each(&mut tell);
                    return answer;
                }
                progress = next => tell(progress),
            }
            told = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    fn report(sink: &Arc<dyn ProgressSink>, message: &str) {
        sink.report(ToolProgress { message: message.into(), fraction: None });
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_the_last_and_few_between_are_handed_on() {
        let (latest, sink) = LatestProgress::shared();
        let began = Instant::now();
        let mut told = vec![];
        let call = async {
            for step in 0..25 {
                report(&sink, &step.to_string());
                sleep(Duration::from_millis(10)).await;
            }
            report(&sink, "last");
            "done"
        };
        let tell = |it: ToolProgress| told.push((it.message.to_string(), began.elapsed().as_millis()));
        assert_eq!(latest.follow(call, tell).await, "done");
        let messages: Vec<_> = told.iter().map(|(message, _)| message.as_str()).collect();
        assert_eq!((messages.len(), messages[0], messages[3]), (4, "0", "last"), "{told:?}");
        for pair in told[..3].windows(2) {
            assert!(pair[1].1 - pair[0].1 >= PAUSE.as_millis(), "{told:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_reports_nothing_is_waited_for() {
        let (latest, _) = LatestProgress::shared();
        let call = sleep(Duration::from_secs(5));
        latest.follow(call, |progress| panic!("{progress:?}")).await;
    }
}
