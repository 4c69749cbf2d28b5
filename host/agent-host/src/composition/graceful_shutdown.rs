//! Shutdown: the order in which everything ends that goes on beside the requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::JobQueue;
use backends::mongo::MongoStore;
use backends::sql::SqlPool;
use tokio::time::timeout;

use crate::tasks::Tasks;

/// How long runs may take to end that are streamed. The process is forced to end some seconds later.
const STREAMED_RUNS: Duration = Duration::from_secs(15);

/// What was started, to be ended in its order.
pub struct Running {
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
    /// Ends everything: nobody asks any more when this is called.
    pub async fn close(self) {
        // Runs that are streamed go on without their readers, who were told to come again.
        if timeout(STREAMED_RUNS, self.runs.finished()).await.is_err() {
            tracing::warn!("runs that are streamed were ended with the process");
        }
        self.runs.abort();
        self.runs.finished().await;
        // They were told to stop when the service was; now their jobs are handed back.
        self.workers.finished().await;
        self.others.abort();
        self.others.finished().await;
        if let Some(queue) = self.queue {
            queue.close().await;
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

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("others", &self.others)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
