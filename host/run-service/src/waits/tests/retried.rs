//! Waits of a job that is retried, and waits whose ids do not name the run.

use agent_core::words::RetryOutcome;

use super::*;

/// The answer to the first approval was lost, so the client sends the approval once more. By then the job has
/// been retried, and its new run waits for the same call.
#[tokio::test(start_paused = true)]
async fn an_approval_for_one_run_is_none_for_the_run_of_a_retry() {
    let asks = || Ok(asks_for(&[("1", "pay", json!({ "euros": 5 }))]));
    let model = ScriptedModel::new([asks(), asks(), Ok(says("paid"))]);
    let bench = Bench::begun(Arc::new(model), tools(), "pay ada").await;
    bench.work_for(1).await;
    let first = bench.wait().await;
    bench.queue.change(&bench.job_id, |job| job.status = JobStatus::Failed);
    assert_eq!(bench.queue.retry(&bench.job_id).await, Ok(RetryOutcome::Done));
    bench.work_for(1).await;
    let second = bench.wait().await;
    let shown = second.open.wait.shown.digest();
    assert_eq!(first.open.wait.shown.digest(), shown, "the same call");

    let approval = ProposedDecision { by: ada(), shown, verdict: Verdict::Approve };
    let late = bench.waits.decide(&first.id, &approval).await;
    assert!(matches!(late, Err(NotDecided::Unknown)), "{late:?}");
    assert!(bench.waits.show(&ada(), &first.id).await.unwrap().is_none());
    assert_eq!(bench.status(), JobStatus::Parked);
    bench.waits.decide(&second.id, &approval).await.unwrap();
    bench.work_for(1).await;
    assert_eq!(bench.result()["output"], "paid");
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_an_older_journal_is_decided_under_the_id_that_stands_there() {
    let bench = Bench::parked(tools()).await;
    let events = bench.runs.events("run_job_1");
    let Some(Event::Waiting { mut waits, epoch }) = events.last().cloned() else { panic!("{events:?}") };
    waits[0].id = "1:1.0".into();
    let (next, waiting) = (events.len() as u64, Event::Waiting { waits, epoch });
    bench.runs.append("run_job_1", Epoch(epoch), next, &[waiting]).await.unwrap();
    assert_eq!(bench.wait().await.id, "1:1.0");
    assert!(bench.decide(&ada(), Verdict::Approve).await.unwrap().goes_on);
    bench.work_for(1).await;
    assert_eq!(bench.result()["output"], "paid");
}
