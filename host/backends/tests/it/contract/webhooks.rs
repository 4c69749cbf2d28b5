//! What every outbox of webhooks promises: `WebhookOutbox`.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use agent_core::ports::webhooks::{ClaimBounds, NewWebhook};
use agent_core::ports::{Renewal, WebhookOutbox};
use agent_core::words::{Webhook, WebhookAttempt, WebhookState};
use boxed_async::boxed_async;
use test_servers::eventually;

pub(crate) use super::lease::*;
use super::text::NASTY;

/// An empty outbox.
pub(crate) type Bench = super::Bench<dyn WebhookOutbox>;

/// A test of every case. The argument is the path of an `async fn() -> Bench`.
macro_rules! test_all {
    ($test:ident $benches:tt) => {
        crate::contract::$test! { webhooks, $benches:
            // Of the cases of leases those without renewals, as there are none here.
            of_many_claims_at_once_one_succeeds,
            a_lease_that_is_not_renewed_ends_and_its_holder_has_lost_it,
            a_claim_is_settled_once,
            a_claim_that_was_released_is_free_at_once_and_its_holder_has_lost_it,
            a_webhook_is_due_at_once_and_put_in_once,
            one_of_which_nothing_was_sent_waits_anew_when_it_is_put_in_again,
            one_process_at_a_time_has_a_webhook,
            a_user_with_many_webhooks_delays_nobody_elses,
            what_became_of_a_webhook_is_kept_and_it_is_due_when_that_says,
            only_what_was_delivered_or_given_up_is_replayed,
            one_whose_job_is_retried_waits_for_its_end_anew,
            texts_are_kept_as_they_are,
        }
    };
}
pub(crate) use test_all;

/// How long it is until a webhook is due that is waited for.
const SOON: Duration = Duration::from_millis(100);

async fn put(bench: &Bench, job_id: &str) {
    let webhook = NewWebhook { job_id, user_id: "u1", url: "https://example.com/hook" };
    bench.store.put(&webhook).await.unwrap();
}

async fn claim(outbox: &Arc<dyn WebhookOutbox>, owner: &str, lease: Duration) -> Vec<Webhook> {
    outbox.claim(owner, lease, at_most(10)).await.unwrap()
}

/// Without a bound for one user that would come into play.
fn at_most(most: u32) -> ClaimBounds {
    ClaimBounds { most, of_a_user: 100 }
}

impl Bench {
    fn of(&self, owner: &str) -> &Arc<dyn WebhookOutbox> {
        if is_peer(owner) { &self.peer } else { &self.store }
    }
}

/// A webhook and who has claimed it.
#[boxed_async]
impl Leased for Bench {
    type Claim = (String, Webhook);

    async fn add(&self) {
        put(self, "leased").await;
    }

    async fn claim(&self, owner: &str, lease: Duration) -> Option<Self::Claim> {
        let claimed = claim(self.of(owner), owner, lease).await.pop();
        claimed.map(|webhook| (owner.to_owned(), webhook))
    }

    async fn renew(&self, _claim: &Self::Claim, _lease: Duration) -> Option<Renewal> {
        None
    }

    async fn settle(&self, (owner, webhook): &Self::Claim) -> bool {
        self.of(owner).settle(owner, webhook, None).await.unwrap()
    }

    async fn release(&self, (owner, webhook): &Self::Claim) {
        self.of(owner).settle(owner, webhook, Some(Duration::ZERO)).await.unwrap();
    }
}

fn ids(webhooks: &[Webhook]) -> Vec<&str> {
    webhooks.iter().map(|webhook| &*webhook.job_id).collect()
}

pub(crate) async fn a_webhook_is_due_at_once_and_put_in_once(bench: &Bench) {
    assert_eq!(bench.store.read("job-1").await.unwrap(), None);
    put(bench, "job-1").await;
    let again = NewWebhook { job_id: "job-1", user_id: "u2", url: "https://example.com/other" };
    bench.peer.put(&again).await.unwrap();
    let webhook = bench.peer.read("job-1").await.unwrap().unwrap();
    assert_eq!((&*webhook.user_id, &*webhook.url), ("u1", "https://example.com/hook"));
    assert_eq!((webhook.state, webhook.tries, &*webhook.attempts), (WebhookState::Waiting, 0, &[][..]));
    assert_eq!(claim(&bench.peer, "o1", LONG).await, [webhook]);
}

