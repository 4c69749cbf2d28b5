//! A cluster: each query is sent to the node that has the hash slot of its keys.
//!
//! It is not the cluster client of the crate `redis`. That one sends a command again whose answer it did not
//! see, also one that must not be carried out twice; it loads a script on all nodes at once, so that one node
//! that is away keeps all others from running it; and all nodes are one connection to it, behind which one
//! circuit breaker could not tell them apart. Here each node is a [`Server`]: with a connection, timeouts and
//! a circuit of its own.
//!
//! What the nodes say about slots (`topology.rs`) is asked for when it is first needed, and again when a node
//! does not answer or says that it does not have a slot or is cut off from the others. A slot that is being
//! moved is not followed key by key (`ASK`): until it has moved, scripts of more than one key do not work
//! there anyway, whoever sends them.

mod topology;

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Client, ConnectionInfo, RedisResult, Value};
use tokio::time::{Instant, timeout};

use super::QueryError;
use super::address::{Host, at_host, host_of};
use super::circuit_breaker::CircuitBreaker;
use super::open::{ask_all, open};
use super::server::{Manner, Server, Way};
use topology::{Topology, read_epoch, read_moved};

pub(super) use topology::slot_of;

/// How long the nodes have to say who has which slots, all together.
const TOPOLOGY_TIMEOUT: Duration = Duration::from_millis(500);

/// How long what they said is not asked for again.
const TOPOLOGY_PAUSE: Duration = Duration::from_millis(250);

/// How often a query follows its slot from node to node.
const MOST_REDIRECTS: u32 = 3;

/// A cluster, with connections to its nodes. What is known of its slots is shared with [`Self::another`].
pub(super) struct Cluster {
    shared: Arc<Shared>,
    answer_timeout: Duration,
    nodes: Mutex<HashMap<Host, Arc<Server>>>,
    /// What the nodes list the connections under.
    name: Option<Arc<str>>,
}

/// What all connections to a cluster share.
struct Shared {
    seeds: Vec<ConnectionInfo>,
    known: Mutex<Known>,
    /// When the nodes were asked last. Held while they are.
    asked: tokio::sync::Mutex<Option<Instant>>,
    circuits: Mutex<HashMap<Host, CircuitBreaker>>,
}

#[derive(Default)]
struct Known {
    topology: Topology,
    /// Nodes that did not answer, or that are cut off from the others: before they are asked for anything
    /// else, the others are asked whether they still have their slots.
    suspects: HashSet<Host>,
}

impl Cluster {
    /// The cluster of those nodes. Nothing is connected yet.
    pub(super) fn new(seeds: Vec<ConnectionInfo>, answer_timeout: Duration) -> Self {
        let shared = Shared {
            seeds,
            known: Mutex::default(),
            asked: tokio::sync::Mutex::default(),
            circuits: Mutex::default(),
        };
        Self { shared: Arc::new(shared), answer_timeout, nodes: Mutex::default(), name: None }
    }

    /// Other connections to the same nodes, with another limit for an answer, and listed under that name.
    pub(super) fn another(&self, answer_timeout: Duration, name: Option<Arc<str>>) -> Self {
        Self { shared: self.shared.clone(), answer_timeout, nodes: Mutex::default(), name }
    }

    /// Sends a query to the node that has the slot, and after it if the slot has moved.
    pub(super) async fn query<T, F>(
        &self,
        slot: Option<u16>,
        manner: Manner,
        query: impl Fn(MultiplexedConnection) -> F + Send + Sync,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        let mut redirects = 0;
        loop {
            let host = self.owner(slot).await?;
            let node = self.node(&host)?;
            match node.query(manner, &query).await {
                // Nothing was carried out.
                Err(QueryError::Moved { to }) if redirects < MOST_REDIRECTS => {
                    redirects += 1;
                    self.shared.note_moved(slot, &to, &host);
                }
                Err(error) => {
                    let is_open = error == QueryError::CircuitOpen;
                    if is_open || error.means_down() || error.is_of_cluster_state() {
                        self.shared.known.lock().suspects.insert(host);
                    }
                    return Err(error);
                }
                answer => return answer,
            }
        }
    }

    /// Asks every master for a sign of life, also those whose circuit is open.
    pub(super) async fn ping(&self) -> Result<(), QueryError> {
        let masters = self.masters().await?;
        let pinged = join_all(masters.iter().map(|(_, node)| node.ping())).await;
        for ((host, _), answer) in masters.iter().zip(pinged) {
            if answer.is_err() {
                self.shared.known.lock().suspects.insert(host.clone());
            }
            answer?;
        }
        Ok(())
    }

    /// Each master, with a connection to it.
    pub(super) async fn masters(&self) -> Result<Vec<(Host, Arc<Server>)>, QueryError> {
        self.refresh_suspects().await?;
        let hosts = self.shared.known.lock().topology.masters();
        hosts.into_iter().map(|host| self.node(&host).map(|node| (host, node))).collect()
    }

    /// Each node, replicas included.
    pub(super) async fn all(&self) -> Result<Vec<Arc<Server>>, QueryError> {
        self.refresh_suspects().await?;
        let hosts = self.shared.known.lock().topology.all();
        hosts.iter().map(|host| self.node(host)).collect()
    }

    /// Whether a query of the slot would be sent, as far as is known.
    pub(super) fn circuit_is_closed(&self, slot: Option<u16>) -> bool {
        let host = self.shared.known.lock().topology.owner(slot).cloned();
        host.and_then(|host| self.nodes.lock().get(&host).cloned())
            .is_none_or(|node| node.circuit_is_closed())
    }

