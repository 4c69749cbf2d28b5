//! The next job, claimed with the end of the last one.

use std::sync::atomic::Ordering;

use agent_core::ports::ModelError;

use super::*;

fn handing_over(agent: ScriptedInvoke) -> Bench {
    let bench = bench(agent);
    bench.queue.hands_over.store(true, Ordering::Relaxed);
    bench
}

fn answers(count: usize) -> ScriptedInvoke {
    ScriptedInvoke::new((0..count).map(|_| Ok(ScriptedInvoke::answer("4"))))
}

#[tokio::test(start_paused = true)]
async fn one_job_after_the_other_is_claimed_with_the_end_of_the_last_one() {
    let bench = handing_over(answers(5));
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(bench.submit().await);
    }
    let all = async {
        for id in &ids {
            assert_eq!(bench.ended(id).await.status, JobStatus::Completed);
        }
    };
    bench.work_while(all).await;
    assert_eq!(bench.queue.handed_over(), 4, "the first one was asked for");
    assert_eq!(bench.noted(), [AttemptOutcome::Completed; 5]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_with_an_end_while_the_provider_fails() {
    let (provider, detail) = ("p".to_owned(), "away".to_owned());
    let away = InvokeError::Run(RunError::Model(ModelError::Unreachable { provider, detail }));
    let bench = handing_over(ScriptedInvoke::new([
        Err(away),
        Ok(ScriptedInvoke::answer("4")),
        Ok(ScriptedInvoke::answer("4")),
    ]));
    let (first, second) = (bench.submit().await, bench.submit().await);
    let both = async { (bench.ended(&first).await, bench.ended(&second).await) };
    let (first, second) = bench.work_while(both).await;
    assert_eq!((first.status, second.status), (JobStatus::Completed, JobStatus::Completed));
    // The first end is a job handed back while the provider is down; the second one is the trial that finds
    // it well.
    assert!(bench.queue.handed_over() <= 1, "{}", bench.queue.handed_over());
    assert_eq!(bench.noted()[0], AttemptOutcome::HandedBack);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_with_an_end_when_the_worker_stops_or_there_is_no_permit() {
    for stops in [true, false] {
        let agent = ScriptedInvoke::default();
        agent.add_after(SECOND * 2, Ok(ScriptedInvoke::answer("4")));
        let bench = handing_over(agent);
        let (first, second) = (bench.submit().await, bench.submit().await);
        let mut permits = Vec::new();
        let meanwhile = async {
            moments(1).await;
            if stops {
                bench.stopping.cancel();
            }
            while !stops && permits.len() < 9 {
                permits.push(bench.admission.acquire().await);
            }
            if !stops {
                // Queues up behind the run that is under way, and has its permit before the queue is told of
                // the end.
                permits.push(bench.admission.acquire().await);
            }
            bench.ended(&first).await
        };
        bench.work_while(meanwhile).await;
        assert_eq!(bench.queue.job(&second).status, JobStatus::Waiting, "stops: {stops}");
        assert_eq!(bench.queue.handed_over(), 0);
    }
}
