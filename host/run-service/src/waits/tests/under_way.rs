//! Decisions about runs whose jobs are not parked at that moment.

use super::*;

impl Bench {
    /// An attempt at the job fails, which is tried again in two seconds.
    async fn fail_attempt(&self) {
        let failing = Arc::new(ScriptedInvoke::new([Err(RunError::Panicked.into())]));
        let other = Worker::new(&self.jobs, worker_context(failing, self.runs.clone()));
        work_for(&other, Duration::from_millis(500)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_waits_for_a_job_that_is_to_be_tried_again_soon() {
    let bench = Bench::parked(tools()).await;
    let wait = bench.wait().await;
    assert!(bench.queue.resume(&bench.job_id, Duration::ZERO).await.unwrap());
    bench.fail_attempt().await;
    assert_eq!(bench.status(), JobStatus::Delayed);
    let proposed =
        ProposedDecision { by: ada(), shown: wait.open.wait.shown.digest(), verdict: Verdict::Approve };
    let (decided, ()) = tokio::join!(bench.waits.decide(&wait.id, &proposed), bench.work_for(20));
    assert!(decided.unwrap().goes_on);
    assert_eq!(bench.result()["output"], "paid");
}
