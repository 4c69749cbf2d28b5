//! Shutdown: the order in which everything ends that goes on beside the requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::JobQueue;
use agent_core::shutdown::Shutdown;
use backends::mongo::MongoStore;
use backends::sql::SqlPool;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::tasks::Tasks;

/// How long runs may take to end that are streamed, after the last answer. They end with the requests at the
/// latest.
const STREAMED_RUNS: Duration = Duration::from_secs(15);

/// How long runs whose readers were cut off may take to end as cancelled ones. The stores close behind them,
/// before the process is forced to end.
const CANCELLED_RUNS: Duration = Duration::from_secs(1);

/// What was started, to be ended in its order.
pub struct Running {
    pub(super) shutdown: Shutdown,
    pub(super) runs: Tasks,
    /// What can be dropped wherever it stands.
    pub(super) others: Tasks,
    pub(super) workers: Tasks,
    pub(super) drain: Tasks,
    pub(super) writer: Tasks,
    pub(super) queue: Option<Arc<dyn JobQueue>>,
    pub(super) database: Option<SqlPool>,
    pub(super) mongo: Option<MongoStore>,
}

impl Running {
    /// Ends everything: nobody asks any more when this is called. Once `forced` is cancelled, runs and
    /// workers are cut off where they stand, and what has ended is written.
    pub async fn close(self, forced: &CancellationToken) {
        // Runs that are streamed go on without their readers, who were told to come again.
        let have_ended = tokio::select! {
            biased;
            ended = timeout(STREAMED_RUNS, self.runs.finished()) => ended.is_ok(),
            () = self.requests_have_ended() => false,
            () = forced.cancelled() => false,
        };
        if !have_ended {
            tracing::warn!("runs that are streamed were ended with the process");
        }
        self.runs.abort();
        self.runs.finished().await;
        // They were told to stop when the service was; now their jobs are handed back.
        forced.run_until_cancelled(self.workers.finished()).await;
        self.workers.abort();
        self.workers.finished().await;
        self.others.abort();
        self.others.finished().await;
        if let Some(queue) = self.queue {
            forced.run_until_cancelled(queue.close()).await;
        }
        // What the last requests and jobs left behind is written before the stores close.
        self.drain.stop();
        self.drain.finished().await;
        self.writer.abort();
        self.writer.finished().await;
        if let Some(mongo) = self.mongo {
            mongo.close().await;
        }
        if let Some(database) = self.database {
            database.close().await;
        }
    }
}

impl Running {
    /// Ends when runs may take no longer, whoever reads them.
    async fn requests_have_ended(&self) {
        self.shutdown.requests_end().cancelled().await;
        sleep(CANCELLED_RUNS).await;
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("others", &self.others)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
