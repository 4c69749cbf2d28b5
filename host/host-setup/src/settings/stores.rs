//! Where things are kept.

use agent_core::secret::Secret;
use url::Url;

use super::number;
use super::problem::Problems;
use super::process_env::EnvVars;
use super::reader::{self, Reader, Reported};
use super::setting::{Need, number, one_of, settings, url};

/// More shards than a queue of agent runs keeps busy.
const MOST_SHARDS: u64 = 64;

/// What `QUEUE_SHARDS` may be where its jobs lie on one Redis.
const ONE_SHARD: &str = "1, unless REDIS_URL names a cluster (redis+cluster://…)";

settings! {
    /// The relational database. A SQLite file is created if it is not there.
    DATABASE_URL = url(&["postgres", "postgresql", "sqlite"]).needed(Need::VariantB);
    /// PostgreSQL's own address, where DATABASE_URL names a pooler before it, such as PgBouncer in
    /// transaction mode: tables are made there, and jobs that other processes add are listened for.
    DATABASE_DIRECT_URL = url(&["postgres", "postgresql"]).or_derived("DATABASE_URL");
    /// The key-value store: one Redis, the master that sentinels know
    /// (redis+sentinel://h1:26379,h2:26379/name), or a cluster (redis+cluster://h1:6379,h2:6379). memory://
    /// keeps cache and rate windows in the process.
    REDIS_URL =
        url(&["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster", "memory"])
            .needed(Need::VariantB);
    /// Shards of the queue of jobs in a cluster, each in one of its hash slots. To change it, let the queue
    /// run empty first: ids of jobs name their shard.
    QUEUE_SHARDS = number(1, MOST_SHARDS).or_number(|| 1);
    /// Whether Node workers may work on the queue in Redis. They read a job's query alone, so that jobs with
    /// options, and responses in the background, are refused unless it is off.
    NODE_WORKERS = one_of(&["on", "off"]).or("on");
    /// The document store: when set, run records and journals go there instead of the relational database.
    /// The servers are named one by one: mongodb+srv:// addresses are not looked up.
    MONGODB_URL = url(&["mongodb"]);
}

/// Where things are kept. The addresses are whole, as they were set.
#[derive(Debug, Clone)]
pub struct Stores {
    /// `DATABASE_URL`.
    pub database: Option<Database>,
    /// `DATABASE_DIRECT_URL`: PostgreSQL's own address, if `database` names a pooler.
    pub database_direct: Option<Secret>,
    /// `REDIS_URL`.
    pub key_value: Option<KeyValue>,
    /// `MONGODB_URL`: takes run records and journals over from the relational database.
    pub mongodb: Option<Secret>,
}

/// A relational database.
#[derive(Debug, Clone)]
pub enum Database {
    /// `postgres://…` or `postgresql://…`.
    Postgres(Secret),
    /// `sqlite://path`.
    Sqlite(Secret),
}

/// A key-value store.
#[derive(Debug, Clone)]
pub enum KeyValue {
    /// `redis://…` and its like.
    Redis(RedisAddress),
    /// `memory://`: in the process.
    Memory,
}

/// Where Redis is, and how the queue lies in it.
#[derive(Debug, Clone)]
pub struct RedisAddress {
    url: Secret,
    /// `QUEUE_SHARDS`.
    pub queue_shards: usize,
    /// `NODE_WORKERS`.
    pub node_workers: bool,
}

impl Stores {
    /// Reads nothing but these settings, for commands that work on what is kept.
    pub fn from_vars(vars: &impl EnvVars) -> Result<Self, Problems> {
        reader::collect(vars, SETTINGS, Self::read)
    }

    /// Reads these settings among others.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let database = reader.optional(&DATABASE_URL, Database::parse);
        let database_direct = reader.optional(&DATABASE_DIRECT_URL, parse_postgres);
        let key_value = reader.optional(&REDIS_URL, KeyValue::parse);
        let shards = match &key_value {
            Ok(Some(KeyValue::Redis(address))) if !address.is_cluster() => {
                reader.narrowed(&QUEUE_SHARDS, ONE_SHARD, |text| {
                    number::whole(text).filter(|shards| *shards == 1)
                })
            }
            _ => reader.number(&QUEUE_SHARDS),
        };
        let node_workers = reader.switch(&NODE_WORKERS);
        let mongodb = reader.optional(&MONGODB_URL, parse_mongodb);
        let (key_value, shards, node_workers) = (key_value?, shards?, node_workers?);
        if shards > 1 && !matches!(key_value, Some(KeyValue::Redis(_))) {
            reader.warn("QUEUE_SHARDS is set and has no effect: REDIS_URL does not name a cluster; unset one or set the other");
        }
        if !node_workers && !matches!(key_value, Some(KeyValue::Redis(_))) {
            reader.warn("NODE_WORKERS is off and has no effect: the queue is not in Redis; unset it or name a Redis in REDIS_URL");
        }
        let key_value = key_value.map(|key_value| key_value.with_queue(shards, node_workers));
        let (database, database_direct) = (database?, database_direct?);
        if database_direct.is_some() && !matches!(database, Some(Database::Postgres(_))) {
            reader.warn(
                "DATABASE_DIRECT_URL is set and has no effect: DATABASE_URL does not name PostgreSQL; unset one or set \
                 the other",
            );
        }
        Ok(Self { database, database_direct, key_value, mongodb: mongodb? })
    }
}

