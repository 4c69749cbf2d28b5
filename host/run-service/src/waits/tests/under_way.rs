//! Decisions about runs whose jobs are not parked at that moment.

use super::*;
use crate::layers::wait_tools::WAIT_FOR_EVENT;

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
    let (decided, ()) = tokio::join!(bench.approve(&wait), bench.work_for(20));
    assert!(decided.unwrap().goes_on);
    assert_eq!(bench.result()["output"], "paid");
}

/// What else the run waited for is decided, and no worker is free. Meanwhile the journals are away.
#[tokio::test(start_paused = true)]
async fn a_decision_reads_no_journal_while_its_job_waits_for_a_worker() {
    let calls = [("1", "pay", json!({ "euros": 5 })), ("2", "pay", json!({ "euros": 6 }))];
    let bench = Bench::parked_by(tools(), &calls).await;
    let waits = bench.waits.list("ada", 10, None).await.unwrap().waits;
    bench.approve(&waits[0]).await.unwrap();
    assert_eq!(bench.status(), JobStatus::Waiting);
    let others = async {
        sleep(Duration::from_secs(1)).await;
        bench.runs.switch.fail(true);
        sleep(Duration::from_secs(1)).await;
        bench.runs.switch.fail(false);
        bench.work_for(20).await;
    };
    let (decided, ()) = tokio::join!(bench.approve(&waits[1]), others);
    assert!(decided.unwrap().goes_on);
    assert_eq!(bench.result()["output"], "paid");
}

#[tokio::test(start_paused = true)]
async fn an_event_reaches_all_that_a_run_waits_for_although_no_worker_is_free_and_is_one_runs() {
    let awaited = || json!({ "name": "paid", "key": "7" });
    let calls = [("1", WAIT_FOR_EVENT, awaited()), ("2", WAIT_FOR_EVENT, awaited())];
    let bench = Bench::parked_by(tools(), &calls).await;
    let event = Delivery { name: "paid".into(), key: "7".into(), data: json!(42) };
    assert_eq!(bench.waits.deliver(&ada(), "ada", &event).await.unwrap(), 1);
    let events = bench.runs.events("run_job_1");
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Decided { .. })).count(), 2);
    bench.work_for(10).await;
    assert_eq!(bench.result()["output"], "paid");
}

#[tokio::test(start_paused = true)]
async fn an_event_reaches_a_run_whose_job_is_under_way_for_another_wait_of_its_reply() {
    let awaited = json!({ "name": "paid", "key": "7" });
    let calls = [("1", "pay", json!({ "euros": 5 })), ("2", WAIT_FOR_EVENT, awaited)];
    for status in [JobStatus::Waiting, JobStatus::Active, JobStatus::Delayed] {
        let bench = Bench::parked_by(tools(), &calls).await;
        bench.approve(&bench.of_kind(WaitKind::Approval).await[0]).await.unwrap();
        match status {
            // By a worker that dies.
            JobStatus::Active => {
                bench.queue.claim("dead", Duration::ZERO).await.unwrap().unwrap();
            }
            JobStatus::Delayed => bench.fail_attempt().await,
            _ => {}
        }
        assert_eq!(bench.status(), status);
        let (by, data) = (ada(), json!(42));
        let event = Delivery { name: "paid".into(), key: "7".into(), data };
        let (delivered, ()) = tokio::join!(bench.waits.deliver(&by, "ada", &event), bench.work_for(20));
        assert_eq!(delivered.unwrap(), 1, "{status:?}");
        assert_eq!(bench.result()["output"], "paid", "{status:?}");
    }
}

/// No worker is free for so long that one of two waits for the event expires.
#[tokio::test(start_paused = true)]
async fn an_event_reaches_a_wait_although_another_one_for_it_expires_meanwhile() {
    let awaited = |within: u64| json!({ "name": "paid", "key": "7", "within_seconds": within });
    let pay = ("1", "pay", json!({ "euros": 5 }));
    let calls = [pay, ("2", WAIT_FOR_EVENT, awaited(5)), ("3", WAIT_FOR_EVENT, awaited(3600))];
    let bench = Bench::parked_by(tools(), &calls).await;
    bench.approve(&bench.of_kind(WaitKind::Approval).await[0]).await.unwrap();
    assert_eq!(bench.status(), JobStatus::Waiting);
    let worker = async {
        sleep(Duration::from_secs(15)).await;
        bench.work_for(20).await;
    };
    let (by, data) = (ada(), json!(42));
    let event = Delivery { name: "paid".into(), key: "7".into(), data };
    let (delivered, ()) = tokio::join!(bench.waits.deliver(&by, "ada", &event), worker);
    assert_eq!(delivered.unwrap(), 1);
    assert_eq!(bench.result()["output"], "paid");
}
