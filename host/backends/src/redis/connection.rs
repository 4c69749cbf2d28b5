//! One multiplexed connection to Redis: made when it is first needed, shared by everybody, dropped when it fails.
//!
//! Every query has a timeout and passes the connection's circuit breaker. A query that found a kept connection dead is
//! sent once more on a new one.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};
use tokio::time::{Instant, timeout};

use super::QueryError;
use super::circuit_breaker::CircuitBreaker;

/// How long connecting may take. It is what the interface grants the database (Limits, "Database pool").
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an answer may take. The caller serves a request and can do without: results are computed again, hits are
/// counted in the process.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// A Redis server. Clones share one connection.
///
/// It is not the `ConnectionManager` of the crate `redis`: that one keeps a connection whose answers do not
/// come, and needs a failed call to notice that a restarted server is back.
#[derive(Clone)]
pub struct Redis(Arc<Server>);

/// What the clones share.
struct Server {
    client: Client,
    answer_timeout: Duration,
    connection: Mutex<Connection>,
    circuit: CircuitBreaker,
}

#[derive(Default)]
struct Connection {
    /// One future that all waiting callers poll: a caller that goes away does not stop it for the others.
    connecting: Option<Connecting>,
    /// Counts connections: a failure ends the one it happened on and not its successor.
    number: u64,
}

type Connecting = Shared<BoxFuture<'static, Result<MultiplexedConnection, QueryError>>>;

/// How often to send a query when a connection that was kept turns out to be dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tries {
    One,
    Two,
}

/// An address that names no Redis server. It is not quoted: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("REDIS_URL cannot be used: it is not an address of a Redis server")]
pub struct AddressError;

impl Redis {
    /// The server at `redis://…` or `rediss://…`. Nothing is connected yet: a Redis that is down at start-up
    /// is a matter of health, not of configuration.
    pub fn open(url: &str) -> Result<Self, AddressError> {
        let client = Client::open(url).map_err(|_quotes_it| AddressError)?;
        Ok(Self::new(client, ANSWER_TIMEOUT, CircuitBreaker::default()))
    }

    /// Another connection to the same server, with another limit for an answer. A probe that finds the server there
    /// closes the circuits of both.
    pub(crate) fn another(&self, answer_timeout: Duration) -> Self {
        Self::new(self.0.client.clone(), answer_timeout, self.0.circuit.sibling())
    }

    fn new(client: Client, answer_timeout: Duration, circuit: CircuitBreaker) -> Self {
        Self(Arc::new(Server { client, answer_timeout, connection: Mutex::default(), circuit }))
    }

    /// Sends a query, unless the circuit is open. One that found a kept connection dead is sent once more on a new
    /// connection, so it has to bear being carried out twice: see [`Self::query_once`].
    pub(crate) async fn query<T, F>(
        &self,
        query: impl Fn(MultiplexedConnection) -> F + Send,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        self.query_blocking(Duration::ZERO, query).await
    }

    /// Sends a query that Redis may take `wait` longer to answer, because it blocks.
    pub(crate) async fn query_blocking<T, F>(
        &self,
        wait: Duration,
        query: impl Fn(MultiplexedConnection) -> F + Send,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        let limit = self.0.answer_timeout + wait;
        if !self.0.circuit.allows(Instant::now(), CONNECT_TIMEOUT + limit) {
            return Err(QueryError::CircuitOpen);
        }
        self.query_regardless(limit, Tries::Two, query).await
    }

    /// Sends a query that must not be carried out twice. Whether the connection is alive is found out before.
    pub(crate) async fn query_once<T, F>(
        &self,
        query: impl Fn(MultiplexedConnection) -> F + Send,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        self.query(ping).await?;
        self.query_regardless(self.0.answer_timeout, Tries::One, query).await
    }

    /// Asks for a sign of life, also while the circuit is open. An answer closes the circuits of all connections to
    /// this server.
    pub(crate) async fn ping(&self) -> Result<(), QueryError> {
        self.query_regardless(self.0.answer_timeout, Tries::Two, ping).await?;
        self.0.circuit.close_all(Instant::now());
        Ok(())
    }

    /// The number of the connection: another one after each time that it had to be made.
    pub(crate) fn connection_number(&self) -> u64 {
        self.lock().number
    }

    /// Drops the connection; the next query makes a new one.
    pub(crate) fn disconnect(&self) {
        self.lock().connecting = None;
    }

    async fn query_regardless<T, F>(
        &self,
        limit: Duration,
        tries: Tries,
        query: impl Fn(MultiplexedConnection) -> F + Send,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        let mut is_last = tries == Tries::One;
        loop {
            let (connecting, number, is_new) = self.connect();
            let answer = match connecting.await {
                Ok(connection) => match timeout(limit, query(connection)).await {
                    Ok(answer) => answer.map_err(QueryError::from),
                    Err(_elapsed) => Err(QueryError::Timeout(limit)),
                },
                Err(error) => Err(error),
            };
            match answer {
                // A kept connection may have died long ago and unnoticed. That says nothing about the server: the
                // next connection will.
                Err(error @ QueryError::Disconnected(_)) if !is_new => {
                    self.drop_connection(number);
                    if is_last {
                        self.0.circuit.close();
                        return Err(error);
                    }
                    is_last = true;
                }
                Err(error) if error.means_down() => {
                    self.0.circuit.open(Instant::now());
                    self.drop_connection(number);
                    return Err(error);
                }
                answered => {
                    self.0.circuit.close();
                    return answered;
                }
            }
        }
    }

    /// The connection with its number, and whether it is being made just now.
    fn connect(&self) -> (Connecting, u64, bool) {
        let mut connection = self.lock();
        if let Some(connecting) = &connection.connecting {
            return (connecting.clone(), connection.number, connecting.peek().is_none());
        }
        let connecting = connect(self.0.client.clone()).boxed().shared();
        connection.number += 1;
        connection.connecting = Some(connecting.clone());
        (connecting, connection.number, true)
    }

    fn drop_connection(&self, number: u64) {
        let mut connection = self.lock();
        if connection.number == number {
            connection.connecting = None;
        }
    }

    /// Held for a few instructions, never across an await.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ping(mut redis: MultiplexedConnection) -> RedisResult<()> {
    redis::cmd("PING").query_async(&mut redis).await
}

async fn connect(client: Client) -> Result<MultiplexedConnection, QueryError> {
    // The timeouts are ours: of connecting here, of answers with each query.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(connected) => connected.map_err(QueryError::from),
        Err(_elapsed) => Err(QueryError::Timeout(CONNECT_TIMEOUT)),
    }
}

impl fmt::Debug for Redis {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_address_is_not_quoted() {
        for url in ["redis://:hunter2@host:99999", "http://hunter2", "hunter2"] {
            let error = Redis::open(url).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