    /// Drops the connections to all nodes.
    pub(super) fn disconnect(&self) {
        for node in self.nodes.lock().values() {
            node.disconnect();
        }
    }

    /// The master that has the slot, by what is known or can be learned.
    async fn owner(&self, slot: Option<u16>) -> Result<Host, QueryError> {
        let known = {
            let known = self.shared.known.lock();
            known.topology.owner(slot).filter(|host| !known.suspects.contains(*host)).cloned()
        };
        if let Some(host) = known {
            return Ok(host);
        }
        self.shared.refresh().await?;
        let host = self.shared.known.lock().topology.owner(slot).cloned();
        host.ok_or_else(|| QueryError::Disconnected("no node of the cluster has these keys".into()))
    }

    async fn refresh_suspects(&self) -> Result<(), QueryError> {
        let is_known = {
            let known = self.shared.known.lock();
            !known.topology.is_empty() && known.suspects.is_empty()
        };
        if is_known { Ok(()) } else { self.shared.refresh().await }
    }

    /// The connection to a node. Those to nodes that are none any more are dropped with the next new one.
    fn node(&self, host: &Host) -> Result<Arc<Server>, QueryError> {
        let mut nodes = self.nodes.lock();
        if let Some(node) = nodes.get(host) {
            return Ok(node.clone());
        }
        let all = self.shared.known.lock().topology.all();
        nodes.retain(|known, _| all.contains(known));
        let client = self.shared.client(host)?;
        let circuit = self.shared.circuit(host, &all);
        let node = Server::new(Way::To(Box::new(client)), self.answer_timeout, circuit);
        let node = Arc::new(node.named(self.name.clone()));
        nodes.insert(host.clone(), node.clone());
        Ok(node)
    }
}

impl Shared {
    /// Asks the nodes who has which slots. Whoever comes while they are asked waits for the same answer, but
    /// no longer than the nodes have: the one who asks may be a claim that nobody polls any more.
    async fn refresh(&self) -> Result<(), QueryError> {
        let mut asked = timeout(TOPOLOGY_TIMEOUT, self.asked.lock()).await.ok();
        if asked.as_deref().is_some_and(|at| at.is_some_and(|at| at.elapsed() < TOPOLOGY_PAUSE)) {
            let is_known = !self.known.lock().topology.is_empty();
            return if is_known { Ok(()) } else { Err(QueryError::CircuitOpen) };
        }
        let nodes = self.nodes_to_ask();
        let majority = nodes.len() / 2 + 1;
        let questions: Vec<_> = nodes.into_iter().map(ask).collect();
        let (answers, failure) =
            ask_all(questions, TOPOLOGY_TIMEOUT, |answers: &[Topology]| answers.len() >= majority).await;
        if let Some(asked) = asked.as_deref_mut() {
            *asked = Some(Instant::now());
        }
        // A node that is cut off from the others knows of no newer epoch.
        let Some(newest) = answers.into_iter().max_by_key(|topology| topology.epoch) else {
            return Err(failure.unwrap_or(QueryError::Timeout(TOPOLOGY_TIMEOUT)));
        };
        let mut known = self.known.lock();
        known.topology = newest;
        known.suspects.clear();
        Ok(())
    }

    /// Nodes that the address names, and the masters that are known.
    fn nodes_to_ask(&self) -> Vec<ConnectionInfo> {
        let mut nodes = self.seeds.clone();
        let named: Vec<_> = self.seeds.iter().filter_map(host_of).collect();
        let masters = self.known.lock().topology.masters();
        let others = masters.iter().filter(|host| !named.contains(*host));
        nodes.extend(others.filter_map(|host| self.info(host)));
        nodes
    }

    fn note_moved(&self, slot: Option<u16>, to: &str, asked: &Host) {
        let mut known = self.known.lock();
        match (slot, read_moved(to, asked)) {
            (Some(slot), Some(to)) => known.topology.note_moved(slot, to),
            _ => {
                known.suspects.insert(asked.clone());
            }
        }
    }

    /// The circuit breaker of a new connection to a node: a probe that finds it there closes all of that
    /// node.
    fn circuit(&self, host: &Host, all: &[Host]) -> CircuitBreaker {
        let mut circuits = self.circuits.lock();
        circuits.retain(|known, _| all.contains(known));
        circuits.entry(host.clone()).or_default().sibling()
    }

    fn client(&self, host: &Host) -> Result<Client, QueryError> {
        let info = self.info(host).ok_or_else(|| QueryError::Disconnected("no node is named".into()))?;
        Client::open(info).map_err(QueryError::from)
    }

    fn info(&self, host: &Host) -> Option<ConnectionInfo> {
        self.seeds.first().map(|seed| at_host(seed, host))
    }
}

/// Asks one node who has which slots.
async fn ask(node: ConnectionInfo) -> Result<Topology, QueryError> {
    let host = host_of(&node).ok_or_else(|| QueryError::Disconnected("a node is no host".into()))?;
    let client = Client::open(node).map_err(QueryError::from)?;
    let mut connection = open(&client, TOPOLOGY_TIMEOUT).await?;
    let mut both = redis::pipe();
    both.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    let asked: RedisResult<(String, Value)> = both.query_async(&mut connection).await;
    let (info, slots) = asked.map_err(|error| match QueryError::from(error) {
        QueryError::Refused { code, .. } if code == "ERR" => {
            QueryError::Disconnected("it is no node of a cluster: redis:// names one server".into())
        }
        error => error,
    })?;
    let topology = Topology::read(&slots, read_epoch(&info), &host);
    let is_known = !topology.is_empty();
    is_known
        .then_some(topology)
        .ok_or_else(|| QueryError::Disconnected("the cluster has no slots yet".into()))
}
