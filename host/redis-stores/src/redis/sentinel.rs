//! Redis behind Sentinel: each new connection leads to the master that the sentinels name at that moment.
//!
//! All sentinels are asked at once. As soon as most of them name one server it is connected to; while they
//! disagree, as they do for a moment during a failover, those are tried first that more of them name. Whoever
//! is connected to has to say by itself that it is a master (`ROLE`): the sentinels may name one that has
//! just been demoted.
//!
//! A connection ends, and the sentinels are asked again, when it breaks, when an answer takes too long, when
//! the server answers `READONLY`: then it was demoted under us, and when it answers `NOREPLICAS`: then it may
//! be cut off from those who have promoted another one.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, ConnectionInfo, RedisResult, Value};

use super::QueryError;
use super::address::{Host, SentinelAddress, at_host, without_database, without_login};
use super::open::{ask_all, open};

/// How long the sentinels have for their answers, all together.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(500);

/// How long connecting to a master may take that they name. Short enough to try a second one.
const MASTER_TIMEOUT: Duration = Duration::from_millis(1000);

/// What a sentinel says: where the master is, or that it knows none of that name.
type Vote = Option<Host>;

pub(super) struct Sentinels(SentinelAddress);

impl Sentinels {
    pub(super) fn new(address: SentinelAddress) -> Self {
        Self(address)
    }

    /// A new connection to the master.
    pub(super) async fn connect(&self) -> Result<MultiplexedConnection, QueryError> {
        let majority = self.0.sentinels.len() / 2 + 1;
        let is_agreed = |votes: &[Vote]| count(votes).first().is_some_and(|(_, number)| *number >= majority);
        let asked: Vec<_> = self.0.sentinels.iter().map(|sentinel| self.ask(sentinel)).collect();
        let (votes, failure) = ask_all(asked, SENTINEL_TIMEOUT, is_agreed).await;
        let mut error = why_there_is_no_master(&votes, failure);
        for (master, _) in count(&votes) {
            match self.connect_to(&master).await {
                Ok(connection) => return Ok(connection),
                Err(refused) => error = refused,
            }
        }
        Err(error)
    }

    /// The way to a replica, as its master names it.
    pub(super) fn info_at(&self, host: &Host) -> Option<ConnectionInfo> {
        self.0.sentinels.first().map(|info| at_host(info, host))
    }

    /// Asks a sentinel. Most of them want no password; one that does is shown the master's.
    async fn ask(&self, sentinel: &ConnectionInfo) -> Result<Vote, QueryError> {
        match self.ask_as(without_login(sentinel)).await {
            Err(QueryError::Refused { code, .. }) if code == "NOAUTH" => {
                self.ask_as(without_database(sentinel)).await
            }
            answer => answer,
        }
    }

    async fn ask_as(&self, sentinel: ConnectionInfo) -> Result<Vote, QueryError> {
        let mut connection = open(&client(sentinel)?, SENTINEL_TIMEOUT).await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.0.name);
        let answer: RedisResult<Option<(String, u16)>> = ask.query_async(&mut connection).await;
        Ok(answer.map_err(QueryError::from)?.map(|(name, port)| Host { name, port }))
    }

    async fn connect_to(&self, master: &Host) -> Result<MultiplexedConnection, QueryError> {
        let info = self.info_at(master).ok_or_else(|| gone("no sentinel is named"))?;
        let mut connection = open(&client(info)?, MASTER_TIMEOUT).await?;
        let ask = redis::cmd("ROLE");
        let asked = tokio::time::timeout(MASTER_TIMEOUT, ask.query_async::<Value>(&mut connection)).await;
        let role = asked.map_err(|_elapsed| QueryError::Timeout(MASTER_TIMEOUT))?.map_err(QueryError::from);
        match role {
            Ok(role) if is_master(&role) => Ok(connection),
            Ok(_) => Err(gone("the server that the sentinels name as the master is none")),
            Err(QueryError::Refused { code, .. }) if code == "NOPERM" => {
                Err(gone("the master must tell its role: allow the command ROLE"))
            }
            Err(error) => Err(error),
        }
    }
}

