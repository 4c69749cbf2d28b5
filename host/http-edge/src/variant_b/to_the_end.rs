//! What is carried out to its end although the client that asked for it leaves.

use agent_core::ports::QueueError;
use agent_core::trace::InTrace as _;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::state::Shared;

/// Does the work in a task of its own and waits for what comes of it. Dropped, the work goes on.
pub(super) async fn to_the_end<T: Send + 'static>(
    edge: &Shared,
    name: &'static str,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, QueueError> {
    let (tell, told) = oneshot::channel();
    let work = async move {
        let _nobody_waits_any_more = tell.send(work.await);
    };
    edge.idempotency.spawn.spawn(name, Box::pin(work.in_current_span().in_current_trace()));
    told.await.map_err(|_dropped| QueueError::Store { detail: "the task that does it broke off".to_owned() })
}
