//! The Node deployment that clients use today: a server and a worker with BullMQ on Redis, here with an agent
//! that has tools. The queue is durable and the steps of a job are not.

use serde_json::{Value, json};

use super::{Deployment, Engine, absent, get, node, post, redis_strictness, script};
use crate::provider::query;
use crate::site::{AppendOnly, Site, Stores};

pub(crate) struct BullMq(pub(crate) AppendOnly);

impl Engine for BullMq {
    fn name(&self) -> String {
        "Node deployment (BullMQ), no step kept".to_owned()
    }

    fn strictness(&self) -> String {
        redis_strictness(self.0)
    }

    fn absent(&self) -> Option<String> {
        absent(&acceptance::repository().join("tests/peers/node_modules/bullmq"))
    }

    fn stores(&self) -> Stores {
        Stores { postgres: false, redis: Some(self.0) }
    }

    fn start(&self, site: &Site) -> Deployment {
        let start = |mode: &str| {
            let mut command = node("bullmq.mjs", site, 0);
            script(command.arg(mode).env("REDIS_URL", site.redis_url().expect("a Redis server")))
        };
        let service = vec![start("server"), start("worker")];
        Deployment { address: site.address(0), server: None, service }
    }

    fn submit(&self, run: usize) -> Vec<u8> {
        // A number alone is no id of a job there.
        post(&format!("/runs/run-{run}"), "", json!({ "query": query(run) }))
    }

    fn read(&self, run: usize, _submitted: &Value) -> Vec<u8> {
        get(&format!("/runs/run-{run}"), "")
    }
}
