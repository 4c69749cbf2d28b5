//! More callers than the windows of one user or one address would let through
//! (host/docs/interface/errors-and-limits.md#limits).

use std::sync::atomic::{AtomicU32, Ordering};

use acceptance::{Answer, Caller, Token};
use futures::future::join_all;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

/// How many jobs one owner submits and reads: well below 100 requests a minute.
const JOBS_PER_OWNER: usize = 20;

/// Callers without number, each at an address of their own behind the proxy that `TRUST_PROXY=1` names.
/// Clones are the same crowd.
#[derive(Clone)]
pub(super) struct Crowd(Caller);

/// A job and whose it is.
#[derive(Debug, Clone)]
pub(super) struct Ticket {
    pub(super) id: String,
    owner: String,
}

impl Crowd {
    /// Before that service.
    pub(super) fn of(caller: Caller) -> Self {
        Self(caller)
    }

    /// `POST /api/agent` of somebody who has never asked before.
    pub(super) async fn ask(&self, query: &str) -> Answer {
        self.post(&format!("asks {query}"), "/api/agent", query).await
    }

    /// `POST /api/agent/async` of that owner.
    pub(super) async fn submit(&self, owner: &str, query: &str) -> Answer {
        self.post(owner, "/api/agent/async", query).await
    }

    /// Jobs that must be accepted, all at once.
    pub(super) async fn submit_all(&self, queries: impl IntoIterator<Item = String>) -> Vec<Ticket> {
        let submitted = queries.into_iter().enumerate().map(async |(n, query)| {
            let owner = format!("owner {}", n / JOBS_PER_OWNER);
            let answer = self.submit(&owner, &query).await;
            Ticket::of(&owner, &answer).unwrap_or_else(|| panic!("{answer}"))
        });
        join_all(submitted).await
    }

    /// A job once it has ended.
    pub(super) async fn ended(&self, ticket: &Ticket) -> Value {
        for _ in 0..4 {
            let path = format!("/api/agent/jobs/{}?wait=20", ticket.id);
            let answer = self.0.send(self.request(&ticket.owner, Method::GET, &path)).await;
            assert_eq!(answer.status, 200, "{answer}");
            let job = answer.json();
            if ["completed", "failed", "cancelled"].contains(&job["status"].as_str().unwrap_or_default()) {
                return job;
            }
        }
        panic!("waited in vain for the job {} to end", ticket.id);
    }

    /// All of them, once they have ended.
    pub(super) async fn all_ended(&self, tickets: &[Ticket]) -> Vec<Value> {
        join_all(tickets.iter().map(|ticket| self.ended(ticket))).await
    }

    async fn post(&self, user: &str, path: &str, query: &str) -> Answer {
        let request = self.request(user, Method::POST, path).header(CONTENT_TYPE, "application/json");
        self.0.send(request.body(json!({ "query": query }).to_string())).await
    }

    fn request(&self, user: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
        static ADDRESSES: AtomicU32 = AtomicU32::new(1);
        let [_, b, c, d] = ADDRESSES.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let request = self.0.user(Token::of(user).premium()).request(method, path);
        request.header("x-forwarded-for", format!("10.{b}.{c}.{d}"))
    }
}

impl Ticket {
    /// Of the job that was accepted with that answer, if it was.
    pub(super) fn of(owner: &str, answer: &Answer) -> Option<Self> {
        let id = answer.json()["jobId"].as_str().map(str::to_owned);
        id.filter(|_| answer.status == 202).map(|id| Self { id, owner: owner.to_owned() })
    }
}
