//! What every store of idempotency keys promises: `IdempotencyStore`.

use std::collections::HashSet;
use std::time::Duration;

use agent_core::ports::{IdempotencyKey, IdempotencyStore, KeyBounds, KeyClaim, KeyTerms, Renewal};
use boxed_async::boxed_async;
use test_servers::eventually;

pub(crate) use super::lease::*;

/// What a caller may keep in the stores of these tests.
pub(crate) const BOUNDS: KeyBounds = KeyBounds { keys: 20, bytes: 1000 };

/// A store without keys.
pub(crate) type Bench = super::Bench<dyn IdempotencyStore>;

/// A test of every case. The argument is the path of an `async fn() -> Bench`.
macro_rules! test_all {
    ($test:ident $benches:tt) => {
        crate::contract::lease::test_leased! { $test idempotency, $benches:
            a_key_is_claimed_once_and_answered_for_all,
            another_request_under_a_key_is_told_apart,
            every_claim_of_a_key_has_one_id,
            a_key_is_forgotten_when_its_time_is_over,
            callers_have_keys_of_their_own,
            the_oldest_keys_of_a_caller_go_when_there_are_too_many,
            the_oldest_answers_of_a_caller_go_when_they_are_too_large,
        }
    };
}
pub(crate) use test_all;

/// Longer than any test.
const TERMS: KeyTerms = KeyTerms { lease: LONG, kept: LONG };
/// For leases and keys that are waited for.
const BRIEF: Duration = Duration::from_millis(100);

const KEY: IdempotencyKey<'_> = IdempotencyKey { caller: "u1", key: "k1", request: "r1" };

fn claimed(id: &str) -> KeyClaim {
    KeyClaim::Claimed { id: id.into() }
}

fn key(name: &str) -> IdempotencyKey<'_> {
    IdempotencyKey { key: name, ..KEY }
}

impl Bench {
    fn of(&self, owner: &str) -> &dyn IdempotencyStore {
        if is_peer(owner) { &*self.peer } else { &*self.store }
    }
}

#[boxed_async]
impl Leased for Bench {
    type Claim = String;

    async fn claim(&self, owner: &str, lease: Duration) -> Option<String> {
        match self.of(owner).claim(KEY, owner, KeyTerms { lease, ..TERMS }).await.unwrap() {
            KeyClaim::Claimed { .. } => Some(owner.to_owned()),
            other => {
                assert_eq!(other, KeyClaim::InFlight);
                None
            }
        }
    }

    async fn renew(&self, owner: &String, lease: Duration) -> Option<Renewal> {
        Some(self.of(owner).renew(KEY, owner, lease).await.unwrap())
    }

    async fn settle(&self, owner: &String) -> bool {
        self.of(owner).settle(KEY, owner, b"done").await.unwrap()
    }

    async fn release(&self, owner: &String) {
        self.of(owner).release(KEY, owner).await.unwrap();
    }
}

pub(crate) async fn a_key_is_claimed_once_and_answered_for_all(bench: &Bench) {
    assert_eq!(bench.store.claim(KEY, "o1", TERMS).await, Ok(claimed("o1")));
    for store in [&bench.store, &bench.peer] {
        assert_eq!(store.claim(KEY, "o2", TERMS).await, Ok(KeyClaim::InFlight));
        assert_eq!(store.settle(KEY, "o2", b"not theirs").await, Ok(false));
    }
    let answer = [0, 255, b'"', b'\\', b'\n', 0];
    assert_eq!(bench.store.settle(KEY, "o1", &answer).await, Ok(true));
    for store in [&bench.store, &bench.peer] {
        assert_eq!(store.claim(KEY, "o3", TERMS).await, Ok(KeyClaim::Answered(answer.to_vec())));
    }
    assert_eq!(bench.store.settle(KEY, "o1", b"another").await, Ok(false), "an answer is never replaced");
    assert_eq!(bench.store.release(KEY, "o1").await, Ok(()));
    assert_eq!(bench.peer.claim(KEY, "o4", TERMS).await, Ok(KeyClaim::Answered(answer.to_vec())));
}

pub(crate) async fn another_request_under_a_key_is_told_apart(bench: &Bench) {
    let other = IdempotencyKey { request: "r2", ..KEY };
    bench.store.claim(KEY, "o1", TERMS).await.unwrap();
    assert_eq!(bench.peer.claim(other, "o2", TERMS).await, Ok(KeyClaim::OtherRequest), "in flight");
    bench.store.release(KEY, "o1").await.unwrap();
    assert_eq!(bench.peer.claim(other, "o2", TERMS).await, Ok(KeyClaim::OtherRequest), "released");
    bench.store.claim(KEY, "o3", TERMS).await.unwrap();
    assert_eq!(bench.store.settle(KEY, "o3", b"done").await, Ok(true));
    assert_eq!(bench.peer.claim(other, "o4", TERMS).await, Ok(KeyClaim::OtherRequest), "answered");
    assert_eq!(bench.peer.claim(KEY, "o5", TERMS).await, Ok(KeyClaim::Answered(b"done".to_vec())));
}

