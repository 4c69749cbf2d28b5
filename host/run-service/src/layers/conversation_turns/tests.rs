//! What a run that is part of a conversation is shown, and what is kept of it.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::conversations::LEASE;
use agent_core::ports::{ClaimTerms, ConversationStore as _, Deletion, Epoch};
use agent_core::testing::{TestConversations, TokioSpawn, reply, user};
use agent_core::words::{ConversationKey, Message, Options, Principal, StopReason};
use tokio::time::{sleep, timeout};

use super::*;
use crate::layers::RateCheck;
use crate::loop_driver::RunClaim;
use crate::testing::ScriptedInvoke;

/// How long a run may take.
const LIMIT: Duration = Duration::from_secs(30);

struct Bench {
    store: Arc<TestConversations>,
    agent: ScriptedInvoke,
    layer: ConversationTurns<ScriptedInvoke>,
}

fn bench(agent: ScriptedInvoke) -> Bench {
    let store = Arc::new(TestConversations::default());
    let conversations = Conversations::new(store.clone(), Arc::new(TokioSpawn));
    Bench { layer: ConversationTurns::new(agent.clone(), conversations, LIMIT), store, agent }
}

fn ask(input: &str, id: Option<&str>) -> Ask {
    let conversation = id.map(|id| InConversation { id: id.into(), turn_id: None, seen: None });
    Ask { principal: Principal::user("u1"), conversation, ..Ask::new("r".into(), input.into()) }
}

/// An attempt at a job: all of them have one run.
fn attempt(epoch: u64) -> Ask {
    let conversation = Some(InConversation::of_job("a".into()));
    let claim = Some(RunClaim { epoch: Epoch(epoch), ..RunClaim::default() });
    Ask { run_id: "run_1".into(), claim, conversation, ..ask("q", None) }
}

fn seconds(number: f64) -> Duration {
    Duration::from_secs_f64(number)
}

impl Bench {
    fn history(&self) -> Vec<Message> {
        self.agent.asked().pop().unwrap().options.history
    }

    async fn turns(&self, id: &str) -> Option<Vec<Turn>> {
        let kept = self.store.read(ConversationKey::conversation("u1", id)).await.unwrap();
        kept.map(|kept| kept.turns)
    }
}

fn is_busy(answer: &Result<RunAnswer, InvokeError>) -> bool {
    matches!(answer, Err(InvokeError::Conversation(ConversationRefusal::Busy)))
}

