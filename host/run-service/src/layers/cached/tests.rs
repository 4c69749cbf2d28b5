//! What is kept, what is shared, and what a cache that fails costs.

mod passed_on;

use parking_lot::Mutex;

use agent_core::ports::Spawn;
use agent_core::testing::{
    EchoTools, ScriptedModel, SwappedTools, TestCache, TestJournal, TokioSpawn, asks_for, says,
};
use agent_core::words::Options;
use futures::future::BoxFuture;
use serde_json::json;

use super::*;
use crate::layers::{Agent, RateCheck, RateChecked};
use crate::testing::ScriptedInvoke;

#[derive(Default)]
struct Noted(Mutex<Vec<CacheUse>>);

impl Observer for Noted {
    fn cache_used(&self, how: CacheUse) {
        self.0.lock().push(how);
    }
}

const SECOND: Duration = Duration::from_secs(1);

type Answered = Result<RunAnswer, InvokeError>;

struct Bench {
    agent: ScriptedInvoke,
    cache: Arc<TestCache>,
    noted: Arc<Noted>,
    cached: Cached<ScriptedInvoke>,
}

fn behind(cache: &Arc<TestCache>) -> WriteBehindCache {
    WriteBehindCache::new(cache.clone(), Arc::new(TokioSpawn))
}

fn bench(agent: ScriptedInvoke) -> Bench {
    bench_with(agent, Arc::new(EchoTools::new(&["echo"])))
}

fn bench_with(agent: ScriptedInvoke, toolbox: Arc<dyn Toolbox>) -> Bench {
    let (cache, noted) = (Arc::new(TestCache::default()), Arc::new(Noted::default()));
    let cached =
        Cached::new(agent.clone(), behind(&cache), toolbox, Answerer::new("m".into(), None), noted.clone());
    Bench { agent, cache, noted, cached }
}

impl Bench {
    async fn ask(&self, query: &str) -> Answered {
        let outcome = self.cached.invoke(Ask::new("r".into(), query.into())).await;
        until_written().await;
        outcome
    }

    /// As that user, of that tier.
    async fn ask_as(&self, caller: &Principal, query: &str) -> Answered {
        let ask = Ask { principal: caller.clone(), ..Ask::new("r".into(), query.into()) };
        let outcome = self.cached.invoke(ask).await;
        until_written().await;
        outcome
    }

    /// With only these tools.
    async fn choose(&self, tools: &[&str]) -> Answered {
        let chosen = Some(tools.iter().map(|name| (*name).to_owned()).collect());
        let options = Options { tools: chosen, ..Options::default() };
        let outcome = self.cached.invoke(Ask { options, ..Ask::new("r".into(), "q".into()) }).await;
        until_written().await;
        outcome
    }

    fn noted(&self) -> Vec<CacheUse> {
        std::mem::take(&mut self.noted.0.lock())
    }

    fn nothing_is_under_way(&self) {
        assert_eq!((self.agent.under_way(), self.cached.flights.under_way()), (0, 0));
    }
}

/// Lets the task that keeps a result run, where nothing holds it up.
async fn until_written() {
    for _ in 0..3 {
        tokio::task::yield_now().await;
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
        options: Options { max_tokens: Some(100), ..Options::default() },
        ..Ask::new("r".into(), "2+2".into())
    };
    assert_eq!(bench.cached.invoke(other).await.unwrap().cached, Some(false));
    assert_eq!(bench.agent.asked().len(), 2);
    assert_eq!(bench.noted(), [CacheUse::Miss, CacheUse::Hit, CacheUse::Miss]);
    assert_eq!(bench.cache.kept()[0].1, Duration::from_secs(3600));
}

