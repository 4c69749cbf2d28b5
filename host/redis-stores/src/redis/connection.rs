//! Redis, whatever stands behind its address: one server, the master that sentinels know, or a cluster.
//!
//! A query goes to the server that has its keys: [`Redis::at`] says which keys are meant. Where there is only
//! one server it has them all.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, FromRedisValue, Pipeline, RedisResult, ScriptInvocation, Value};

use super::QueryError;
use super::address::{Address, AddressError};
use super::circuit_breaker::CircuitBreaker;
use super::cluster::{Cluster, slot_of};
use super::sentinel::{Sentinels, replicas};
use super::server::{Manner, Server, Way};

/// How long an answer may take. The caller serves a request and can do without: results are computed again,
/// hits are counted in the process. Shorter than these callers wait.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// A Redis. Clones share their connections.
#[derive(Clone)]
pub struct Redis(Target);

#[derive(Clone)]
enum Target {
    Server(Arc<Server>),
    /// The node that has this slot; any, if it does not matter which.
    Slot(Arc<Cluster>, Option<u16>),
}

impl Redis {
    /// What `redis://…`, `rediss://…`, `redis+sentinel://…` or `redis+cluster://…` names. Nothing is
    /// connected yet: a Redis that is down at start-up is a matter of health, not of configuration.
    pub fn open(url: &str) -> Result<Self, AddressError> {
        let server = |way| Self::server(Server::new(way, ANSWER_TIMEOUT, CircuitBreaker::default()));
        Ok(match Address::parse(url)? {
            Address::Server(client) => server(Way::To(Box::new(client))),
            Address::Sentinels(sentinels) => server(Way::ByName(Arc::new(Sentinels::new(sentinels)))),
            Address::Cluster(nodes) => {
                Self(Target::Slot(Arc::new(Cluster::new(nodes, ANSWER_TIMEOUT)), None))
            }
        })
    }

    fn server(server: Server) -> Self {
        Self(Target::Server(Arc::new(server)))
    }

    /// A connection to the same Redis for keys of the slot of `key`. On one server it has no effect.
    pub(crate) fn at(&self, key: &str) -> Self {
        match &self.0 {
            Target::Server(_) => self.clone(),
            Target::Slot(cluster, _) => Self(Target::Slot(cluster.clone(), Some(slot_of(key)))),
        }
    }

