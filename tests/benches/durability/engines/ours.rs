//! agent-host: a job by `POST /api/agent/async`, its result by `GET ?wait=60`, the calculator as it ships.

use acceptance::Token;
use serde_json::{Value, json};

use super::{AS_IT_SHIPS, Deployment, Engine, get, post, redis_strictness};
use crate::deployments;
use crate::measuring::process::Server;
use crate::measuring::subject::Subject;
use crate::provider::query;
use crate::site::{AppendOnly, Site, Stores};

/// The windows of a minute are of each user and each address, so runs come from many.
const USERS: usize = 4_000;

pub(crate) struct Ours {
    stores: Stores,
    /// Instead of the five that ship.
    workers: Option<usize>,
    /// What identifies each of the users.
    headers: Vec<String>,
}

impl Ours {
    /// Everything in one process and a file of SQLite.
    pub(crate) fn embedded(workers: Option<usize>) -> Self {
        Self::new(Stores::default(), workers)
    }

    /// Runs and jobs in PostgreSQL.
    pub(crate) fn on_postgres() -> Self {
        Self::new(Stores { postgres: true, redis: None }, None)
    }

    /// Jobs in Redis, runs in PostgreSQL.
    pub(crate) fn on_redis(append_only: AppendOnly) -> Self {
        Self::new(Stores { postgres: true, redis: Some(append_only) }, None)
    }

    fn new(stores: Stores, workers: Option<usize>) -> Self {
        let headers = (0..USERS).map(|user| {
            let token = Token::of(format!("user-{user}")).premium();
            format!(
                "Authorization: Bearer {token}\r\nX-Forwarded-For: 10.0.{}.{}\r\n",
                user / 250,
                user % 250
            )
        });
        Self { stores, workers, headers: headers.collect() }
    }

    fn headers(&self, run: usize) -> &str {
        &self.headers[run % USERS]
    }
}

impl Engine for Ours {
    fn name(&self) -> String {
        let stores = match self.stores {
            Stores { postgres: false, .. } => "embedded (SQLite)",
            Stores { redis: None, .. } => "on PostgreSQL",
            Stores { .. } => "on Redis and PostgreSQL",
        };
        let workers = self.workers.map_or_else(String::new, |workers| format!(", {workers} workers"));
        format!("agent-host, {stores}{workers}")
    }

    fn strictness(&self) -> String {
        self.stores.redis.map_or_else(|| AS_IT_SHIPS.to_owned(), redis_strictness)
    }

    fn absent(&self) -> Option<String> {
        None
    }

    fn stores(&self) -> Stores {
        self.stores
    }

    fn start(&self, site: &Site) -> Deployment {
        let redis = site.redis_url().unwrap_or_else(|| "memory://".to_owned());
        let mut command = deployments::host(&Subject::ours(), site.provider, &redis, site.home());
        command.env("PORT", site.ports[0].to_string());
        if self.stores.postgres {
            command.env("DATABASE_URL", site.postgres_url());
        }
        if let Some(workers) = self.workers {
            command.env("JOB_WORKERS", workers.to_string());
        }
        let server = Server::start(&mut command);
        Deployment { address: server.address, server: Some(server.running), service: Vec::new() }
    }

    fn submit(&self, run: usize) -> Vec<u8> {
        post("/api/agent/async", self.headers(run), &json!({ "query": query(run) }))
    }

    fn read(&self, run: usize, submitted: &Value) -> Vec<u8> {
        let id = submitted["jobId"].as_str().expect("the id of a job");
        get(&format!("/api/agent/jobs/{id}?wait=60"), self.headers(run))
    }
}
