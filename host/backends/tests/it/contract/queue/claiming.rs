//! Who gets which job.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{AttemptEnd, JobQueue};
use agent_core::words::{
    ClientFunction, JobData, JobStatus, Message, Options, Principal, ReplyRules, RetryOutcome, ToolCall,
};
use futures::FutureExt as _;
use futures::future::join_all;
use serde_json::json;
use test_servers::{PATIENCE, Task, eventually};

use super::{Bench, add, assert_nothing_to_claim, claim_next, completed, data, failed, read};
use crate::contract::text::{NASTY, long};

pub(crate) async fn jobs_are_claimed_in_the_order_they_were_added(bench: &Bench) {
    let ids = [add(bench, "1").await, add(bench, "2").await, add(bench, "3").await];
    for id in ids {
        let claim = claim_next(&*bench.queue, "worker").await;
        assert_eq!(claim.job_id, id);
        assert_eq!(claim.attempts_made, 0);
        let job = read(bench, &id).await;
        assert_eq!((job.status, job.attempts_made), (JobStatus::Active, 0));
        assert_eq!(job.created_at, claim.created_at);
        assert!(job.started_at.is_some() && job.finished_at.is_none());
    }
    assert_nothing_to_claim(bench).await;
}

pub(crate) async fn an_empty_queue_gives_nothing(bench: &Bench) {
    for patience in [Duration::ZERO, Duration::from_millis(20)] {
        assert_eq!(bench.queue.claim("worker", patience).await.unwrap(), None);
    }
}

pub(crate) async fn whoever_waits_gets_what_is_added(bench: &Bench) {
    let mut waiting = begin_claiming(&bench.queue, "worker");
    assert!(!waiting.has_ended());
    let id = add(bench, "awaited").await;
    assert_eq!(waiting.ended().await, id);
}

pub(crate) async fn whoever_waits_gets_what_another_process_adds(bench: &Bench) {
    let waiting = begin_claiming(&bench.queue, "worker");
    let id = bench.peer.add(&data("u1", "awaited")).await.unwrap();
    assert_eq!(waiting.ended().await, id);
}

pub(crate) async fn each_job_is_claimed_by_one_of_many(bench: &Bench) {
    const JOBS: usize = 60;
    let takers: Vec<_> = (0..JOBS)
        .map(|taker| {
            let queue = if taker % 2 == 0 { &bench.queue } else { &bench.peer };
            begin_claiming(queue, &format!("worker {taker}"))
        })
        .collect();
    let jobs: Vec<_> = (0..JOBS).map(|number| data("u1", &number.to_string())).collect();
    let added = join_all(jobs.iter().map(|job| bench.queue.add(job))).await;
    let added: HashSet<_> = added.into_iter().map(Result::unwrap).collect();
    assert_eq!(added.len(), JOBS, "ids are unique");
    let taken = join_all(takers.into_iter().map(Task::ended)).await;
    assert_eq!(taken.into_iter().collect::<HashSet<_>>(), added);
    assert_nothing_to_claim(bench).await;
}

pub(crate) async fn one_that_stops_waiting_leases_nothing(bench: &Bench) {
    for _ in 0..5 {
        let waiting = bench.queue.claim("impatient", PATIENCE);
        assert!(waiting.now_or_never().is_none());
    }
    let id = add(bench, "job").await;
    assert_eq!(claim_next(&*bench.queue, "worker").await.job_id, id);
}

pub(crate) async fn a_run_id_belongs_to_one_job(bench: &Bench) {
    let (first, second) = (add(bench, "same").await, add(bench, "same").await);
    let before = [claim_next(&*bench.queue, "worker").await, claim_next(&*bench.queue, "worker").await];
    assert_eq!([&before[0].job_id, &before[1].job_id], [&first, &second]);
    assert!(before.iter().all(|claim| claim.run_id.starts_with("run_")), "{before:?}");
    assert_ne!(before[0].run_id, before[1].run_id);
    assert_ne!(before[0].token, before[1].token);
    for claim in &before {
        bench.queue.settle(claim, &failed("once more", true)).await.unwrap();
    }
    for _ in 0..2 {
        let again = claim_next(&*bench.peer, "another").await;
        let first = before.iter().find(|claim| claim.job_id == again.job_id).expect("one of the two");
        assert_eq!((&again.run_id, &again.data), (&first.run_id, &first.data));
        assert_eq!((again.attempts_made, again.created_at), (1, first.created_at));
        assert_ne!(again.token, first.token);
        bench.queue.settle(&again, &completed("1")).await.unwrap();
    }
    eventually("both to be done", async || (bench.queue.depth().await.unwrap().active == 0).then_some(()))
        .await;
}