#[tokio::test]
async fn what_was_said_before_stands_in_front_and_instructions_are_for_one_run() {
    let bench =
        bench(ScriptedInvoke::new(["one", "two", "three"].map(|text| Ok(ScriptedInvoke::answer(text)))));
    let told = Message::System { content: "be kind".into() };
    let options = Options { history: vec![told.clone(), user("I am Ada.")], ..Options::default() };
    bench.layer.invoke(Ask { options, ..ask("q", Some("a")) }).await.unwrap();
    assert_eq!(bench.history(), [user("I am Ada."), told]);
    bench.layer.invoke(ask("q", Some("a"))).await.unwrap();
    assert_eq!(bench.history(), [user("I am Ada."), reply("one")]);
    bench.layer.invoke(ask("q", Some("b"))).await.unwrap();
    assert_eq!(bench.history(), [], "another conversation");
    assert_eq!(bench.turns("a").await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_run_of_no_conversation_is_what_it_was() {
    let bench = bench(ScriptedInvoke::answering("one"));
    let history = vec![user("a"), reply("b")];
    let options = Options { history: history.clone(), ..Options::default() };
    // The store is not asked.
    bench.store.switch.fail(true);
    bench.layer.invoke(Ask { options, ..ask("q", None) }).await.unwrap();
    assert_eq!(bench.history(), history);
}

#[tokio::test]
async fn a_turn_is_appended_once_and_does_not_stand_before_itself() {
    let bench = bench(ScriptedInvoke::answering("one"));
    let again = || {
        let conversation =
            InConversation { turn_id: Some("key-1".into()), ..InConversation::of_job("a".into()) };
        Ask { conversation: Some(conversation), ..ask("q", None) }
    };
    bench.layer.invoke(ask("first", Some("a"))).await.unwrap();
    for _ in 0..2 {
        bench.layer.invoke(again()).await.unwrap();
        assert_eq!(bench.history(), [reply("one")]);
    }
    let turns = bench.turns("a").await.unwrap();
    assert_eq!((turns.len(), turns[1].id.as_str()), (2, "key-1"));
}

#[tokio::test]
async fn a_run_that_does_not_end_well_leaves_no_trace() {
    for end in [
        Ok(ScriptedInvoke::ended("", StopReason::Cancelled)),
        Ok(ScriptedInvoke::ended("", StopReason::EmptyReply)),
        Err(InvokeError::Busy { waited: Duration::ZERO }),
    ] {
        let bench = bench(ScriptedInvoke::new([end]));
        drop(bench.layer.invoke(ask("q", Some("a"))).await);
        assert_eq!(bench.turns("a").await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn one_run_at_a_time_holds_a_conversation_for_as_long_as_it_takes() {
    let agent = ScriptedInvoke::default();
    agent.add_after(LEASE * 3, Ok(ScriptedInvoke::answer("one")));
    agent.add(Ok(ScriptedInvoke::answer("two")));
    let bench = bench(agent);
    let second = async {
        sleep(LEASE * 2).await;
        bench.layer.invoke(ask("q", Some("a"))).await
    };
    let (first, second) = tokio::join!(bench.layer.invoke(ask("q", Some("a"))), second);
    assert!(first.is_ok() && is_busy(&second), "{second:?}");
    bench.layer.invoke(ask("q", Some("a"))).await.unwrap();
    assert_eq!(bench.history(), [reply("one")]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_gives_its_conversation_back_and_a_dead_one_loses_it() {
    let bench = bench(ScriptedInvoke::hanging());
    let left = timeout(Duration::from_millis(1), bench.layer.invoke(ask("q", Some("a")))).await;
    assert!(left.is_err() && bench.agent.asked().len() == 1, "{left:?}");
    // What gives it back is a task.
    sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.turns("a").await, None);
    // As a process that was killed leaves it.
    let key = ConversationKey::conversation("u1", "a");
    bench.store.claim(key, "dead", ClaimTerms::default()).await.unwrap();
    bench.agent.add(Ok(ScriptedInvoke::answer("one")));
    assert!(is_busy(&bench.layer.invoke(ask("q", Some("a"))).await));
    sleep(LEASE).await;
    bench.layer.invoke(ask("q", Some("a"))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_replaced_gives_away_nothing_of_its_successors() {
    let agent = ScriptedInvoke::default();
    agent.add_after(LEASE, Ok(ScriptedInvoke::answer("old")));
    agent.add_after(seconds(5.0), Ok(ScriptedInvoke::answer("new")));
    let bench = bench(agent);
    let first = timeout(seconds(2.0), bench.layer.invoke(attempt(1)));
    let second = async {
        sleep(seconds(1.0)).await;
        bench.layer.invoke(attempt(2)).await
    };
    let other = async {
        sleep(seconds(3.0)).await;
        bench.layer.invoke(ask("q", Some("a"))).await
    };
    let (first, second, other) = tokio::join!(first, second, other);
    assert!(first.is_err() && second.is_ok() && is_busy(&other), "{second:?}, {other:?}");
    assert_eq!(bench.turns("a").await.unwrap()[0].messages, [reply("new")]);
}

#[tokio::test(start_paused = true)]
async fn slow_renewals_lose_no_conversation() {
    let agent = ScriptedInvoke::default();
    agent.add_after(seconds(30.0), Ok(ScriptedInvoke::answer("one")));
    let bench = bench(agent);
    let other = async {
        // Two renewals get no answer, the third one does, and the fourth one fails.
        sleep(seconds(4.0)).await;
        bench.store.switch.hang(true);
        sleep(seconds(10.5)).await;
        bench.store.switch.hang(false);
        sleep(seconds(1.0)).await;
        bench.store.switch.fail(true);
        sleep(seconds(8.5)).await;
        bench.store.switch.fail(false);
        bench.layer.invoke(ask("q", Some("a"))).await
    };
    let (answer, other) = tokio::join!(bench.layer.invoke(ask("q", Some("a"))), other);
    assert!(answer.is_ok() && is_busy(&other), "{answer:?}, {other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_gone_is_begun_again_by_its_first_run_alone() {
    let agent = ScriptedInvoke::default();
    for _ in 0..2 {
        agent.add_after(LEASE + seconds(4.0), Ok(ScriptedInvoke::answer("one")));
    }
    let bench = bench(agent);
    // Of the second run there was something to delete, and somebody did.
    for kept in [Some(1), None] {
        let deleted = async {
            sleep(seconds(1.0)).await;
            bench.store.switch.fail(true);
            sleep(LEASE).await;
            bench.store.switch.fail(false);
            bench.store.delete(ConversationKey::conversation("u1", "a")).await
        };
        let (answer, deleted) = tokio::join!(bench.layer.invoke(ask("q", Some("a"))), deleted);
        assert!(answer.is_ok() && deleted == Ok(Deletion::Done), "{answer:?}, {deleted:?}");
        assert_eq!(bench.turns("a").await.map(|turns| turns.len()), kept);
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_written_again_while_the_store_fails_and_never_lost_in_silence() {
    let agent = ScriptedInvoke::default();
    agent.add_after(Duration::from_secs(1), Ok(ScriptedInvoke::answer("one")));
    let bench = bench(agent);
    for (outage, is_kept) in [(Duration::from_millis(1_100), true), (Duration::from_secs(60), false)] {
        let failing = async {
            sleep(Duration::from_millis(500)).await;
            bench.store.switch.fail(true);
            sleep(outage.saturating_sub(Duration::from_millis(500))).await;
            bench.store.switch.fail(false);
        };
        let (answer, ()) = tokio::join!(bench.layer.invoke(ask("q", Some("a"))), failing);
        assert_eq!(answer.unwrap().is_turn_lost, !is_kept);
    }
    assert_eq!(bench.turns("a").await.unwrap().len(), 1);
}

/// The store takes 10 s to fail each of five writes; the run had 29 s left.
#[tokio::test(start_paused = true)]
async fn a_paid_answer_does_not_wait_for_its_conversation_beyond_the_time_of_its_run() {
    for (claim, is_answered) in [(None, true), (Some(RunClaim::default()), false)] {
        let agent = ScriptedInvoke::default();
        agent.add_after(seconds(1.0), Ok(ScriptedInvoke::answer("one")));
        let bench = bench(agent);
        let hanging = async {
            sleep(seconds(0.5)).await;
            bench.store.switch.hang(true);
        };
        let began = tokio::time::Instant::now();
        let asking = bench.layer.invoke(Ask { claim, ..ask("q", Some("a")) });
        let (answer, ()) = tokio::join!(asking, hanging);
        assert_eq!(began.elapsed().as_secs(), 35);
        // The next attempt at a job has the run's journal.
        assert_eq!(answer.is_ok_and(|answer| answer.is_turn_lost), is_answered);
    }
}

#[tokio::test]
async fn whoever_looked_before_somebody_else_went_on_is_told() {
    let bench = bench(ScriptedInvoke::answering("one"));
    let looked = |seen: Option<&str>| {
        let conversation =
            InConversation { id: "a".into(), turn_id: None, seen: Some(seen.map(str::to_owned)) };
        Ask { conversation: Some(conversation), ..ask("q", None) }
    };
    bench.layer.invoke(looked(None)).await.unwrap();
    let changed = bench.layer.invoke(looked(None)).await;
    assert!(matches!(changed, Err(InvokeError::Conversation(ConversationRefusal::Changed))), "{changed:?}");
    let last = bench.turns("a").await.unwrap().remove(0).id;
    bench.layer.invoke(looked(Some(&last))).await.unwrap();
}

#[tokio::test]
async fn whoever_is_over_the_limits_begins_no_conversation() {
    let bench = bench(ScriptedInvoke::answering("one"));
    let rate_check = Some(RateCheck::new(std::future::ready(false)));
    let answer = bench.layer.invoke(Ask { rate_check, ..ask("q", Some("a")) }).await;
    assert!(matches!(answer, Err(InvokeError::OverLimit)), "{answer:?}");
    assert_eq!((bench.turns("a").await, bench.agent.asked().len()), (None, 0));
}