    /// Whether keys of one query have to be of one slot.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.0, Target::Slot(..))
    }

    /// Whether the address names one server by itself, and neither sentinels nor a cluster.
    pub(crate) fn is_named_directly(&self) -> bool {
        match &self.0 {
            Target::Server(server) => matches!(server.way(), Way::To(_)),
            Target::Slot(..) => false,
        }
    }

    /// Other connections to the same servers, with another limit for an answer. A probe that finds a server
    /// there closes the circuits of both.
    pub(crate) fn another(&self, answer_timeout: Duration) -> Self {
        self.another_with(answer_timeout, None)
    }

    /// Other connections like [`Self::another`] that the servers list under that name (`CLIENT LIST`), where
    /// they let clients have one.
    pub(crate) fn another_named(&self, answer_timeout: Duration, name: &str) -> Self {
        self.another_with(answer_timeout, Some(name.into()))
    }

    fn another_with(&self, answer_timeout: Duration, name: Option<Arc<str>>) -> Self {
        match &self.0 {
            Target::Server(server) => Self::server(server.another(answer_timeout, name)),
            Target::Slot(cluster, slot) => {
                Self(Target::Slot(Arc::new(cluster.another(answer_timeout, name)), *slot))
            }
        }
    }

    /// The servers that share the keys, each by itself.
    pub(crate) async fn masters(&self) -> Result<Vec<Self>, QueryError> {
        match &self.0 {
            Target::Server(_) => Ok(vec![self.clone()]),
            Target::Slot(cluster, _) => {
                let masters = cluster.masters().await?;
                Ok(masters.into_iter().map(|(_, node)| Self(Target::Server(node))).collect())
            }
        }
    }

    /// Every server that has keys or may have them after a failover, as far as the others know of it: nodes
    /// of a cluster, a master of sentinels and its replicas.
    pub(crate) async fn nodes(&self) -> Result<Vec<Self>, QueryError> {
        match &self.0 {
            Target::Slot(cluster, _) => {
                let nodes = cluster.all().await?;
                Ok(nodes.into_iter().map(|node| Self(Target::Server(node))).collect())
            }
            Target::Server(server) => {
                let Way::ByName(sentinels) = server.way() else { return Ok(vec![self.clone()]) };
                let role: Value = self.command(&redis::cmd("ROLE")).await?;
                let infos = replicas(&role).into_iter().filter_map(|host| sentinels.info_at(&host));
                let clients = infos.filter_map(|info| Client::open(info).ok());
                let open = |client| {
                    Self::server(Server::new(
                        Way::To(Box::new(client)),
                        ANSWER_TIMEOUT,
                        CircuitBreaker::default(),
                    ))
                };
                Ok([self.clone()].into_iter().chain(clients.map(open)).collect())
            }
        }
    }

    /// Sends a command as a [query](Self::query).
    pub(crate) async fn command<T: FromRedisValue + Send>(&self, command: &Cmd) -> Result<T, QueryError> {
        self.query(|mut redis| async move { command.query_async(&mut redis).await }).await
    }

    /// Sends commands together as one [query](Self::query).
    pub(crate) async fn pipeline<T: FromRedisValue + Send>(
        &self,
        commands: &Pipeline,
    ) -> Result<T, QueryError> {
        self.query(|mut redis| async move { commands.query_async(&mut redis).await }).await
    }

    /// Has a script run as a [query](Self::query).
    pub(crate) async fn script<T: FromRedisValue + Send>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, QueryError> {
        self.query(|mut redis| async move { script.invoke_async(&mut redis).await }).await
    }

    /// Sends a query, unless the circuit is open. One that found a kept connection dead is sent once more on
    /// a new connection, so it has to bear being carried out twice: see [`Manner::Once`].
    pub(crate) async fn query<T, F>(
        &self,
        query: impl Fn(MultiplexedConnection) -> F + Send + Sync,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        self.send(Manner::Repeatable(Duration::ZERO), query).await
    }

    /// Sends a query in that manner, unless the circuit is open.
    pub(crate) async fn send<T, F>(
        &self,
        manner: Manner,
        query: impl Fn(MultiplexedConnection) -> F + Send + Sync,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        match &self.0 {
            Target::Server(server) => server.query(manner, query).await,
            Target::Slot(cluster, slot) => cluster.query(*slot, manner, query).await,
        }
    }

    /// Asks for a sign of life, also while the circuit is open: of each master of a cluster. An answer closes
    /// the circuits of all connections to that server.
    pub(crate) async fn ping(&self) -> Result<(), QueryError> {
        match &self.0 {
            Target::Server(server) => server.ping().await,
            Target::Slot(cluster, _) => cluster.ping().await,
        }
    }

    /// Whether a query would be sent, as far as is known.
    pub(crate) fn circuit_is_closed(&self) -> bool {
        match &self.0 {
            Target::Server(server) => server.circuit_is_closed(),
            Target::Slot(cluster, slot) => cluster.circuit_is_closed(*slot),
        }
    }

    /// The number of this runtime's connection to the one server: another one after each time that it had to
    /// be made. A cluster has many connections and no number.
    pub(crate) fn connection_number(&self) -> Option<u64> {
        match &self.0 {
            Target::Server(server) => server.connection_number(),
            Target::Slot(..) => None,
        }
    }

    /// Drops the connections; the next query makes new ones.
    pub(crate) fn disconnect(&self) {
        match &self.0 {
            Target::Server(server) => server.disconnect(),
            Target::Slot(cluster, _) => cluster.disconnect(),
        }
    }
}
