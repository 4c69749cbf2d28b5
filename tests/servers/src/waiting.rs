//! Waiting for something to happen, and not for ever.

use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};

/// How long anything may take before the test gives it up. It is no claim about the service: machines that
/// build while they test are slow.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often a condition that can only be asked for is asked for.
const POLL: Duration = Duration::from_millis(10);

/// Waits for `event`, and fails when it does not come.
pub async fn within<T>(what: &str, event: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, event).await {
        Ok(value) => value,
        Err(_elapsed) => panic!("waited {} s in vain for {what}", PATIENCE.as_secs()),
    }
}

/// Tries until there is a value, and fails when there never is one.
pub async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = attempt().await {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {} s in vain for {what}", PATIENCE.as_secs());
        sleep(POLL).await;
    }
}

/// Something that goes on beside the test, and ends with it.
#[derive(Debug)]
pub struct Task<T> {
    running: JoinSet<T>,
    result: Option<T>,
}

impl<T: Send + 'static> Task<T> {
    /// Begins `work`.
    pub fn begin(work: impl Future<Output = T> + Send + 'static) -> Self {
        let mut running = JoinSet::new();
        running.spawn(work);
        Self { running, result: None }
    }

    /// Whether it has ended. A panic within it is one here.
    pub fn has_ended(&mut self) -> bool {
        if let Some(joined) = self.running.try_join_next() {
            self.result = Some(unwrap(joined));
        }
        self.result.is_some()
    }

    /// Waits for its end. A panic within it is one here.
    pub async fn ended(mut self) -> T {
        if let Some(result) = self.result {
            return result;
        }
        unwrap(within("a task of the test", self.running.join_next()).await.expect("a set of one task"))
    }
}

fn unwrap<T>(joined: Result<T, JoinError>) -> T {
    joined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
