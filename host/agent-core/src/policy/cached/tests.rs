//! What is kept, what is shared, and what a cache that fails costs.

use std::sync::Mutex;

use super::*;
use crate::testing::{EchoTools, ScriptedInvoke, TestCache};
use crate::words::Options;

#[derive(Default)]
struct Noted(Mutex<Vec<CacheUse>>);

impl Observer for Noted {
    fn cache_used(&self, how: CacheUse) {
        self.0.lock().unwrap().push(how);
    }
}

struct Bench {
    agent: ScriptedInvoke,
    cache: Arc<TestCache>,
    noted: Arc<Noted>,
    cached: Cached<ScriptedInvoke>,
}

fn bench(agent: ScriptedInvoke) -> Bench {
    bench_with(agent, Arc::new(EchoTools::new(&["echo"])))
}

fn bench_with(agent: ScriptedInvoke, toolbox: Arc<dyn Toolbox>) -> Bench {
    let (cache, noted) = (Arc::new(TestCache::default()), Arc::new(Noted::default()));
    let cached = Cached::new(agent.clone(), cache.clone(), toolbox, "m".into(), noted.clone());
    Bench { agent, cache, noted, cached }
}

impl Bench {
    async fn ask(&self, query: &str) -> Outcome {
        self.cached.invoke(Ask::new("r".into(), query.into())).await
    }

    fn noted(&self) -> Vec<CacheUse> {
        std::mem::take(&mut self.noted.0.lock().unwrap())
    }

    fn nothing_is_under_way(&self) {
        assert_eq!((self.agent.under_way(), self.cached.flights.under_way()), (0, 0));
    }
}

#[tokio::test]
async fn a_question_is_answered_once_and_then_from_the_cache() {
    let bench = bench(ScriptedInvoke::answering("4"));
    let first = bench.ask("2+2").await.unwrap();
    let second = bench.ask("2+2").await.unwrap();
    assert_eq!((first.cached, second.cached), (Some(false), Some(true)));
    assert_eq!(first.result, second.result);
    let other = Ask {
        options: Options { max_tokens: Some(100), temperature: None },
        ..Ask::new("r".into(), "2+2".into())
    };
    assert_eq!(bench.cached.invoke(other).await.unwrap().cached, Some(false));
    assert_eq!(bench.agent.asked().len(), 2);
    assert_eq!(bench.noted(), [CacheUse::Miss, CacheUse::Hit, CacheUse::Miss]);
    assert_eq!(bench.cache.kept()[0].1, Duration::from_secs(3600));
}

