//! The options of a job's run: every attempt has them, and so has the run of a retry.

use agent_core::ports::ConversationStore as _;
use agent_core::testing::{
    EchoTools, ScriptedModel, TestConversations, TokioSpawn, asks_for, reply, says, user,
};
use agent_core::words::{ConversationKey, Event, Options, ToolOutcome};
use serde_json::json;

use super::*;
use crate::conversations::Conversations;
use crate::layers::{Agent, ConversationTurns};

fn options() -> Options {
    let tools = Some(vec!["add".to_owned()]);
    Options { max_tokens: Some(50), tools, history: vec![user("before")], ..Options::default() }
}

fn job(query: &str) -> JobData {
    JobData::with_options(Principal::user("u1"), query.into(), options())
}

#[tokio::test(start_paused = true)]
async fn every_attempt_has_the_options_of_its_job_and_a_retry_has_them_too() {
    let agent = ScriptedInvoke::new([Err(RunError::Panicked.into())]);
    let bench = bench(agent.clone());
    let job_id = bench.jobs.submit(&job("2+2")).await.unwrap();
    let job = bench
        .work_while(async {
            assert_eq!(bench.ended(&job_id).await.status, JobStatus::Failed);
            agent.add(Ok(ScriptedInvoke::answer("4")));
            bench.queue.retry(&job_id).await.unwrap();
            bench.ended(&job_id).await
        })
        .await;
    assert_eq!(job.status, JobStatus::Completed);
    let asked = agent.asked();
    assert_eq!(asked.len(), ATTEMPTS as usize + 1);
    for ask in asked {
        assert_eq!((ask.input.as_str(), ask.options), ("2+2", options()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_in_the_history_is_not_asked_again() {
    let agent = ScriptedInvoke::answering("4");
    let bench = bench(agent.clone());
    let job_id = bench.jobs.submit(&job("")).await.unwrap();
    bench.work_while(bench.ended(&job_id)).await;
    let asked = &agent.asked()[0];
    assert_eq!((asked.input.as_str(), &asked.options), ("", &options()));
}

/// An agent with the tools `add` and `search`.
fn agent(runs: &Arc<TestRuns>, model: &Arc<ScriptedModel>) -> Agent {
    Agent::new(model.clone(), Arc::new(EchoTools::new(&["add", "search"])), runs.clone())
}

/// A worker that died had begun the run with the options, which stand in its journal by then.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_taken_up_has_only_the_tools_that_its_job_chose() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let calls = asks_for(&[("1", "add", json!({})), ("2", "search", json!({}))]);
    let model = Arc::new(ScriptedModel::new([Ok(calls), Ok(says("done"))]));
    let bench = bench_on(&queue, &runs, agent(&runs, &model));
    let job_id = bench.jobs.submit(&job("2+2")).await.unwrap();
    let killed = queue.claim("killed", SECOND).await.unwrap().unwrap();
    moments(LEASE.as_secs() as u32 + 1).await;
    let ended = bench.work_while(bench.ended(&job_id)).await;
    assert_eq!((ended.status, killed.job_id), (JobStatus::Completed, job_id));
    let events = runs.events("run_job_1");
    let [Event::Started { task, .. }, ..] = &events[..] else { panic!("{events:?}") };
    assert_eq!(task.options, options());
    let outcomes = events.iter().filter_map(|event| match event {
        Event::ToolReturned { answer, .. } => Some(answer.receipt.outcome),
        _ => None,
    });
    assert_eq!(outcomes.collect::<Vec<_>>(), [ToolOutcome::Ok, ToolOutcome::UnknownTool]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_gone_by_now_fails_the_job_and_the_job_says_so() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let model = Arc::new(ScriptedModel::new([]));
    let toolbox = Arc::new(EchoTools::new(&["search"]));
    let bench = bench_on(&queue, &runs, Agent { toolbox, ..agent(&runs, &model) });
    let job_id = bench.jobs.submit(&job("2+2")).await.unwrap();
    let ended = bench.work_while(bench.ended(&job_id)).await;
    assert_eq!((ended.status, ended.attempts_made), (JobStatus::Failed, 1));
    assert!(
        ended.error.as_deref().is_some_and(|error| error.contains("A tool that the job chose")),
        "{ended:?}"
    );
}

/// The history of the request stands behind what was said in the conversation by the time that the run
/// begins, and both are part of the turn.
#[tokio::test(start_paused = true)]
async fn jobs_of_one_conversation_know_what_those_before_them_came_to() {
    let (queue, runs) = (Arc::new(TestQueue::default()), Arc::new(TestRuns::default()));
    let model = Arc::new(ScriptedModel::new([Ok(says("4")), Ok(says("6"))]));
    let store = Arc::new(TestConversations::default());
    let conversations = Conversations::new(store.clone(), Arc::new(TokioSpawn));
    let bench =
        bench_on(&queue, &runs, ConversationTurns::new(agent(&runs, &model), conversations, SECOND * 30));
    let in_conversation = |query| JobData { conversation_id: Some("sums".into()), ..job(query) };
    bench.jobs.submit(&in_conversation("2+2")).await.unwrap();
    let last = bench.jobs.submit(&in_conversation("3+3")).await.unwrap();
    bench.work_while(bench.ended(&last)).await;
    let first = [user("before"), user("2+2")];
    let second = [&first[..], &[reply("4"), user("before"), user("3+3")]].concat();
    assert_eq!(model.asked(), [first.to_vec(), second]);
    let kept = store.read(ConversationKey::conversation("u1", "sums")).await.unwrap().unwrap();
    let turns: Vec<_> = kept.turns.into_iter().map(|turn| turn.messages).collect();
    assert_eq!(turns[1], [user("before"), user("3+3"), reply("6")]);
}