pub(crate) async fn every_claim_of_a_key_has_one_id(bench: &Bench) {
    let short = KeyTerms { lease: BRIEF, ..TERMS };
    assert_eq!(bench.store.claim(KEY, "dead", short).await, Ok(claimed("dead")));
    let taken = eventually("the lease to end", async || match bench.peer.claim(KEY, "next", TERMS).await {
        Ok(KeyClaim::InFlight) => None,
        claim => Some(claim),
    });
    assert_eq!(taken.await, Ok(claimed("dead")));
    bench.peer.release(KEY, "next").await.unwrap();
    assert_eq!(bench.store.claim(KEY, "third", TERMS).await, Ok(claimed("dead")));
}

pub(crate) async fn a_key_is_forgotten_when_its_time_is_over(bench: &Bench) {
    let short = KeyTerms { kept: BRIEF, lease: BRIEF };
    bench.store.claim(KEY, "o1", short).await.unwrap();
    bench.store.settle(KEY, "o1", b"done").await.unwrap();
    let other = IdempotencyKey { request: "r2", ..KEY };
    let claim = eventually("the key to be forgotten", async || {
        let claim = bench.peer.claim(other, "o2", TERMS).await.unwrap();
        (claim != KeyClaim::OtherRequest).then_some(claim)
    });
    assert_eq!(claim.await, claimed("o2"), "a new key, whatever it was used for before");
    assert_eq!(bench.peer.settle(other, "o2", b"new").await, Ok(true));
    assert_eq!(bench.store.claim(other, "o3", TERMS).await, Ok(KeyClaim::Answered(b"new".to_vec())));
}

pub(crate) async fn callers_have_keys_of_their_own(bench: &Bench) {
    let theirs = IdempotencyKey { caller: "u2", ..KEY };
    bench.store.claim(KEY, "o1", TERMS).await.unwrap();
    assert_eq!(bench.store.claim(theirs, "o2", TERMS).await, Ok(claimed("o2")));
    assert_eq!(bench.store.settle(theirs, "o2", b"theirs").await, Ok(true));
    assert_eq!(bench.store.claim(KEY, "o3", TERMS).await, Ok(KeyClaim::InFlight));
}

/// Claims keys one after another and answers them.
async fn fill(bench: &Bench, names: &[String], answer: &[u8]) {
    for name in names {
        bench.store.claim(key(name), "o1", TERMS).await.unwrap();
        assert_eq!(bench.store.settle(key(name), "o1", answer).await, Ok(true), "{name}");
    }
}

/// Which of the keys are still known, in the order of `names`. Asking with another request claims nothing of
/// them.
async fn known<'a>(bench: &Bench, names: &'a [String]) -> Vec<&'a str> {
    let mut known = vec![];
    for name in names {
        let probe = IdempotencyKey { request: "probe", ..key(name) };
        let short = KeyTerms { lease: Duration::ZERO, kept: Duration::from_millis(1) };
        if bench.peer.claim(probe, "probe", short).await == Ok(KeyClaim::OtherRequest) {
            known.push(name.as_str());
        }
    }
    known
}

pub(crate) async fn the_oldest_keys_of_a_caller_go_when_there_are_too_many(bench: &Bench) {
    let others = IdempotencyKey { caller: "u2", ..KEY };
    bench.store.claim(others, "o1", TERMS).await.unwrap();
    bench.store.claim(key("held"), "o1", TERMS).await.unwrap();
    let names: Vec<String> = (0..2 * BOUNDS.keys).map(|number| format!("n{number:03}")).collect();
    fill(bench, &names, b"").await;
    assert_eq!(
        bench.store.renew(key("held"), "o1", TERMS.lease).await,
        Ok(Renewal::Held),
        "a claim is never forgotten"
    );
    assert_eq!(bench.store.renew(others, "o1", TERMS.lease).await, Ok(Renewal::Held), "another caller's");
    let known: HashSet<_> = known(bench, &names[names.len() - 10..]).await.into_iter().collect();
    assert_eq!(known.len(), 10, "the newest are there: {known:?}");
    assert_eq!(bench.peer.claim(key(&names[0]), "o9", TERMS).await, Ok(claimed("o9")), "the oldest is not");
}

pub(crate) async fn the_oldest_answers_of_a_caller_go_when_they_are_too_large(bench: &Bench) {
    let names: Vec<String> = (0..8).map(|number| format!("n{number:03}")).collect();
    fill(bench, &names, &[7; 200]).await;
    let known = known(bench, &names[5..]).await;
    assert_eq!(known, ["n005", "n006", "n007"]);
    assert_eq!(bench.peer.claim(key(&names[0]), "o9", TERMS).await, Ok(claimed("o9")));
}
