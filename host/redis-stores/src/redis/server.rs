//! A multiplexed connection to a Redis server for each runtime that asks: made when it is first needed,
//! shared by all of that runtime, whose thread does its I/O, and dropped when it fails.
//!
//! Every query has a timeout and passes the connection's circuit breaker. A query that found a kept
//! connection dead is sent once more on a new one.
//!
//! It is not the `ConnectionManager` of the crate `redis`: that one keeps a connection whose answers do not
//! come, and needs a failed call to notice that a restarted server is back.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisResult};
use tokio::runtime::{self, Handle};
use tokio::time::{Instant, timeout};

use super::QueryError;
use super::circuit_breaker::CircuitBreaker;
use super::open::open;
use super::sentinel::Sentinels;

/// How long connecting may take: as long as to a database (host/docs/interface/errors-and-limits.md#limits).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Where a connection leads.
#[derive(Clone)]
pub(super) enum Way {
    /// To that server.
    To(Box<Client>),
    /// To the master that sentinels name when it is made.
    ByName(Arc<Sentinels>),
}

/// How a query is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The query may be carried out twice, and Redis may take so much longer to answer because it blocks.
    Repeatable(Duration),
    /// The query must not be carried out twice. Whether the connection is alive is found out before.
    Once,
}

/// Connections to a server, with their circuit breaker.
pub(super) struct Server {
    way: Way,
    answer_timeout: Duration,
    connections: Mutex<Connections>,
    circuit: CircuitBreaker,
    /// What the server lists the connections under.
    name: Option<Arc<str>>,
}

#[derive(Default)]
struct Connections {
    of_runtimes: HashMap<runtime::Id, Connection>,
    /// Counts connections: a failure ends the one it happened on and not its successor.
    made: u64,
}

struct Connection {
    /// One future that all waiting callers poll: a caller that goes away does not stop it for the others.
    connecting: Connecting,
    number: u64,
}

/// A connection that a query is sent on.
struct Joined {
    connecting: Connecting,
    number: u64,
    /// Whether it is being made just now.
    is_new: bool,
    /// How many connections were made by then.
    made: u64,
}

type Connecting = Shared<BoxFuture<'static, Result<MultiplexedConnection, QueryError>>>;

/// How often to send a query when a connection that was kept turns out to be dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tries {
    One,
    Two,
}

impl Server {
    /// Nothing is connected yet: a Redis that is down at start-up is a matter of health, not of
    /// configuration.
    pub(super) fn new(way: Way, answer_timeout: Duration, circuit: CircuitBreaker) -> Self {
        Self { way, answer_timeout, connections: Mutex::default(), circuit, name: None }
    }

    /// Gives the connection a name, under which the server lists it.
    pub(super) fn named(self, name: Option<Arc<str>>) -> Self {
        Self { name, ..self }
    }

    /// Another connection the same way, with another limit for an answer, and listed under that name. A probe
    /// that finds the server there closes the circuits of both.
    pub(super) fn another(&self, answer_timeout: Duration, name: Option<Arc<str>>) -> Self {
        Self::new(self.way.clone(), answer_timeout, self.circuit.sibling()).named(name)
    }

    pub(super) fn way(&self) -> &Way {
        &self.way
    }

    /// Whether a query would be sent, as far as is known.
    pub(super) fn circuit_is_closed(&self) -> bool {
        self.circuit.is_closed()
    }

    /// Sends a query, unless the circuit is open. One that is repeatable and found a kept connection dead is
    /// sent once more on a new connection.
    pub(super) async fn query<T, F>(
        &self,
        manner: Manner,
        query: impl Fn(MultiplexedConnection) -> F + Send,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        match manner {
            Manner::Repeatable(wait) => {
                let limit = self.answer_timeout + wait;
                self.ask_the_circuit(limit)?;
                self.query_regardless(limit, Tries::Two, query).await
            }
            Manner::Once => {
                self.ask_the_circuit(self.answer_timeout)?;
                self.query_regardless(self.answer_timeout, Tries::Two, ping).await?;
                self.query_regardless(self.answer_timeout, Tries::One, query).await
            }
        }
    }

