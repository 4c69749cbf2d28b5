//! Jobs that are cancelled at the end of an attempt: job and run come to the same end, whichever was first.

use async_trait::async_trait;

use super::*;
use crate::layers::{Ask, RunAnswer};

/// An agent whose runs end so as soon as they are cancelled.
struct WhenCancelled(Result<RunAnswer, InvokeError>);

#[async_trait]
impl Invoke for WhenCancelled {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        ask.control.cancel.unwrap_or_default().cancelled().await;
        self.0.clone()
    }
}

/// Its last reply was stored, and the turn of its conversation was about to be appended.
#[tokio::test(start_paused = true)]
async fn a_run_that_had_come_to_its_end_completes_its_job_although_that_is_cancelled() {
    let bench = bench(WhenCancelled(Ok(ScriptedInvoke::answer("4"))));
    let job_id = bench.submit().await;
    let cancel = async {
        moments(1).await;
        assert_eq!(bench.jobs.cancel("u1", &job_id).await, Ok(CancelOutcome::Asked));
        bench.ended(&job_id).await
    };
    let job = bench.work_while(cancel).await;
    assert_eq!((job.status, bench.noted()), (JobStatus::Completed, vec![AttemptOutcome::Completed]));
    let result: Value = serde_json::from_str(job.result.unwrap().get()).unwrap();
    assert_eq!(result["output"], "4");
}
