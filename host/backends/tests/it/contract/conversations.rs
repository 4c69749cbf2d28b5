//! What every store of conversations promises: `ConversationStore`.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::lease::owner_of_attempt;
use agent_core::ports::{
    ClaimTerms, ConversationClaim, ConversationStore, Deletion, Epoch, Renewal, Retention,
};
use agent_core::words::{Conversation, ConversationKey, Message, Turn};
use boxed_async::boxed_async;

pub(crate) use super::lease::*;
use super::text::{NASTY, long};

/// An empty store.
pub(crate) struct Bench {
    /// As this process has it.
    pub(crate) store: Arc<dyn ConversationStore>,
    /// As another process has it.
    pub(crate) peer: Arc<dyn ConversationStore>,
    /// Removes what is old, where anything does.
    pub(crate) retention: Option<Arc<dyn Retention>>,
    /// What has to live as long as the store: its server, its folder.
    pub(crate) _guard: Box<dyn Any + Send + Sync>,
}

/// A test of every case. The argument is the path of an `async fn() -> Bench`.
macro_rules! test_all {
    ($test:ident $benches:tt) => {
        crate::contract::lease::test_leased! { $test conversations, $benches:
            turns_are_kept_as_they_are_and_a_claim_is_given_back_with_them,
            the_owner_of_a_claim_may_claim_again,
            a_later_attempt_takes_a_claim_over_and_the_earlier_one_changes_nothing,
            a_claim_that_has_ended_is_its_owners_unless_somebody_takes_it,
            a_conversation_in_which_nothing_was_said_is_gone,
            users_and_kinds_have_ids_of_their_own,
            a_user_has_so_many_conversations_and_no_more,
            a_list_has_the_newest_first_page_by_page,
            a_conversation_that_is_held_is_not_deleted,
            the_newest_responses_are_kept,
            a_response_that_is_kept_again_is_as_old_as_before_and_stays_longer,
            retention_finds_what_nobody_holds,
        }
    };
}
pub(crate) use test_all;

/// Enough for every other case.
const MOST: u32 = 5;

fn terms(lease: Duration) -> ClaimTerms {
    ClaimTerms { lease, most: MOST }
}

fn key(id: &str) -> ConversationKey<'_> {
    ConversationKey::conversation("u1", id)
}

fn turn(id: &str, text: &str) -> Turn {
    let messages = vec![
        Message::User { content: text.into() },
        Message::Assistant { content: "yes".into(), tool_calls: vec![] },
    ];
    let metadata = BTreeMap::from([(text.to_owned(), text.to_owned())]);
    Turn {
        id: id.into(),
        run_id: format!("run_{id}"),
        at: 1_700_000_000_123,
        messages,
        asked: Some(1),
        deleted: vec![text.into()],
        metadata,
    }
}

async fn claim(
    store: &Arc<dyn ConversationStore>,
    id: &str,
    owner: &str,
    lease: Duration,
) -> ConversationClaim {
    store.claim(key(id), owner, terms(lease)).await.unwrap()
}

impl Bench {
    fn of(&self, owner: &str) -> &Arc<dyn ConversationStore> {
        if is_peer(owner) { &self.peer } else { &self.store }
    }
}

#[boxed_async]
impl Leased for Bench {
    type Claim = String;

    async fn claim(&self, owner: &str, lease: Duration) -> Option<String> {
        match claim(self.of(owner), "leased", owner, lease).await {
            ConversationClaim::Claimed(_) => Some(owner.to_owned()),
            other => {
                assert_eq!(other, ConversationClaim::Busy);
                None
            }
        }
    }

    async fn renew(&self, owner: &String, lease: Duration) -> Option<Renewal> {
        Some(self.of(owner).renew(key("leased"), owner, lease).await.unwrap())
    }

    async fn settle(&self, owner: &String) -> bool {
        self.of(owner).settle(key("leased"), owner, &[turn("a", "hi")]).await.unwrap()
    }

