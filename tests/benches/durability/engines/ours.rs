//! agent-host: a job by `POST /api/agent/async`, its result by `GET ?wait=60`, the calculator as it ships.

use serde_json::{Value, json};

use super::{AS_IT_SHIPS, Deployment, Engine, redis_strictness};
use crate::callers::Callers;
use crate::deployments;
use crate::measuring::process::Server;
use crate::measuring::subject::Subject;
use crate::provider::query;
use crate::site::{AppendOnly, Site, Stores};

pub(crate) struct Ours {
    stores: Stores,
    /// Instead of the five that ship.
    workers: Option<usize>,
    /// The windows of a minute are of each user and each address, so runs come from many.
    callers: Callers,
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
        Self { stores, workers, callers: Callers::new() }
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
        self.callers.of(run).post("/api/agent/async", &json!({ "query": query(run) }).to_string())
    }

    fn read(&self, run: usize, submitted: &Value) -> Vec<u8> {
        let id = submitted["jobId"].as_str().expect("the id of a job");
        self.callers.of(run).get(&format!("/api/agent/jobs/{id}?wait=60"))
    }
}