/// Every attempt's run is made on behalf of who submitted the job, as the token said.
pub(crate) async fn a_claim_names_who_submitted_the_job(bench: &Bench) {
    let text = |text: &str| Some(text.to_owned());
    for (tier, role) in [
        (text("premium"), text("admin")),
        (text(""), None),
        (None, text(NASTY)),
        (text(&long()), None),
        (None, None),
    ] {
        let submitter = Principal { tier, role, ..Principal::user("u1") };
        let conversation_id = submitter.tier.is_some().then(|| "trip-1".to_owned());
        let job = JobData { conversation_id, ..JobData::submitted_by(submitter.clone(), "q".into()) };
        bench.queue.add(&job).await.unwrap();
        for queue in [&bench.queue, &bench.peer] {
            let claim = claim_next(&**queue, "worker").await;
            let data = claim.data.as_ref().unwrap();
            assert_eq!((data.principal(), &data.conversation_id), (submitter.clone(), &job.conversation_id));
            queue.settle(&claim, &AttemptEnd::HANDED_BACK).await.unwrap();
        }
        let claim = claim_next(&*bench.queue, "worker").await;
        bench.queue.settle(&claim, &completed("1")).await.unwrap();
    }
}

/// Every attempt has the options that its submitter asked for, whatever is in them, and so has a retry.
pub(crate) async fn a_claim_has_the_options_of_its_job(bench: &Bench) {
    let history = vec![
        Message::User { content: NASTY.into() },
        Message::Assistant {
            content: String::new(),
            tool_calls: vec![ToolCall {
                id: "1".into(),
                name: "add".into(),
                arguments: json!({"a": [], "b": {}}),
            }],
        },
        Message::Tool { tool_call_id: "1".into(), name: "add".into(), content: long() },
    ];
    let function = ClientFunction {
        name: "look".into(),
        description: "looks".into(),
        parameters: json!({"type": "object", "properties": {}, "required": []}),
    };
    let tools = Some(vec![]);
    let rules = ReplyRules { stop: vec!["END".into()], one_call: true, ..ReplyRules::default() };
    let functions = vec![function];
    let call = Some(ToolCall { id: "1".into(), name: "add".into(), arguments: json!({"a": 1}) });
    let (max_tokens, temperature) = (Some(100), Some(0.7));
    let options = Options { max_tokens, temperature, tools, history, functions, rules, call };
    for options in [Options::default(), Options { max_tokens: Some(7), ..Options::default() }, options] {
        for input in ["q", ""] {
            let job = JobData::with_options(Principal::user("u1"), input.into(), options.clone());
            bench.queue.add(&job).await.unwrap();
            let claim = claim_next(&*bench.peer, "worker").await;
            assert_eq!(
                claim.data.as_ref().map(|data| (data.input(), &data.options)),
                Ok((input, &job.options))
            );
            bench.queue.settle(&claim, &failed("for good", false)).await.unwrap();
            assert_eq!(bench.queue.retry(&claim.job_id).await.unwrap(), RetryOutcome::Done);
            let again = claim_next(&*bench.queue, "worker").await;
            assert_eq!((&again.job_id, &again.data), (&claim.job_id, &claim.data));
            assert_ne!(again.run_id, claim.run_id, "a run of its own");
            bench.queue.settle(&again, &completed("1")).await.unwrap();
        }
    }
}

/// Waits beside the test for a job, and says its id.
fn begin_claiming(queue: &Arc<dyn JobQueue>, worker: &str) -> Task<String> {
    let (queue, worker) = (Arc::clone(queue), worker.to_owned());
    Task::begin(async move { claim_next(&*queue, &worker).await.job_id })
}

pub(crate) async fn a_job_under_a_chosen_id_is_added_once(bench: &Bench) {
    let job = data("u1", "once").with_id("0198f0c2d3a47b119c0123456789abcd");
    for _ in 0..2 {
        assert_eq!(bench.queue.add(&job).await.as_deref(), Ok("0198f0c2d3a47b119c0123456789abcd"));
    }
    let claim = claim_next(&*bench.queue, "worker").await;
    assert_eq!(claim.job_id, "0198f0c2d3a47b119c0123456789abcd");
    assert_eq!(claim.run_id, "run_0198f0c2d3a47b119c0123456789abcd", "its run is known before");
    assert_nothing_to_claim(bench).await;
    bench.queue.settle(&claim, &completed("1")).await.unwrap();
    bench.queue.add(&job).await.unwrap();
    assert_nothing_to_claim(bench).await;
    assert_eq!(read(bench, &claim.job_id).await.status, JobStatus::Completed, "also when it has ended");
}