    async fn release(&self, owner: &String) {
        self.of(owner).release(key("leased"), owner).await.unwrap();
    }
}

/// A conversation with one turn.
async fn keep(bench: &Bench, key: ConversationKey<'_>) {
    let claimed = bench.store.claim(key, "o1", terms(LONG)).await.unwrap();
    assert!(matches!(claimed, ConversationClaim::Claimed(_)), "{claimed:?}");
    assert!(bench.store.settle(key, "o1", &[turn("a", "hi")]).await.unwrap());
}

async fn read(bench: &Bench, id: &str) -> Option<Conversation> {
    bench.peer.read(key(id)).await.unwrap()
}

async fn ids(bench: &Bench, user: &str, after: Option<&str>, limit: u32) -> Vec<String> {
    let after = match after {
        Some(id) => {
            let kept = bench.store.read(ConversationKey::conversation(user, id)).await.unwrap().unwrap();
            Some((kept.updated_at, id))
        }
        None => None,
    };
    let listed = bench.peer.list(user, limit, after).await.unwrap();
    listed.into_iter().map(|kept| kept.id).collect()
}

pub(crate) async fn turns_are_kept_as_they_are_and_a_claim_is_given_back_with_them(bench: &Bench) {
    assert_eq!(read(bench, "c").await, None);
    assert_eq!(claim(&bench.store, "c", "o1", LONG).await, ConversationClaim::Claimed(vec![]));
    let begun = read(bench, "c").await.unwrap();
    assert!(begun.is_busy && begun.turns.is_empty(), "{begun:?}");
    let turns = vec![turn("a", NASTY), turn(NASTY, &long())];
    assert_eq!(bench.store.settle(key("c"), "o1", &turns).await, Ok(true));
    let kept = read(bench, "c").await.unwrap();
    assert_eq!((kept.id.as_str(), kept.is_busy, &kept.turns, kept.shown), ("c", false, &turns, None));
    assert!(kept.updated_at >= kept.created_at);
    assert_eq!(claim(&bench.peer, "c", "o2", LONG).await, ConversationClaim::Claimed(turns));
    assert_eq!(bench.store.settle(key("c"), "o1", &[]).await, Ok(false), "it was given back");
}

pub(crate) async fn the_owner_of_a_claim_may_claim_again(bench: &Bench) {
    for store in [&bench.store, &bench.peer] {
        assert_eq!(claim(store, "c", "o1", LONG).await, ConversationClaim::Claimed(vec![]));
    }
}

pub(crate) async fn a_later_attempt_takes_a_claim_over_and_the_earlier_one_changes_nothing(bench: &Bench) {
    let attempt = |run: &str, epoch| owner_of_attempt(run, Epoch(epoch));
    let [first, second] = [attempt("run_1", 9), attempt("run_1", 10)];
    let claimed = ConversationClaim::Claimed(vec![]);
    assert_eq!(claim(&bench.store, "c", &first, LONG).await, claimed);
    for other in [attempt("run_2", 10), attempt("run_11", 10), "run_1".to_owned(), "run_1#".to_owned()] {
        assert_eq!(claim(&bench.peer, "c", &other, LONG).await, ConversationClaim::Busy, "{other}");
    }
    assert_eq!(claim(&bench.peer, "c", &second, LONG).await, claimed);
    // Nothing was said yet: what is given away now would be gone.
    bench.store.release(key("c"), &first).await.unwrap();
    assert_eq!(claim(&bench.store, "c", &first, LONG).await, ConversationClaim::Busy);
    assert_eq!(bench.store.renew(key("c"), &first, LONG).await, Ok(Renewal::Lost));
    assert_eq!(bench.store.settle(key("c"), &first, &[turn("b", "old")]).await, Ok(false));
    assert_eq!(bench.peer.settle(key("c"), &second, &[turn("a", "hi")]).await, Ok(true));
    assert_eq!(read(bench, "c").await.unwrap().turns, [turn("a", "hi")]);
}

