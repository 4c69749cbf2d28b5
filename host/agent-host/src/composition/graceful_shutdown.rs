//! Shutdown: the order in which everything ends that goes on beside the requests.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::JobQueue;
use backends::mongo::MongoStore;
use backends::sql::SqlPool;
use http_edge::SOCKET_TASK;
use run_service::shutdown::Shutdown;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::tasks::Tasks;

/// How long runs may take to end that are streamed, after the last answer. They end with the requests at the
/// latest.
const STREAMED_RUNS: Duration = Duration::from_secs(15);

/// How long runs whose readers were cut off may take to end as cancelled ones, and what workers leave to
/// tasks of their own. The stores close behind them, before the process is forced to end.
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
        // WebSockets are connections that the server has handed over: each ends with the answer under way.
        tokio::select! {
            biased;
            () = self.runs.have_ended(SOCKET_TASK) => {}
            () = self.requests_have_ended() => {}
            () = forced.cancelled() => {}
        }
        // Runs that are streamed go on without their readers, who were told to come again.
        let have_ended = tokio::select! {
            biased;
            ended = timeout(STREAMED_RUNS, self.runs.finished()) => ended.is_ok(),
            () = self.requests_have_ended() => false,
            () = forced.cancelled() => false,
        };
        if !have_ended {
            tracing::warn!("runs that are streamed were ended with the process");
            self.runs.abort();
            self.runs.finished().await;
        }
        // The workers were told to stop when the service was; now their jobs are handed back.
        forced.run_until_cancelled(self.workers.finished()).await;
        self.workers.abort();
        self.workers.finished().await;
        // A run of a job that was dropped gives its conversation back in a task of its own. Not waited for,
        // it would be held until its lease ends, and whoever comes next would be told that it is busy.
        forced.run_until_cancelled(timeout(CANCELLED_RUNS, self.runs.finished())).await;
        self.runs.abort();
        self.runs.finished().await;
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use agent_core::ports::{Epoch, Journal as _, Unobserved};
    use agent_core::testing::TestRuns;
    use agent_core::words::{Event, RunRecord};
    use run_service::journal::{Backlog, WriteBehind};
    use tokio::time::Instant;

    use super::*;

    fn running() -> Running {
        Running {
            shutdown: Shutdown::default(),
            runs: Tasks::new(),
            others: Tasks::new(),
            workers: Tasks::new(),
            drain: Tasks::new(),
            writer: Tasks::new(),
            queue: None,
            database: None,
            mongo: None,
        }
    }

    fn record(id: &str) -> RunRecord {
        agent_core::testing::record(id, agent_core::testing::failed("it failed"))
    }

    /// Longer than runs may take whose readers come again.
    #[tokio::test(start_paused = true)]
    async fn a_websocket_ends_with_the_answer_under_way() {
        let (running, answered) = (running(), CancellationToken::new());
        let answers = answered.clone();
        running.runs.spawn(SOCKET_TASK, async move {
            sleep(2 * STREAMED_RUNS).await;
            answers.cancel();
        });
        running.close(&CancellationToken::new()).await;
        assert!(answered.is_cancelled());
    }

    /// As the claim of a conversation is given back when the run of a job is dropped.
    #[tokio::test(start_paused = true)]
    async fn what_a_worker_leaves_to_a_task_of_its_own_is_done() {
        let (running, released) = (running(), CancellationToken::new());
        let (runs, release) = (running.runs.clone(), released.clone());
        running.workers.spawn("worker", async move {
            sleep(STREAMED_RUNS).await;
            runs.spawn("lease-release", async move { release.cancel() });
        });
        running.close(&CancellationToken::new()).await;
        assert!(released.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn at_a_forced_end_runs_are_cut_off_and_what_has_ended_is_written() {
        let store = Arc::new(TestRuns::default());
        store.switch.pause_for(600);
        let (behind, flusher) = WriteBehind::new(store.clone(), Backlog::default(), Arc::new(Unobserved));
        let running = running();
        let until = running.drain.stopping();
        running.drain.spawn("run-recorder", async move { flusher.run(until).await });
        running.runs.spawn("run", pending());
        running.workers.spawn("worker", pending());
        behind.append("run_1", Epoch::UNCLAIMED, 0, &[Event::Cancelled]).await.unwrap();
        behind.end(record("run_1"));

        let forced = CancellationToken::new();
        forced.cancel();
        let began = Instant::now();
        running.close(&forced).await;
        assert_eq!(store.records(), [record("run_1")]);
        assert_eq!(store.events("run_1"), [Event::Cancelled]);
        // Within what the server leaves for it, and nothing but the store was waited for.
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
}
