//! A cluster of three Redis masters, the first of which has a replica.

use crate::address::free_address;
use crate::redis::Redis;
use crate::waiting::eventually;

/// The last slot of each master.
const LAST_SLOTS: [u32; 3] = [5460, 10_922, 16_383];

/// A cluster. Dropping it stops all nodes.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Three masters that know each other.
    pub async fn start() -> Self {
        let mut nodes = Vec::new();
        let mut first = 0;
        for (epoch, last) in LAST_SLOTS.into_iter().enumerate() {
            let node = start_node().await;
            // Two masters of one epoch would have to settle that first.
            ok(&node, &["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()]).await;
            ok(&node, &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).await;
            first = last + 1;
            nodes.push(node);
        }
        let this = Self { nodes };
        this.meet().await;
        this
    }

    /// Starts the cluster with a replica of the first master.
    pub async fn start_with_replica() -> Self {
        let mut this = Self::start().await;
        let master = this.nodes[0].ask(&["CLUSTER", "MYID"]).await;
        this.nodes.push(start_node().await);
        this.meet().await;
        let replica = &this.nodes[3];
        eventually("a node to become a replica", async || {
            let answer = replica.ask(&["CLUSTER", "REPLICATE", &master]).await;
            (answer == "OK").then_some(())
        })
        .await;
        eventually("the replica to be in step", async || {
            let info = replica.ask(&["INFO", "replication"]).await;
            info.contains("master_link_status:up").then_some(())
        })
        .await;
        eventually("the others to know the replica", async || {
            let nodes = this.nodes[1].ask(&["CLUSTER", "NODES"]).await;
            nodes.contains("slave").then_some(())
        })
        .await;
        this
    }

    /// For `REDIS_URL`: names two of the nodes.
    pub fn url(&self) -> String {
        format!("redis+cluster://{},{}", self.nodes[0].address(), self.nodes[1].address())
    }

    /// Nodes of the cluster: three masters, then the replica of the first one.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// Kills the first master. Its replica takes its place.
    pub async fn pause_the_first(&mut self) {
        self.nodes[0].pause().await;
    }

    /// Forgets everything that is kept.
    pub async fn empty(&self) {
        for node in &self.nodes[..LAST_SLOTS.len()] {
            ok(node, &["FLUSHALL"]).await;
        }
    }

    /// Gives a slot without keys to another master.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        let id = self.nodes[to].ask(&["CLUSTER", "MYID"]).await;
        for node in &self.nodes[..LAST_SLOTS.len()] {
            ok(node, &["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &id]).await;
        }
        // What the others still say of the slot is older then.
        self.nodes[to].ask(&["CLUSTER", "BUMPEPOCH"]).await;
    }

    /// Lets all nodes know each other, and waits until they say that the cluster works.
    async fn meet(&self) {
        for node in &self.nodes[1..] {
            let (port, bus) = (self.nodes[0].address().port().to_string(), bus_port(&self.nodes[0]).await);
            ok(node, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
        }
        let expected = format!("cluster_known_nodes:{}", self.nodes.len());
        for node in &self.nodes {
            eventually("a cluster to work", async || {
                let info = node.ask(&["CLUSTER", "INFO"]).await;
                (info.contains("cluster_state:ok") && info.contains(&expected)).then_some(())
            })
            .await;
        }
    }
}

async fn start_node() -> Redis {
    // The usual port of the bus, 10,000 higher, may be none.
    let bus = free_address().port().to_string();
    let settings = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", &bus];
    Redis::start_with(&[&settings[..], &["--repl-diskless-sync-delay", "0"]].concat()).await
}

/// `id host:port@bus …`
async fn bus_port(node: &Redis) -> String {
    let nodes = node.ask(&["CLUSTER", "NODES"]).await;
    let own = nodes.lines().find(|line| line.contains("myself")).expect("a node knows itself");
    let bus = own.split(['@', ' ', ',']).nth(2).expect("a node knows its port");
    bus.to_owned()
}

async fn ok(node: &Redis, words: &[&str]) {
    let answer = node.ask(words).await;
    assert_eq!(answer, "OK", "{words:?}");
}