#[tokio::test]
async fn only_a_completed_run_is_kept() {
    let reasons =
        [StopReason::MaxIterations, StopReason::TokenBudget, StopReason::MaxTokens, StopReason::Cancelled];
    for reason in reasons {
        let bench = bench(ScriptedInvoke::new([Ok(ScriptedInvoke::ended("half", reason))]));
        assert_eq!(bench.ask("q").await.unwrap().cached, Some(false));
        assert!(bench.cache.kept().is_empty(), "{reason:?}");
    }
    let bench = bench(ScriptedInvoke::new([Err(InvokeError::Busy { waited: PATIENCE })]));
    bench.ask("q").await.unwrap_err();
    bench.ask("q").await.unwrap_err();
    assert_eq!((bench.agent.asked().len(), bench.cache.kept().len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn identical_questions_of_one_moment_run_the_agent_once() {
    let bench = bench(ScriptedInvoke::default());
    bench.agent.add_after(Duration::from_secs(3), Ok(ScriptedInvoke::answer("4")));
    let (a, b, other) = tokio::join!(bench.ask("2+2"), bench.ask("2+2"), bench.ask("3+3"));
    for answer in [a, b, other] {
        assert_eq!(answer.unwrap().cached, Some(false));
    }
    assert_eq!(bench.agent.asked().len(), 2);
    let mut noted = bench.noted();
    noted.sort_by_key(|how| how.as_str());
    assert_eq!(noted, [CacheUse::Miss, CacheUse::Miss, CacheUse::Shared]);
    bench.nothing_is_under_way();
}

#[tokio::test(start_paused = true)]
async fn when_one_caller_goes_away_the_others_carry_on_and_when_all_do_the_run_is_dropped() {
    let bench = bench(ScriptedInvoke::default());
    bench.agent.add_after(Duration::from_secs(3), Ok(ScriptedInvoke::answer("4")));
    let (mut first, mut second) = (Box::pin(bench.ask("2+2")), Box::pin(bench.ask("2+2")));
    let moment = Duration::from_secs(1);
    assert!(timeout(moment, first.as_mut()).await.is_err());
    assert!(timeout(moment, second.as_mut()).await.is_err());
    drop(first);
    assert_eq!(second.await.unwrap().result.output, "4");
    assert_eq!(bench.agent.asked().len(), 1);
    bench.nothing_is_under_way();

    bench.agent.hang();
    let (mut first, mut second) = (Box::pin(bench.ask("hang")), Box::pin(bench.ask("hang")));
    assert!(timeout(moment, first.as_mut()).await.is_err());
    assert!(timeout(moment, second.as_mut()).await.is_err());
    drop(first);
    assert_eq!(bench.agent.under_way(), 1);
    drop(second);
    bench.nothing_is_under_way();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_panics_is_an_error_for_all_who_wait_and_the_next_caller_runs_anew() {
    let bench = bench(ScriptedInvoke::default());
    bench.agent.panic();
    let (a, b) = tokio::join!(bench.ask("q"), bench.ask("q"));
    for answer in [a, b] {
        assert!(matches!(answer, Err(InvokeError::Run(RunError::Panicked))), "{answer:?}");
    }
    assert_eq!(bench.agent.asked().len(), 1);
    bench.nothing_is_under_way();
    bench.agent.add(Ok(ScriptedInvoke::answer("4")));
    assert_eq!(bench.ask("q").await.unwrap().result.output, "4");
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_fails_or_hangs_is_a_miss_that_delays_nobody_for_long() {
    let bench = bench(ScriptedInvoke::answering("4"));
    bench.cache.switch.fail(true);
    assert_eq!(bench.ask("q").await.unwrap().cached, Some(false));
    assert_eq!(bench.noted(), [CacheUse::Failed, CacheUse::Miss, CacheUse::Failed]);
    bench.cache.switch.hang(true);
    let start = tokio::time::Instant::now();
    assert_eq!(bench.ask("q").await.unwrap().cached, Some(false));
    assert!(start.elapsed() <= 2 * PATIENCE + Duration::from_millis(10), "{:?}", start.elapsed());
    bench.cache.switch.hang(false);
    bench.cache.switch.fail(false);
    bench.ask("q").await.unwrap();
    assert_eq!(bench.ask("q").await.unwrap().cached, Some(true));
}

/// A toolbox whose tools are swapped by whoever runs the agent.
struct Swapping(Mutex<EchoTools>);

impl Toolbox for Swapping {
    fn current(&self) -> Arc<dyn crate::ports::ToolSet> {
        Arc::new(self.0.lock().unwrap().clone())
    }

    fn faults(&self) -> Vec<crate::ports::ToolFault> {
        vec![]
    }
}

#[tokio::test(start_paused = true)]
async fn a_swapped_tool_set_gets_no_stale_answers() {
    let toolbox = Arc::new(Swapping(Mutex::new(EchoTools::of_digest("sha256:1"))));
    let bench = bench_with(ScriptedInvoke::answering("old"), toolbox.clone());
    bench.ask("q").await.unwrap();
    *toolbox.0.lock().unwrap() = EchoTools::of_digest("sha256:2");
    assert_eq!(bench.ask("q").await.unwrap().cached, Some(false));
    assert_eq!(bench.cache.kept().len(), 2);

    // Swapped while the agent runs: nobody knows which tools it ran with.
    bench.agent.add_after(Duration::from_secs(3), Ok(ScriptedInvoke::answer("either")));
    let swap = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        *toolbox.0.lock().unwrap() = EchoTools::of_digest("sha256:3");
    };
    let (answer, ()) = tokio::join!(bench.ask("q2"), swap);
    assert_eq!(answer.unwrap().cached, Some(false));
    assert_eq!(bench.cache.kept().len(), 2);
}