    /// Asks for a sign of life, also while the circuit is open. An answer closes the circuits of all
    /// connections to this server.
    pub(super) async fn ping(&self) -> Result<(), QueryError> {
        self.query_regardless(self.answer_timeout, Tries::Two, ping).await?;
        self.circuit.close_all(Instant::now());
        Ok(())
    }

    /// The number of this runtime's connection: another one after each time that it had to be made. None
    /// while there is no connection.
    pub(super) fn connection_number(&self) -> Option<u64> {
        let connections = self.connections.lock();
        connections.of_runtimes.get(&Handle::current().id()).map(|connection| connection.number)
    }

    /// Drops all connections; the next query makes a new one.
    pub(super) fn disconnect(&self) {
        self.connections.lock().of_runtimes.clear();
    }

    fn ask_the_circuit(&self, limit: Duration) -> Result<(), QueryError> {
        let is_allowed = self.circuit.allows(Instant::now(), CONNECT_TIMEOUT + limit);
        if is_allowed { Ok(()) } else { Err(QueryError::CircuitOpen) }
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
            let Joined { connecting, number, is_new, made } = self.connect();
            let answer = match connecting.await {
                Ok(connection) => match timeout(limit, query(connection)).await {
                    Ok(answer) => answer.map_err(QueryError::from),
                    Err(_elapsed) => Err(QueryError::Timeout(limit)),
                },
                Err(error) => Err(error),
            };
            match answer {
                // A kept connection may have died long ago and unnoticed. That says nothing about the server:
                // the next connection will.
                Err(error @ QueryError::Disconnected(_)) if !is_new => {
                    self.drop_connection(number);
                    if is_last {
                        self.circuit.close();
                        return Err(error);
                    }
                    is_last = true;
                }
                Err(error) if error.means_down() => {
                    // What fails on a connection that has been dropped says nothing about its successor:
                    // those who waited on it with the first one would keep everybody away for as long as each
                    // of them waits after that. What ended one has most likely ended those that there were
                    // beside it, and each runtime would find that out for itself.
                    if self.drop_connection(number) {
                        self.connections.lock().of_runtimes.retain(|_, other| other.number > made);
                        self.circuit.open(Instant::now());
                    }
                    return Err(error);
                }
                answered => {
                    self.circuit.close();
                    return answered;
                }
            }
        }
    }

    /// The connection of this runtime, which is made if there is none.
    fn connect(&self) -> Joined {
        let runtime = Handle::current().id();
        let mut connections = self.connections.lock();
        if let Some(Connection { connecting, number }) = connections.of_runtimes.get(&runtime) {
            let (connecting, number, made) = (connecting.clone(), *number, connections.made);
            let is_new = connecting.peek().is_none();
            return Joined { connecting, number, is_new, made };
        }
        let connecting = connect(self.way.clone(), self.name.clone()).boxed().shared();
        connections.made += 1;
        let number = connections.made;
        connections.of_runtimes.insert(runtime, Connection { connecting: connecting.clone(), number });
        Joined { connecting, number, is_new: true, made: number }
    }

    /// Drops the connection of that number; false when it was dropped before.
    fn drop_connection(&self, number: u64) -> bool {
        let mut connections = self.connections.lock();
        let before = connections.of_runtimes.len();
        connections.of_runtimes.retain(|_, connection| connection.number != number);
        connections.of_runtimes.len() < before
    }
}

async fn ping(mut redis: MultiplexedConnection) -> RedisResult<()> {
    redis::cmd("PING").query_async(&mut redis).await
}