pub(crate) async fn a_claim_that_has_ended_is_its_owners_unless_somebody_takes_it(bench: &Bench) {
    keep(bench, key("c")).await;
    claim(&bench.store, "c", "o1", Duration::ZERO).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(bench.store.settle(key("c"), "o1", &[turn("b", "hi")]).await, Ok(true));
    claim(&bench.store, "c", "o1", Duration::ZERO).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(claim(&bench.peer, "c", "o2", LONG).await, ConversationClaim::Claimed(vec![turn("b", "hi")]));
    assert_eq!(bench.store.settle(key("c"), "o1", &[]).await, Ok(false));
    let kept = read(bench, "c").await.unwrap();
    assert!(kept.is_busy && kept.turns == [turn("b", "hi")], "{kept:?}");
}

pub(crate) async fn a_conversation_in_which_nothing_was_said_is_gone(bench: &Bench) {
    claim(&bench.store, "c", "o1", LONG).await;
    bench.store.release(key("c"), "o1").await.unwrap();
    assert_eq!(read(bench, "c").await, None);
    keep(bench, key("c")).await;
    claim(&bench.store, "c", "o1", LONG).await;
    bench.peer.release(key("c"), "o1").await.unwrap();
    let kept = read(bench, "c").await.unwrap();
    assert!(!kept.is_busy && kept.turns == [turn("a", "hi")], "{kept:?}");
}

pub(crate) async fn users_and_kinds_have_ids_of_their_own(bench: &Bench) {
    keep(bench, key("c")).await;
    keep(bench, ConversationKey::conversation(NASTY, "c")).await;
    for other in [ConversationKey::conversation("u2", "c"), ConversationKey::response("u1", "c")] {
        assert_eq!(bench.peer.read(other).await.unwrap(), None);
        assert_eq!(bench.peer.delete(other).await, Ok(Deletion::Unknown));
    }
    assert_eq!(ids(bench, NASTY, None, 10).await, ["c"]);
    assert_eq!(ids(bench, "u2", None, 10).await, [] as [&str; 0]);
}

pub(crate) async fn a_user_has_so_many_conversations_and_no_more(bench: &Bench) {
    for number in 0..MOST {
        keep(bench, key(&format!("c{number}"))).await;
    }
    assert_eq!(claim(&bench.peer, "more", "o1", LONG).await, ConversationClaim::TooMany);
    // Conversations that exist go on, and other users have their own.
    assert!(matches!(claim(&bench.peer, "c1", "o1", LONG).await, ConversationClaim::Claimed(_)));
    keep(bench, ConversationKey::conversation("u2", "more")).await;
    assert_eq!(bench.store.delete(key("c2")).await, Ok(Deletion::Done));
    // What a dead process left behind before anything was said does not count.
    claim(&bench.store, "dead", "o1", Duration::ZERO).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(claim(&bench.peer, "more", "o1", LONG).await, ConversationClaim::Claimed(vec![]));
}

