//! The connection: made when it is first needed, shared by everybody, thrown away when it fails.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};
use tokio::time::{Instant, timeout};

use super::Failure;
use super::gate::Gate;

/// How long connecting may take. It is what the interface grants the database (Limits, "Database pool").
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an answer may take. Whoever asks serves a request and can do without: results are computed
/// again, hits are counted in the process.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// A Redis server. Clones share one connection.
///
/// It is not the `ConnectionManager` of the crate `redis`: that one keeps a connection whose answers do not
/// come, and needs a failed call to notice that a restarted server is back.
#[derive(Clone)]
pub struct Redis(Arc<Server>);

struct Server {
    client: Client,
    patience: Duration,
    link: Mutex<Link>,
    gate: Gate,
}

#[derive(Default)]
struct Link {
    /// Made by whoever waits for it, all of them together: one who stops in the middle holds up nobody.
    connecting: Option<Connecting>,
    /// Counts connections: a failure ends the one it happened on and not its successor.
    number: u64,
}

type Connecting = Shared<BoxFuture<'static, Result<MultiplexedConnection, Failure>>>;

/// How often to ask when a connection that was kept turns out to be dead.
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
        Self::with_patience(url, ANSWER_TIMEOUT)
    }

    fn with_patience(url: &str, patience: Duration) -> Result<Self, AddressError> {
        let client = Client::open(url).map_err(|_quotes_it| AddressError)?;
        Ok(Self(Arc::new(Server { client, patience, link: Mutex::default(), gate: Gate::default() })))
    }

    /// Another connection to the same server, with another limit for an answer. A probe that finds the server there
    /// opens both.
    pub(crate) fn another(&self, patience: Duration) -> Self {
        let (client, gate) = (self.0.client.clone(), self.0.gate.sibling());
        Self(Arc::new(Server { client, patience, link: Mutex::default(), gate }))
    }

    /// Asks, unless Redis did not answer a moment ago. A question that found a connection dead is asked once
    /// more on a new one, so it has to bear being asked twice: see [`Self::ask_once`].
    pub(crate) async fn ask<T, F>(
        &self,
        question: impl Fn(MultiplexedConnection) -> F + Send,
    ) -> Result<T, Failure>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        self.ask_and_wait(Duration::ZERO, question).await
    }

    /// Asks what Redis may take `wait` longer to answer.
    pub(crate) async fn ask_and_wait<T, F>(
        &self,
        wait: Duration,
        question: impl Fn(MultiplexedConnection) -> F + Send,
    ) -> Result<T, Failure>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        let patience = self.0.patience + wait;
        if !self.0.gate.lets_through(Instant::now(), CONNECT_TIMEOUT + patience) {
            return Err(Failure::Down);
        }
        self.ask_anyway(patience, Tries::Two, question).await
    }

    /// Asks what must not be done twice. Whether the connection is alive is found out before.
    pub(crate) async fn ask_once<T, F>(
        &self,
        question: impl Fn(MultiplexedConnection) -> F + Send,
    ) -> Result<T, Failure>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        self.ask(ping).await?;
        self.ask_anyway(self.0.patience, Tries::One, question).await
    }

    /// Asks for a sign of life, without a look at how it went the last time. Whoever holds a connection to this
    /// server may ask again once there was one.
    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        self.ask_anyway(self.0.patience, Tries::Two, ping).await?;
        self.0.gate.open_all(Instant::now());
        Ok(())
    }

    /// Lets go of the connection; the next question makes a new one.
    pub(crate) fn disconnect(&self) {
        self.link().connecting = None;
    }

    async fn ask_anyway<T, F>(
        &self,
        patience: Duration,
        tries: Tries,
        question: impl Fn(MultiplexedConnection) -> F + Send,
    ) -> Result<T, Failure>
    where
        F: Future<Output = RedisResult<T>> + Send,
        T: Send,
    {
        let mut is_last = tries == Tries::One;
        loop {
            let (connecting, number, is_new) = self.connect();
            let answer = match connecting.await {
                Ok(connection) => match timeout(patience, question(connection)).await {
                    Ok(answer) => answer.map_err(Failure::from),
                    Err(_elapsed) => Err(Failure::Late(patience)),
                },
                Err(failure) => Err(failure),
            };
            match answer {
                // One that was kept may have died, long ago and unnoticed. That says nothing about the server: the
                // next connection will.
                Err(failure @ Failure::Broken(_)) if !is_new => {
                    self.drop_link(number);
                    if is_last {
                        self.0.gate.open();
                        return Err(failure);
                    }
                    is_last = true;
                }
                Err(failure) if failure.means_down() => {
                    self.0.gate.close(Instant::now());
                    self.drop_link(number);
                    return Err(failure);
                }
                answered => {
                    self.0.gate.open();
                    return answered;
                }
            }
        }
    }

    /// The connection with its number, and whether it is being made just now.
    fn connect(&self) -> (Connecting, u64, bool) {
        let mut link = self.link();
        if let Some(connecting) = &link.connecting {
            return (connecting.clone(), link.number, connecting.peek().is_none());
        }
        let connecting = connect(self.0.client.clone()).boxed().shared();
        link.number += 1;
        link.connecting = Some(connecting.clone());
        (connecting, link.number, true)
    }

    fn drop_link(&self, number: u64) {
        let mut link = self.link();
        if link.number == number {
            link.connecting = None;
        }
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.0.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ping(mut redis: MultiplexedConnection) -> RedisResult<()> {
    redis::cmd("PING").query_async(&mut redis).await
}

async fn connect(client: Client) -> Result<MultiplexedConnection, Failure> {
    // How long anything may take is said here and by whoever asks.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(connected) => connected.map_err(Failure::from),
        Err(_elapsed) => Err(Failure::Late(CONNECT_TIMEOUT)),
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