impl Database {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix("sqlite://") {
            // Not read as a URL: a path may hold what a host name may not.
            let named = !path.is_empty() && !path.starts_with('?') && !path.contains(char::is_control);
            return named.then(|| Self::Sqlite(Secret::new(text)));
        }
        parse_postgres(text).map(Self::Postgres)
    }
}

fn parse_postgres(text: &str) -> Option<Secret> {
    let text = text.trim();
    let url = Url::parse(text).ok()?;
    // The host may be absent: then the address names a Unix socket in its query.
    let usable = matches!(url.scheme(), "postgres" | "postgresql") && text.contains("://");
    usable.then(|| Secret::new(text))
}

impl KeyValue {
    /// Reads nothing but `REDIS_URL`, for the command that works on the cache.
    pub fn from_vars(vars: &impl EnvVars) -> Result<Self, Problems> {
        reader::collect(vars, SETTINGS, |reader| reader.needed(&REDIS_URL, Self::parse))
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "memory://" {
            return Some(Self::Memory);
        }
        let usable = match &*text.split_once("://")?.0.to_ascii_lowercase() {
            "redis" | "rediss" => Url::parse(text).is_ok_and(|url| url.has_host()),
            "redis+sentinel" | "rediss+sentinel" => names_hosts(text, |path| !path.is_empty()),
            "redis+cluster" | "rediss+cluster" => names_hosts(text, str::is_empty),
            _ => false,
        };
        usable.then(|| {
            Self::Redis(RedisAddress { url: Secret::new(text), queue_shards: 1, node_workers: true })
        })
    }

    fn with_queue(self, shards: u64, node_workers: bool) -> Self {
        match self {
            Self::Redis(address) => {
                let queue_shards = usize::try_from(shards).unwrap_or(1);
                Self::Redis(RedisAddress { queue_shards, node_workers, ..address })
            }
            Self::Memory => Self::Memory,
        }
    }
}

impl RedisAddress {
    /// The whole address.
    pub fn expose(&self) -> &str {
        self.url.expose()
    }

    fn is_cluster(&self) -> bool {
        self.expose().split_once("://").is_some_and(|(scheme, _)| scheme.ends_with("+cluster"))
    }
}

/// Not read as a URL: it lists several hosts with their ports, which no URL may.
fn names_hosts(text: &str, is_path: impl Fn(&str) -> bool) -> bool {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    let is_host = |host: &str| !host.is_empty() && !host.starts_with(':');
    is_path(path)
        && hosts.split(',').all(is_host)
        && !text.contains(|letter: char| letter.is_whitespace() || letter.is_control())
}

/// Not read as a URL: an address of a replica set lists several hosts with their ports, which no URL may.
fn parse_mongodb(text: &str) -> Option<Secret> {
    let text = text.trim();
    let hosts = text.strip_prefix("mongodb://")?;
    let usable = !hosts.is_empty()
        && !hosts.starts_with('/')
        && !hosts.contains(|c: char| c.is_whitespace() || c.is_control());
    usable.then(|| Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_told_apart_by_scheme() {
        let kind = |text: &str| match Database::parse(text) {
            Some(Database::Postgres(url)) if url.expose() == text => "postgres",
            Some(Database::Sqlite(url)) if url.expose() == text => "sqlite",
            Some(_) => "changed",
            None => "none",
        };
        for (text, expected) in [
            ("postgres://u:p@host:5432/db", "postgres"),
            ("postgresql://host/db?sslmode=require", "postgres"),
            ("postgres:///db?host=/run/postgresql", "postgres"),
            ("sqlite://agent.db", "sqlite"),
            ("sqlite:///var/lib/agent host/a.db?mode=rwc", "sqlite"),
            ("sqlite://", "none"),
            ("sqlite://?mode=memory", "none"),
            ("sqlite:agent.db", "none"),
            ("postgres:host", "none"),
            ("postgres://u:p@ss:word@host:x/db", "none"),
            ("mysql://host/db", "none"),
            ("host:5432/db", "none"),
            ("db", "none"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn key_value_stores_are_told_apart_by_scheme() {
        let kind = |text: &str| match KeyValue::parse(text) {
            Some(KeyValue::Redis(url)) if url.expose() == text => "redis",
            Some(KeyValue::Redis(_)) => "changed",
            Some(KeyValue::Memory) => "memory",
            None => "none",
        };
        for (text, expected) in [
            ("redis://127.0.0.1:6379/0", "redis"),
            ("rediss://:p@host", "redis"),
            ("redis+sentinel://u:p@h1:26379,h2:26379/main", "redis"),
            ("redis+sentinel://h1,h2/main/3", "redis"),
            ("redis+sentinel://h1:26379", "none"),
            ("redis+sentinel://h1,,h2/main", "none"),
            ("redis+sentinel:///main", "none"),
            ("redis+cluster://h1:6379,h2:6379", "redis"),
            ("rediss+cluster://:p@h1", "redis"),
            ("redis+cluster://h1:6379/1", "none"),
            ("redis+cluster://h 1", "none"),
            ("redis+other://h1", "none"),
            ("memory://", "memory"),
            ("memory://x", "none"),
            ("memory:", "none"),
            ("redis://", "none"),
            ("redis:6379", "none"),
            ("http://host", "none"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn replica_sets_are_mongodb_addresses() {
        for (text, usable) in [
            ("mongodb://u:p@h1:27017,h2:27017/db?replicaSet=r", true),
            ("mongodb+srv://cluster.example.net/db", false),
            ("mongodb://", false),
            ("mongodb:///db", false),
            ("mongodb://h 1", false),
            ("redis://h", false),
        ] {
            assert_eq!(parse_mongodb(text).is_some(), usable, "{text}");
        }
    }
}