/// Whoever submits a job tries again where it could not be added the first time.
pub(crate) async fn one_of_which_nothing_was_sent_waits_anew_when_it_is_put_in_again(bench: &Bench) {
    put(bench, "job-1").await;
    let first = claim(&bench.store, "o1", LONG).await.remove(0);
    tokio::time::sleep(SOON).await;
    put(bench, "job-1").await;
    let given_up = Webhook { state: WebhookState::Failed, ..first.clone() };
    assert_eq!(bench.store.settle("o1", &given_up, None).await, Ok(false), "its job is added by now");
    let second = claim(&bench.peer, "o2", LONG).await.remove(0);
    assert!(second.created_at > first.created_at, "{first:?}, then {second:?}");
    assert_eq!(bench.peer.settle("o2", &given_up, None).await, Ok(true));
    assert_eq!(claim(&bench.store, "o3", LONG).await, []);
    put(bench, "job-1").await;
    let third = claim(&bench.store, "o3", LONG).await.remove(0);
    assert_eq!((third.state, third.tries), (WebhookState::Waiting, 0));
    assert!(third.created_at >= second.created_at, "{second:?}, then {third:?}");
    // One that the receiver was sent stays as it is.
    for state in [WebhookState::Pending, WebhookState::Failed, WebhookState::Delivered] {
        let sent = Webhook { job_id: state.as_str().into(), state, tries: 1, ..third.clone() };
        put(bench, &sent.job_id).await;
        claim(&bench.store, "o1", LONG).await;
        assert_eq!(bench.store.settle("o1", &sent, None).await, Ok(true));
        put(bench, &sent.job_id).await;
        assert_eq!(bench.peer.read(&sent.job_id).await.unwrap().map(|kept| kept.state), Some(state));
        assert_eq!(claim(&bench.peer, "o2", LONG).await, [], "{state:?}");
    }
}

pub(crate) async fn one_process_at_a_time_has_a_webhook(bench: &Bench) {
    for id in ["a", "b", "c"] {
        put(bench, id).await;
    }
    let (ours, theirs) =
        tokio::join!(bench.store.claim("o1", LONG, at_most(2)), bench.peer.claim("o2", LONG, at_most(2)));
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    let rest = claim(&bench.store, "o3", LONG).await;
    let mut all: Vec<_> = [ids(&ours), ids(&theirs), ids(&rest)].concat();
    all.sort_unstable();
    assert_eq!(all, ["a", "b", "c"]);
    assert!(ours.len() <= 2 && theirs.len() <= 2);
}

pub(crate) async fn a_user_with_many_webhooks_delays_nobody_elses(bench: &Bench) {
    let put = async |job_id: &str, user_id: &str| {
        let webhook = NewWebhook { job_id, user_id, url: "https://example.com/hook" };
        bench.store.put(&webhook).await.unwrap();
    };
    for id in 0..20 {
        put(&format!("many-{id:02}"), "many").await;
    }
    for (id, user_id) in [("a-1", "a"), ("z-1", "z"), ("z-2", "z")] {
        put(id, user_id).await;
    }
    let bounds = ClaimBounds { most: 8, of_a_user: 2 };
    let claim = async |outbox: &Arc<dyn WebhookOutbox>, owner: &str| {
        let mut claimed = outbox.claim(owner, LONG, bounds).await.unwrap();
        claimed.sort_by(|one, other| one.job_id.cmp(&other.job_id));
        claimed
    };
    let claimed = claim(&bench.store, "o1").await;
    assert_eq!(ids(&claimed), ["a-1", "many-00", "many-01", "z-1", "z-2"]);
    assert_eq!(claim(&bench.peer, "o2").await, [], "another process counts them as well");
    assert_eq!(bench.store.settle("o1", &claimed[1], Some(LONG)).await, Ok(true));
    assert_eq!(ids(&claim(&bench.peer, "o2").await), ["many-02"], "one of them has ended");
}

pub(crate) async fn what_became_of_a_webhook_is_kept_and_it_is_due_when_that_says(bench: &Bench) {
    put(bench, "job-1").await;
    let mut webhook = claim(&bench.store, "o1", LONG).await.remove(0);
    webhook.state = WebhookState::Pending;
    webhook.tries = 1;
    webhook.attempts = vec![
        WebhookAttempt { at: 1, duration_ms: 2, status: Some(503), error: None, wait: Some("1:1.0".into()) },
        WebhookAttempt { at: 3, duration_ms: 4, status: None, error: Some(NASTY.into()), wait: None },
    ];
    assert_eq!(bench.peer.settle("o2", &webhook, Some(SOON)).await, Ok(false), "somebody else's");
    assert_eq!(bench.peer.settle("o1", &webhook, Some(SOON)).await, Ok(true));
    assert_eq!(bench.store.read("job-1").await.unwrap(), Some(webhook.clone()));
    assert_eq!(bench.store.settle("o1", &webhook, None).await, Ok(false), "it was given back");
    let claimed = eventually("it is due", async || {
        let due = claim(&bench.peer, "o2", LONG).await;
        (!due.is_empty()).then_some(due)
    })
    .await;
    assert_eq!(claimed, [webhook.clone()]);
    webhook.state = WebhookState::Delivered;
    assert_eq!(bench.peer.settle("o2", &webhook, None).await, Ok(true));
    assert_eq!(claim(&bench.store, "o3", LONG).await, []);
}