async fn connect(way: Way, name: Option<Arc<str>>) -> Result<MultiplexedConnection, QueryError> {
    let connected = match way {
        Way::To(client) => open(&client, CONNECT_TIMEOUT).await,
        Way::ByName(sentinels) => {
            let connected = timeout(CONNECT_TIMEOUT, sentinels.connect()).await;
            connected.unwrap_or(Err(QueryError::Timeout(CONNECT_TIMEOUT)))
        }
    };
    let mut connection = connected.map_err(not_made)?;
    if let Some(name) = name {
        let mut set_name = redis::cmd("CLIENT");
        set_name.arg("SETNAME").arg(&*name);
        let named = set_name.query_async::<()>(&mut connection);
        match timeout(CONNECT_TIMEOUT, named).await {
            Ok(Ok(())) => {}
            // Some managed servers and access lists do not allow it, and the connection serves without a
            // name.
            Ok(Err(error)) => tracing::debug!(%error, "a connection to Redis has no name"),
            Err(_elapsed) => return Err(QueryError::Timeout(CONNECT_TIMEOUT)),
        }
    }
    Ok(connection)
}

/// What a server refuses while a connection is made, such as one that is busy with a script, is no answer to
/// a query: kept as one, it would be what every later query gets.
fn not_made(error: QueryError) -> QueryError {
    match error {
        refused @ QueryError::Refused { .. } => QueryError::Disconnected(format!(
            "{refused}, asked for the database that REDIS_URL names or for its role"
        )),
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join;
    use test_servers::Task;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::sleep;

    use super::*;
    use crate::redis::circuit_breaker::RESET_TIMEOUT;

    const LIMIT: Duration = Duration::from_millis(500);

    const CHOSEN: &str = "+OK\r\n";

    /// Answers the choice of a database with `chosen`, then what a client says of itself, and a `PING` unless
    /// it `is_silent`.
    async fn answer(mut client: TcpStream, chosen: &str, is_silent: bool) {
        let mut asked = vec![0; 1 << 12];
        while let Ok(length @ 1..) = client.read(&mut asked).await {
            let count =
                |word: &[u8]| asked[..length].windows(word.len()).filter(|part| *part == word).count();
            let pings = if is_silent { 0 } else { count(b"PING\r\n") };
            let answers = chosen.repeat(count(b"SELECT\r\n"))
                + &"+OK\r\n".repeat(count(b"CLIENT\r\n"))
                + &"+PONG\r\n".repeat(pings);
            if client.write_all(answers.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// A server whose database 1 is chosen, and that answers on its first connection in a way of its own.
    async fn serve(first: (&'static str, bool)) -> (Server, Task<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::open(format!("redis://{}/1", listener.local_addr().unwrap())).unwrap();
        let serving = Task::begin(async move {
            let mut serving = Vec::new();
            while let Ok((client, _)) = listener.accept().await {
                let (chosen, is_silent) = if serving.is_empty() { first } else { (CHOSEN, false) };
                serving.push(Task::begin(answer(client, chosen, is_silent)));
            }
        });
        (Server::new(Way::To(Box::new(client)), LIMIT, CircuitBreaker::default()), serving)
    }

    /// A network that has forgotten a connection, and lets others through.
    #[tokio::test]
    async fn those_who_waited_on_a_silent_connection_keep_nobody_from_the_next_one() {
        let (server, _serving) = serve((CHOSEN, true)).await;
        let ask = || server.query(Manner::Repeatable(Duration::ZERO), ping);
        let later = async {
            sleep(LIMIT / 2).await;
            ask().await
        };
        let timed_out = Err(QueryError::Timeout(LIMIT));
        assert_eq!(join(ask(), later).await, (timed_out.clone(), timed_out));
        // By now the first failure is that long ago, and the later one is not.
        sleep(RESET_TIMEOUT - LIMIT / 4).await;
        assert_eq!(ask().await, Ok(()));
    }

    /// Whoever is busy with a script of somebody's refuses even the choice of a database, and is back soon.
    #[tokio::test]
    async fn what_was_refused_while_a_connection_was_made_is_not_what_later_queries_get() {
        let (server, _serving) = serve(("-BUSY a script runs\r\n", false)).await;
        let refused = server.ping().await.unwrap_err();
        assert!(refused.means_down() && refused.to_string().contains("database"), "{refused}");
        assert_eq!(server.ping().await, Ok(()));
    }
}
