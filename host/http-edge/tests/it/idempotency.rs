//! `Idempotency-Key` in Variant A: keys are counted per address. What holds for runs of both variants.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::idempotency::LEASE;
use agent_core::testing::{EchoTools, TestJournal, says};
use axum::body::Body;
use axum::extract::ConnectInfo;
use boxed_async::boxed_async;
use http::{Request, StatusCode};
use run_service::layers::{Agent, Ask, Invoke, InvokeError, RunAnswer};
use run_service::testing::scripted_agent;
use tokio::time::{sleep, timeout};

use crate::harness::{Answers, Fakes, Keys, Service, bearer, idempotency_over, request};

fn service(keys: &Arc<Keys>) -> Service {
    Service::configured(Answers, |edge| edge.idempotency = idempotency_over(keys))
}

fn from(address: &str, body: &'static str) -> Request<Body> {
    keyed(address, request("POST", "/agent/invoke", body))
}

fn keyed(address: &str, mut request: Request<Body>) -> Request<Body> {
    let address: SocketAddr = address.parse().unwrap();
    request.extensions_mut().insert(ConnectInfo(address));
    request.headers_mut().insert("idempotency-key", "\"k\"".parse().unwrap());
    request
}

#[tokio::test]
async fn the_same_request_of_an_address_is_carried_out_once() {
    let keys = Arc::<Keys>::default();
    let (one, other) = (service(&keys), service(&keys));
    let first = one.send(from("192.0.2.1:1", r#"{"input":"hi"}"#)).await;
    assert_eq!((first.status, first.header("idempotent-replayed")), (StatusCode::OK, None));
    let again = other.send(from("192.0.2.1:2", r#"{"input":"hi"}"#)).await;
    assert_eq!((again.status, &again.body), (StatusCode::OK, &first.body));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let elsewhere = other.send(from("192.0.2.2:1", r#"{"input":"ho"}"#)).await;
    assert_eq!((elsewhere.status, elsewhere.header("idempotent-replayed")), (StatusCode::OK, None));
    let different = one.send(from("192.0.2.1:1", r#"{"input":"ho"}"#)).await;
    assert_eq!(different.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_cancellation_is_carried_out_once_too() {
    let service = service(&Arc::default());
    let cancel = || keyed("192.0.2.1:1", request("POST", "/agent/runs/run_1/cancel", ""));
    let first = service.send(cancel()).await;
    assert_eq!((first.status, first.header("idempotent-replayed")), (StatusCode::NOT_FOUND, None));
    let again = service.send(cancel()).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (StatusCode::NOT_FOUND, Some("true")));
}

#[tokio::test]
async fn a_store_that_is_away_is_unavailable_and_a_request_without_a_key_does_not_notice() {
    let keys = Arc::<Keys>::default();
    keys.break_down();
    let service = service(&keys);
    let answer = service.send(from("192.0.2.1:1", r#"{"input":"hi"}"#)).await;
    assert_eq!(
        (answer.status, answer.body.as_str(), answer.header("retry-after")),
        (StatusCode::SERVICE_UNAVAILABLE, r#"{"error":"Service temporarily unavailable"}"#, Some("1"))
    );
    // Nobody knows whether it was claimed.
    keys.released(1).await;
    let calls = keys.calls();
    assert_eq!(service.invoke(r#"{"input":"hi"}"#).await.status, StatusCode::OK);
    assert_eq!(keys.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_free_again_whose_claim_was_carried_out_and_not_answered() {
    let keys = Arc::<Keys>::default();
    keys.lose_claim();
    let service = service(&keys);
    let lost = service.send(from("192.0.2.1:1", r#"{"input":"hi"}"#)).await;
    assert_eq!((lost.status, lost.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    timeout(LEASE, keys.released(1)).await.unwrap();
    let again = service.send(from("192.0.2.1:1", r#"{"input":"hi"}"#)).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (StatusCode::OK, None), "{again}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_kept_at_once_is_kept_as_soon_as_the_store_works_again() {
    let keys = Arc::<Keys>::default();
    keys.fail_to_keep(5);
    let service = service(&keys);
    let first = service.send(from("192.0.2.1:1", r#"{"input":"hi"}"#)).await;
    assert_eq!(first.status, StatusCode::OK, "its client does not wait for that");
    let meanwhile = service.send(from("192.0.2.1:1", r#"{"input":"hi"}"#)).await;
    assert_eq!(meanwhile.status, StatusCode::CONFLICT, "nobody has it carried out once more");
    keys.answered().await;
    let again = service.send(from("192.0.2.1:1", r#"{"input":"hi"}"#)).await;
    assert_eq!((again.status, &again.body), (StatusCode::OK, &first.body));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
}

/// Begins a run when the lease of its request's key may have ended.
struct Late(Agent);

#[boxed_async]
impl Invoke for Late {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        sleep(LEASE).await;
        self.0.invoke(ask).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_key_could_not_be_renewed_waits_for_the_store() {
    for is_b in [false, true] {
        let (keys, journal) = (Arc::<Keys>::default(), Arc::<TestJournal>::default());
        let late = Late(scripted_agent([Ok(says("done"))], EchoTools::new(&[]), journal.clone()));
        let (service, request) = if is_b {
            let asked = bearer("u1", request("POST", "/api/agent", r#"{"query":"hi"}"#));
            let fakes = Fakes::configured(late, |edge| edge.idempotency = idempotency_over(&keys));
            (fakes.service, keyed("192.0.2.1:1", asked))
        } else {
            let service = Service::configured(late, |edge| edge.idempotency = idempotency_over(&keys));
            (service, from("192.0.2.1:1", r#"{"input":"hi"}"#))
        };
        let outage = async {
            keys.claimed(1).await;
            keys.break_down();
            sleep(LEASE + Duration::from_secs(1)).await;
            assert_eq!(journal.events().len(), 1, "the model is not asked");
            keys.mend();
        };
        let (answer, ()) = tokio::join!(service.send(request), outage);
        assert_eq!((answer.status, journal.events().len()), (StatusCode::OK, 2), "{answer}");
    }
}