pub(crate) async fn only_what_was_delivered_or_given_up_is_replayed(bench: &Bench) {
    assert_eq!(bench.store.replay("none").await, Ok(false));
    put(bench, "job-1").await;
    assert_eq!(bench.store.replay("job-1").await, Ok(false), "it waits for its job");
    for state in [WebhookState::Pending, WebhookState::Delivered, WebhookState::Failed] {
        let Webhook { attempts, .. } = bench.store.read("job-1").await.unwrap().unwrap();
        let Some(mut webhook) = claim(&bench.store, "o1", LONG).await.pop() else {
            panic!("{state:?}: it is not due");
        };
        webhook.tries = 3;
        webhook.state = state;
        let next = (state == WebhookState::Pending).then_some(Duration::ZERO);
        bench.store.settle("o1", &webhook, next).await.unwrap();
        let is_replayed = state != WebhookState::Pending;
        assert_eq!(bench.peer.replay("job-1").await, Ok(is_replayed), "{state:?}");
        let webhook = bench.store.read("job-1").await.unwrap().unwrap();
        assert_eq!((webhook.state, webhook.attempts), (WebhookState::Pending, attempts));
        assert_eq!(webhook.tries == 0, is_replayed, "{state:?}");
    }
}

/// Whoever sends the failure of the run before has lost the webhook.
pub(crate) async fn one_whose_job_is_retried_waits_for_its_end_anew(bench: &Bench) {
    assert_eq!(bench.store.rearm("none", UNIX_EPOCH).await, Ok(false));
    put(bench, "job-1").await;
    let states =
        [WebhookState::Waiting, WebhookState::Pending, WebhookState::Delivered, WebhookState::Failed];
    for state in states {
        let mut webhook = claim(&bench.store, "o1", LONG).await.remove(0);
        (webhook.state, webhook.tries) = (state, 3);
        webhook.attempts.push(WebhookAttempt {
            at: 1,
            duration_ms: 2,
            status: Some(503),
            error: None,
            wait: None,
        });
        let next = matches!(state, WebhookState::Waiting | WebhookState::Pending).then_some(LONG);
        assert_eq!(bench.store.settle("o1", &webhook, next).await, Ok(true), "{state:?}");
        assert_eq!(bench.peer.rearm("job-1", UNIX_EPOCH).await, Ok(true), "{state:?}");
        let armed = bench.store.read("job-1").await.unwrap().expect("it is kept");
        assert!(armed.created_at >= webhook.created_at, "{state:?}");
        let created_at = armed.created_at;
        let expected = Webhook { state: WebhookState::Waiting, tries: 0, created_at, ..webhook };
        assert_eq!(armed, expected, "{state:?}");
    }
    let claimed = claim(&bench.store, "o1", LONG).await.remove(0);
    let later = claimed.created_at + LONG;
    assert_eq!(bench.peer.rearm("job-1", later).await, Ok(true));
    assert_eq!(bench.store.settle("o1", &claimed, None).await, Ok(false), "its claim is lost");
    let due = claim(&bench.peer, "o2", LONG).await;
    assert_eq!(bench.store.settle("o1", &claimed, None).await, Ok(false), "another claim has it");
    assert_eq!(due, [Webhook { created_at: later, ..claimed }], "it is due at once");
}

pub(crate) async fn texts_are_kept_as_they_are(bench: &Bench) {
    let webhook = NewWebhook { job_id: NASTY, user_id: NASTY, url: NASTY };
    bench.store.put(&webhook).await.unwrap();
    let kept = bench.peer.read(NASTY).await.unwrap().unwrap();
    assert_eq!((&*kept.job_id, &*kept.user_id, &*kept.url), (NASTY, NASTY, NASTY));
    assert_eq!(ids(&claim(&bench.store, "o1", LONG).await), [NASTY]);
}
