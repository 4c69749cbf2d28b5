//! `tokio::time`: time passes when the scheduler says so.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use shuttle::rand::{Rng as _, thread_rng};

pub use real_tokio::time::Instant;
pub use std::time::Duration;

/// The time was over first.
#[derive(Debug)]
pub struct Elapsed;

/// Waits for something, which takes too long in some schedules: its time is over at a moment at which it has
/// to wait.
pub async fn timeout<F: Future>(_within: Duration, work: F) -> Result<F::Output, Elapsed> {
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending if thread_rng().gen_bool(0.3) => Poll::Ready(Err(Elapsed)),
        Poll::Pending => {
            // Time passes also when nothing else happens.
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}