pub(crate) async fn a_list_has_the_newest_first_page_by_page(bench: &Bench) {
    for id in ["a", "b", "c", "d"] {
        keep(bench, key(id)).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    keep(bench, key("b")).await;
    claim(&bench.store, "empty", "o1", LONG).await;
    bench.store.put(ConversationKey::response("u1", "resp_1"), &[], "{}", Some(10)).await.unwrap();
    assert_eq!(ids(bench, "u1", None, 10).await, ["b", "d", "c", "a"]);
    assert_eq!(ids(bench, "u1", None, 2).await, ["b", "d"]);
    assert_eq!(ids(bench, "u1", Some("d"), 2).await, ["c", "a"]);
    let listed = bench.peer.list("u1", 1, None).await.unwrap().remove(0);
    assert_eq!(listed.turns, 1);
}

pub(crate) async fn a_conversation_that_is_held_is_not_deleted(bench: &Bench) {
    assert_eq!(bench.store.delete(key("c")).await, Ok(Deletion::Unknown));
    keep(bench, key("c")).await;
    claim(&bench.store, "c", "o1", LONG).await;
    assert_eq!(bench.peer.delete(key("c")).await, Ok(Deletion::Busy));
    bench.store.release(key("c"), "o1").await.unwrap();
    assert_eq!(bench.peer.delete(key("c")).await, Ok(Deletion::Done));
    assert_eq!(read(bench, "c").await, None);
}

pub(crate) async fn the_newest_responses_are_kept(bench: &Bench) {
    for id in ["resp_1", "resp_2", "resp_3"] {
        bench
            .store
            .put(ConversationKey::response("u1", id), &[turn(id, "hi")], NASTY, Some(2))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut kept = vec![];
    for id in ["resp_1", "resp_2", "resp_3"] {
        kept.push(bench.peer.read(ConversationKey::response("u1", id)).await.unwrap());
    }
    let shown: Vec<_> =
        kept.iter().map(|kept| kept.as_ref().and_then(|kept| kept.shown.as_deref())).collect();
    assert_eq!(shown, [None, Some(NASTY), Some(NASTY)]);
    assert_eq!(kept[2].as_ref().unwrap().turns, [turn("resp_3", "hi")]);
    let last = ConversationKey::response("u1", "resp_3");
    bench.store.put(last, &[turn("resp_3", "hi"), turn("more", "so?")], "{}", None).await.unwrap();
    assert_eq!(bench.peer.read(last).await.unwrap().unwrap().turns.len(), 2);
    assert_eq!(bench.peer.delete(last).await, Ok(Deletion::Done));
    // What was deleted meanwhile is not written anew.
    bench.store.put(last, &[turn("resp_3", "hi")], "{}", None).await.unwrap();
    assert_eq!(bench.peer.read(last).await, Ok(None));
}

pub(crate) async fn a_response_that_is_kept_again_is_as_old_as_before_and_stays_longer(bench: &Bench) {
    let (key, turns) = (|id| ConversationKey::response("u1", id), [turn("a", "hi")]);
    let mut seen = vec![];
    for (id, most) in [("resp_1", Some(2)), ("resp_2", Some(2)), ("resp_1", Some(2)), ("resp_1", None)] {
        bench.store.put(key(id), &turns, "{}", most).await.unwrap();
        seen.push(bench.peer.read(key("resp_1")).await.unwrap().unwrap());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(seen.iter().all(|kept| kept.created_at == seen[0].created_at), "{seen:?}");
    assert!(seen[2].updated_at > seen[1].updated_at && seen[3].updated_at > seen[2].updated_at, "{seen:?}");
    bench.store.put(key("resp_3"), &turns, "{}", Some(2)).await.unwrap();
    assert_eq!(bench.peer.read(key("resp_2")).await, Ok(None));
    assert!(bench.peer.read(key("resp_1")).await.unwrap().is_some());
}

pub(crate) async fn retention_finds_what_nobody_holds(bench: &Bench) {
    let Some(retention) = &bench.retention else { return };
    for id in ["idle", "held"] {
        keep(bench, key(id)).await;
    }
    keep(bench, ConversationKey::conversation("u2", "other")).await;
    claim(&bench.store, "held", "o1", LONG).await;
    let page = retention.ended_of("u1", None, 10).await.unwrap();
    let found: Vec<_> = page.items.into_iter().map(|item| item.id).collect();
    assert_eq!(found, [key("idle").digest()]);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let now = retention.now().await.unwrap();
    assert_eq!(retention.ended_before(now, None, 10).await.unwrap().items.len(), 2);
    assert_eq!(retention.remove(&[found, vec![key("held").digest()]].concat()).await, Ok(1));
    assert_eq!(
        (read(bench, "idle").await, ids(bench, "u1", None, 10).await),
        (None, vec!["held".to_owned()])
    );
}
