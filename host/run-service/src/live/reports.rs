//! The side of a call that tells how far it has got.

use std::sync::Arc;

use agent_core::words::CallProgress;

use super::LiveRun;

/// The progress of one call, as it is told. Taken back when this is dropped, with the call: nobody reads of a
/// call under way that has returned.
#[derive(Debug)]
pub struct CallReports<'a> {
    run: &'a LiveRun,
    call_id: Arc<str>,
    has_told: bool,
}

impl LiveRun {
    /// Where the progress of that call goes. `call_id` is unique within the run.
    pub fn reports(&self, call_id: &str) -> CallReports<'_> {
        CallReports { run: self, call_id: call_id.into(), has_told: false }
    }
}

impl CallReports<'_> {
    /// Tells whoever watches the run.
    pub fn tell(&mut self, progress: CallProgress) {
        let LiveRun { runs, run_id } = self.run;
        if let Some(watched) = runs.0.lock().get(run_id) {
            self.has_told = true;
            watched.progress.send_modify(|board| board.report(self.call_id.clone(), progress));
        }
    }
}

impl Drop for CallReports<'_> {
    fn drop(&mut self) {
        if !self.has_told {
            return;
        }
        let LiveRun { runs, run_id } = self.run;
        if let Some(watched) = runs.0.lock().get(run_id) {
            // Nobody has to be woken for it.
            watched.progress.send_if_modified(|board| {
                board.remove(&self.call_id);
                false
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_core::words::ToolProgress;
    use futures::FutureExt as _;

    use super::*;
    use crate::live::{Live, LiveRuns, Watcher};

    fn report(call: &str, message: &str) -> CallProgress {
        let progress = ToolProgress { message: message.into(), fraction: None };
        CallProgress { number: 2, index: 0, id: call.into(), name: "count".into(), progress }
    }

    async fn read(watcher: &mut Watcher) -> Vec<String> {
        let Ok(Live::Progress(told)) = watcher.next().await else { panic!() };
        told.iter().map(|it| format!("{} {}", it.id, it.progress.message)).collect()
    }

    #[tokio::test]
    async fn a_slow_watcher_reads_the_latest_of_each_call_and_is_not_behind() {
        let runs = LiveRuns::default();
        let run = runs.run("run_1");
        let (mut first, mut second) = (run.reports("1"), run.reports("2"));
        first.tell(report("1", "nobody watches"));
        let mut watcher = runs.watch("run_1");
        assert!(watcher.next().now_or_never().is_none());
        for step in 0..1_000 {
            first.tell(report("1", &step.to_string()));
        }
        second.tell(report("2", "half"));
        assert_eq!(read(&mut watcher).await, ["1 999", "2 half"]);
        assert!(watcher.next().now_or_never().is_none(), "nothing is told twice");
        second.tell(report("2", "whole"));
        let mut late = runs.watch("run_1");
        assert_eq!(read(&mut late).await, ["1 999", "2 whole"], "who comes later reads how far they are");
        drop((first, second));
        assert!(watcher.next().now_or_never().is_none(), "calls that returned have no progress");
    }
}
