//! DBOS: a library in one process of Node, which journals steps in PostgreSQL.

use serde_json::{Value, json};

use super::{AS_IT_SHIPS, Deployment, Engine, absent, get, node, post, script, scripts};
use crate::provider::query;
use crate::site::{Site, Stores};

pub(crate) struct Dbos;

impl Engine for Dbos {
    fn name(&self) -> String {
        "DBOS 5.3.0 (Node), on PostgreSQL".to_owned()
    }

    fn strictness(&self) -> String {
        AS_IT_SHIPS.to_owned()
    }

    fn absent(&self) -> Option<String> {
        absent(&scripts().join("node_modules/@dbos-inc/dbos-sdk"))
    }

    fn stores(&self) -> Stores {
        Stores { postgres: true, redis: None }
    }

    fn start(&self, site: &Site) -> Deployment {
        let service = script(node("dbos.mjs", site, 0).env("DATABASE_URL", site.postgres_url()));
        Deployment { address: site.address(0), server: None, service: vec![service] }
    }

    fn submit(&self, run: usize) -> Vec<u8> {
        post(&format!("/runs/{run}"), "", json!({ "query": query(run) }))
    }

    fn read(&self, run: usize, _submitted: &Value) -> Vec<u8> {
        get(&format!("/runs/{run}"), "")
    }
}
