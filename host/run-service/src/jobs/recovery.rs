//! Jobs that a killed process leaves to the one that is started in its place.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::queue::{LEASE, stalled_after};
use agent_core::ports::{JobQueue, QueueError};
use tokio::time::{Instant, sleep};

/// Gives back what a predecessor of `worker` held when it was killed: as soon as it is clear that nobody
/// renews its leases, and as soon as the queue can be asked, which is done every `pause`.
pub async fn recover(queue: Arc<dyn JobQueue>, worker: String, pause: Duration) {
    let until = Instant::now() + stalled_after(LEASE) + pause;
    let mut began = None;
    loop {
        let is_last = Instant::now() >= until;
        match reclaim(&*queue, &worker, &mut began).await {
            Ok(0) if is_last => return,
            Ok(0) => {}
            Ok(jobs) => {
                tracing::warn!(jobs, "taking up again what was left when this service last ended");
            }
            Err(error) => tracing::debug!(%error, "the queue cannot be asked yet what was left"),
        }
        sleep(pause).await;
    }
}

/// Asks the queue for its time once, so that every try says from when this process is.
async fn reclaim(
    queue: &dyn JobQueue,
    worker: &str,
    began: &mut Option<SystemTime>,
) -> Result<u64, QueueError> {
    let began = match *began {
        Some(began) => began,
        None => *began.insert(queue.now().await?),
    };
    queue.reclaim(worker, began).await
}