fn client(info: ConnectionInfo) -> Result<Client, QueryError> {
    Client::open(info).map_err(QueryError::from)
}

fn gone(what: &str) -> QueryError {
    QueryError::Disconnected(what.into())
}

/// The servers that are named, those first that are named more often.
fn count(votes: &[Vote]) -> Vec<(Host, usize)> {
    let mut counted: Vec<(Host, usize)> = Vec::new();
    for host in votes.iter().flatten() {
        match counted.iter_mut().find(|(known, _)| known == host) {
            Some((_, number)) => *number += 1,
            None => counted.push((host.clone(), 1)),
        }
    }
    counted.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    counted
}

fn why_there_is_no_master(votes: &[Vote], failure: Option<QueryError>) -> QueryError {
    match failure {
        _ if !votes.is_empty() => gone("no sentinel knows a master of the name that REDIS_URL gives"),
        Some(QueryError::Disconnected(why)) => gone(&format!("none of the sentinels answers: {why}")),
        Some(QueryError::Refused { code, .. }) if code == "ERR" => {
            gone("what REDIS_URL names are no sentinels: redis:// names a server itself")
        }
        Some(QueryError::Refused { code, .. }) => gone(&format!("the sentinels refuse to answer ({code})")),
        Some(_) | None => gone("none of the sentinels answers in time"),
    }
}

fn is_master(role: &Value) -> bool {
    matches!(role, Value::Array(words) if matches!(words.first(), Some(Value::BulkString(word)) if word == b"master"))
}

/// The replicas of a master, by its answer to `ROLE`.
pub(super) fn replicas(role: &Value) -> Vec<Host> {
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    };
    let host = |replica: &Value| {
        let Value::Array(words) = replica else { return None };
        Some(Host { name: text(words.first()?)?, port: text(words.get(1)?)?.parse().ok()? })
    };
    match role {
        Value::Array(words) => match words.get(2) {
            Some(Value::Array(replicas)) if is_master(role) => replicas.iter().filter_map(host).collect(),
            _ => vec![],
        },
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Host {
        Host { name: name.into(), port: 6379 }
    }

    fn word(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn what_most_sentinels_name_is_tried_first() {
        let votes = [Some(host("old")), Some(host("new")), None, Some(host("new"))];
        assert_eq!(count(&votes), [(host("new"), 2), (host("old"), 1)]);
    }

    #[test]
    fn it_is_said_once_why_there_is_no_master() {
        let refused = QueryError::Disconnected("connection refused".into());
        let unknown = QueryError::Refused { code: "ERR".into(), is_final: false };
        for (votes, failure, expected) in [
            (&[][..], Some(refused.clone()), "none of the sentinels answers: connection refused"),
            (&[], Some(QueryError::Timeout(SENTINEL_TIMEOUT)), "none of the sentinels answers in time"),
            (&[None], Some(refused), "no sentinel knows a master of the name"),
            (&[], Some(unknown), "no sentinels: redis:// names a server"),
        ] {
            let error = why_there_is_no_master(votes, failure);
            assert!(error.means_down() && error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn a_role_is_read_as_redis_writes_it() {
        let replica = Value::Array(vec![word("h2"), word("6379"), word("14")]);
        let master = Value::Array(vec![word("master"), Value::Int(14), Value::Array(vec![replica])]);
        assert!(is_master(&master));
        assert_eq!(replicas(&master), [host("h2")]);
        let words = [word("slave"), word("h1"), Value::Int(6379), word("connected"), Value::Int(14)];
        let replica = Value::Array(words.into());
        assert!(!is_master(&replica) && replicas(&replica).is_empty());
        assert!(!is_master(&Value::Nil));
    }
}