#[tokio::test]
async fn only_a_completed_run_is_kept() {
    for reason in [
        StopReason::MaxIterations,
        StopReason::TokenBudget,
        StopReason::MaxTokens,
        StopReason::ContentFilter,
        StopReason::EmptyReply,
        StopReason::Cancelled,
    ] {
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

    // A failure is everybody's as well.
    bench.agent.add_after(Duration::from_secs(3), Err(InvokeError::Busy { waited: PATIENCE }));
    let (a, b) = tokio::join!(bench.ask("q"), bench.ask("q"));
    for answer in [a, b] {
        assert!(matches!(answer, Err(InvokeError::Busy { .. })), "{answer:?}");
    }
    assert_eq!(bench.agent.asked().len(), 3);
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

#[tokio::test(start_paused = true)]
async fn a_swapped_tool_set_gets_no_stale_answers() {
    let toolbox = Arc::new(SwappedTools::new(EchoTools::of_digest("sha256:1")));
    let bench = bench_with(ScriptedInvoke::answering("old"), toolbox.clone());
    bench.ask("q").await.unwrap();
    toolbox.swap(EchoTools::of_digest("sha256:2"));
    assert_eq!(bench.ask("q").await.unwrap().cached, Some(false));
    assert_eq!(bench.cache.kept().len(), 2);

    // Swapped while the agent runs: nobody knows which tools it ran with.
    bench.agent.add_after(Duration::from_secs(3), Ok(ScriptedInvoke::answer("either")));
    let swap = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        toolbox.swap(EchoTools::of_digest("sha256:3"));
    };
    let (answer, ()) = tokio::join!(bench.ask("q2"), swap);
    assert_eq!(answer.unwrap().cached, Some(false));
    assert_eq!(bench.cache.kept().len(), 2);
}

fn user(id: &str) -> Principal {
    Principal::user(id)
}

fn premium(id: &str) -> Principal {
    Principal { tier: Some("premium".into()), ..user(id) }
}

#[tokio::test]
async fn callers_who_may_use_the_same_tools_share_answers_and_others_do_not() {
    let tools = EchoTools::new(&["add", "search"]).only_for_tier("search", "premium");
    let bench = bench_with(ScriptedInvoke::answering("4"), Arc::new(tools));
    let cached = async |caller: Principal| bench.ask_as(&caller, "q").await.unwrap().cached;
    assert_eq!(cached(user("u1")).await, Some(false));
    assert_eq!(cached(premium("u1")).await, Some(false), "one user with two tokens");
    assert_eq!(cached(user("u2")).await, Some(true));
    assert_eq!(cached(Principal::default()).await, Some(true));
    assert_eq!(cached(premium("u3")).await, Some(true));
    assert_eq!((bench.agent.asked().len(), bench.cache.kept().len()), (2, 2));
}

#[tokio::test]
async fn a_result_of_one_user_is_not_kept_for_anybody() {
    let bench = bench(ScriptedInvoke::new([Ok(ScriptedInvoke::answer_of_one_user("milk"))]));
    for caller in [user("u1"), user("u1"), user("u2"), Principal::default()] {
        assert_eq!(bench.ask_as(&caller, "my list").await.unwrap().cached, Some(false));
    }
    assert_eq!((bench.agent.asked().len(), bench.cache.kept().len()), (4, 0));
}

/// Who the runs were made for, in the order in which they began.
fn run_for(agent: &ScriptedInvoke) -> Vec<Option<String>> {
    agent.asked().into_iter().map(|ask| ask.principal.user_id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_result_of_one_user_is_shared_with_nobody_else_who_waits() {
    let bench = bench(ScriptedInvoke::default());
    bench.agent.add_after(SECOND * 3, Ok(ScriptedInvoke::answer_of_one_user("milk")));
    bench.agent.add_after(SECOND * 3, Ok(ScriptedInvoke::answer_of_one_user("eggs")));
    let (u1, u2) = (user("u1"), user("u2"));
    let ask = |caller| bench.ask_as(caller, "my list");
    let start = tokio::time::Instant::now();
    let (first, again, third, fourth) = tokio::join!(ask(&u1), ask(&u1), ask(&u2), ask(&u2));
    let said = [first, again, third, fourth].map(|answer| answer.unwrap().result.output.clone());
    assert_eq!(said, ["milk", "milk", "eggs", "eggs"]);
    assert_eq!(run_for(&bench.agent), [Some("u1".into()), Some("u2".into())]);
    assert_eq!(start.elapsed(), SECOND * 6, "nobody waits for more than one run besides the own one");
    let mut noted = bench.noted();
    noted.sort_by_key(|how| how.as_str());
    assert_eq!(noted, [CacheUse::Miss, CacheUse::Miss, CacheUse::Shared, CacheUse::Shared]);
    bench.nothing_is_under_way();
}

#[tokio::test(start_paused = true)]
async fn callers_without_an_id_are_not_one_user() {
    let bench = bench(ScriptedInvoke::default());
    for text in ["one", "another", "a third"] {
        bench.agent.add_after(SECOND, Ok(ScriptedInvoke::answer_of_one_user(text)));
    }
    let (first, second, third) = tokio::join!(bench.ask("q"), bench.ask("q"), bench.ask("q"));
    let said = [first, second, third].map(|answer| answer.unwrap().result.output.clone());
    assert_eq!(said, ["one", "another", "a third"]);
    bench.nothing_is_under_way();
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_runs_for_itself_ends_with_its_caller() {
    let bench = bench(ScriptedInvoke::default());
    bench.agent.add_after(SECOND, Ok(ScriptedInvoke::answer_of_one_user("milk")));
    bench.agent.hang();
    let (u1, u2) = (user("u1"), user("u2"));
    let mut follower = Box::pin(bench.ask_as(&u2, "q"));
    let leader = async {
        bench.ask_as(&u1, "q").await.unwrap();
        tokio::time::sleep(SECOND).await;
    };
    // The leader is polled first and so begins the run.
    tokio::select! {
        biased;
        () = leader => {}
        _ = &mut follower => panic!("its run never ends"),
    }
    assert_eq!(run_for(&bench.agent), [Some("u1".into()), Some("u2".into())]);
    assert_eq!(bench.agent.under_way(), 1);
    drop(follower);
    bench.nothing_is_under_way();
}

#[tokio::test(start_paused = true)]
async fn a_follower_whose_tools_are_others_by_now_does_not_get_what_the_leader_may_have_used() {
    let both = |tools: EchoTools| tools.only_for_tier("search", "premium");
    let toolbox = Arc::new(SwappedTools::new(EchoTools::new(&["add"])));
    let bench = bench_with(ScriptedInvoke::default(), toolbox.clone());
    bench.agent.add_after(SECOND * 3, Ok(ScriptedInvoke::answer("found")));
    bench.agent.add_after(SECOND * 3, Ok(ScriptedInvoke::answer("not found")));
    // A tool of one tier is added before the leader's run has begun, for all that is known.
    let swap = async {
        tokio::time::sleep(SECOND).await;
        toolbox.swap(both(EchoTools::new(&["add", "search"])));
    };
    let (u1, u2, u3) = (premium("u1"), user("u2"), premium("u3"));
    let ask = |caller| bench.ask_as(caller, "q");
    let (leader, other, same, ()) = tokio::join!(ask(&u1), ask(&u2), ask(&u3), swap);
    let said = [leader, other, same].map(|answer| answer.unwrap().result.output.clone());
    assert_eq!(said, ["found", "not found", "found"]);
}

#[tokio::test]
async fn questions_with_other_tools_are_other_questions() {
    let toolbox = Arc::new(EchoTools::new(&["add", "echo", "read"]));
    let bench = bench_with(ScriptedInvoke::answering("4"), toolbox);
    // The key for a caller who chose nothing is what it was before tools could be chosen.
    bench.ask("q").await.unwrap();
    let key = key::of("q", &Options::default(), &Answerer::new("m".into(), None), "sha256:echo", "");
    assert_eq!(bench.cache.kept()[0].0, key);
    for (tools, cached) in [
        (vec!["add", "echo"], false),
        (vec!["add"], false),
        (vec![], false),
        // Tools in another order, or named twice, are one set.
        (vec!["echo", "add", "echo"], true),
        (vec!["read", "echo", "add"], true),
    ] {
        assert_eq!(bench.choose(&tools).await.unwrap().cached, Some(cached), "{tools:?}");
    }
    assert_eq!((bench.agent.asked().len(), bench.cache.kept().len()), (4, 4));
}

#[tokio::test]
async fn tools_that_the_caller_does_not_have_are_refused_before_anything_is_asked() {
    let tools = EchoTools::new(&["add", "search"]).only_for_tier("search", "premium");
    let bench = bench_with(ScriptedInvoke::answering("4"), Arc::new(tools));
    let refused = async |tools: &[&str]| match bench.choose(tools).await {
        Err(InvokeError::UnknownTools { indexes }) => indexes,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&["add", "search"]).await, refused(&["add", "nope"]).await);
    assert_eq!(refused(&["search", "add", "nope"]).await, [0, 2]);
    assert_eq!((bench.agent.asked().len(), bench.noted()), (0, vec![]));
}

#[tokio::test]
async fn tools_to_wait_with_are_chosen_like_others_where_runs_have_them() {
    for has_wait_tools in [true, false] {
        let mut bench = bench(ScriptedInvoke::answering("4"));
        let answerer = Answerer::new("m".into(), None).with_wait_tools(has_wait_tools);
        let (behind, toolbox) = (behind(&bench.cache), Arc::new(EchoTools::new(&["echo"])));
        bench.cached = Cached::new(bench.agent.clone(), behind, toolbox, answerer, bench.noted.clone());
        assert_eq!(bench.choose(&["echo", "ask_user"]).await.is_ok(), has_wait_tools);
    }
}

#[tokio::test]
async fn whether_a_result_is_kept_is_said_by_the_receipts_of_its_run() {
    for (tool, kept) in [("add", 1), ("recall", 0)] {
        let toolbox = Arc::new(EchoTools::new(&["add", "recall"]).telling_users_apart("recall"));
        let agent = Agent::new(
            Arc::new(ScriptedModel::new([Ok(asks_for(&[("1", tool, json!({}))])), Ok(says("done"))])),
            toolbox.clone(),
            Arc::new(TestJournal::default()),
        );
        let cache = Arc::new(TestCache::default());
        let cached = Cached::new(
            agent,
            behind(&cache),
            toolbox,
            Answerer::new("m".into(), None),
            Arc::new(Noted::default()),
        );
        cached.invoke(Ask { principal: user("u1"), ..Ask::new("r".into(), "q".into()) }).await.unwrap();
        until_written().await;
        assert_eq!(cache.kept().len(), kept, "{tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_until_a_result_is_kept_and_who_asks_meanwhile_gets_it() {
    let bench = bench(ScriptedInvoke::default());
    bench.agent.add_after(SECOND, Ok(ScriptedInvoke::answer("4")));
    bench.agent.add(Ok(ScriptedInvoke::answer("4")));
    let start = tokio::time::Instant::now();
    let hang = async {
        tokio::time::sleep(SECOND / 2).await;
        bench.cache.switch.hang(true);
    };
    let (answer, ()) = tokio::join!(bench.cached.invoke(Ask::new("r".into(), "q".into())), hang);
    assert_eq!((answer.unwrap().cached, start.elapsed()), (Some(false), SECOND));
    assert_eq!(bench.ask("q").await.unwrap().cached, Some(true));
    assert_eq!((start.elapsed(), bench.agent.asked().len()), (SECOND, 1));
    // The result could not be kept.
    tokio::time::sleep(PATIENCE * 2).await;
    assert_eq!(bench.ask("q").await.unwrap().cached, Some(false));
    assert_eq!(bench.agent.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_follower_is_not_turned_away_for_the_limits_of_its_leader() {
    let agent = ScriptedInvoke::answering("4");
    let (cache, noted) = (Arc::new(TestCache::default()), Arc::new(Noted::default()));
    let toolbox = Arc::new(EchoTools::new(&["echo"]));
    let cached = Cached::new(
        RateChecked::new(agent.clone()),
        behind(&cache),
        toolbox,
        Answerer::new("m".into(), None),
        noted,
    );
    let ask = |after: Duration, passes: bool| {
        let check = RateCheck::new(async move {
            tokio::time::sleep(after).await;
            passes
        });
        cached.invoke(Ask { rate_check: Some(check), ..Ask::new("r".into(), "q".into()) })
    };
    let (leader, follower) = tokio::join!(ask(SECOND, false), ask(SECOND / 2, true));
    assert!(matches!(leader, Err(InvokeError::OverLimit)), "{leader:?}");
    assert_eq!(follower.unwrap().result.output, "4");
    assert_eq!(agent.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn deleting_waits_for_results_that_are_on_their_way_but_not_for_ever() {
    let cache = Arc::new(TestCache::default());
    let behind = behind(&cache);
    let result = ScriptedInvoke::answer("4").result;
    let on_its_way = behind.unwritten.add("agent:1", &result).unwrap();
    let start = tokio::time::Instant::now();
    let write = async {
        tokio::time::sleep(PATIENCE / 2).await;
        drop(on_its_way);
    };
    let (deleted, ()) = tokio::join!(behind.delete_matching("*"), write);
    assert_eq!((deleted, start.elapsed()), (Ok(0), PATIENCE / 2));
    let _on_its_way = behind.unwritten.add("agent:2", &result).unwrap();
    behind.delete_matching("*").await.unwrap();
    assert_eq!(start.elapsed(), PATIENCE / 2 + PATIENCE * 2);
}

/// As one that panics is dropped.
#[tokio::test(start_paused = true)]
async fn a_result_whose_task_is_dropped_answers_nobody_for_ever() {
    struct Dropped;

    impl Spawn for Dropped {
        fn spawn(&self, _name: &'static str, work: BoxFuture<'static, ()>) {
            drop(work);
        }
    }

    let agent = ScriptedInvoke::answering("4");
    let cache = WriteBehindCache::new(Arc::new(TestCache::default()), Arc::new(Dropped));
    let (toolbox, noted) = (Arc::new(EchoTools::new(&["echo"])), Arc::new(Noted::default()));
    let cached = Cached::new(agent.clone(), cache, toolbox, Answerer::new("m".into(), None), noted);
    for _ in 0..2 {
        let answer = cached.invoke(Ask::new("r".into(), "q".into())).await;
        assert_eq!(answer.unwrap().cached, Some(false));
    }
    assert_eq!(agent.asked().len(), 2);
}
