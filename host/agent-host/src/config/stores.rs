//! Where things are kept.

use agent_core::secret::Secret;
use url::Url;

use super::problem::Problems;
use super::process_env::EnvVars;
use super::reader::{self, Reader, Reported};
use super::setting::{Need, settings, url};

settings! {
    /// The relational database. A SQLite file is created if it is not there.
    DATABASE_URL = url(&["postgres", "postgresql", "sqlite"]).needed(Need::VariantB);
    /// PostgreSQL's own address, where DATABASE_URL names a pooler before it, such as PgBouncer in transaction mode: tables
    /// are made there, and jobs that other processes add are listened for.
    DATABASE_DIRECT_URL = url(&["postgres", "postgresql"]).or_derived("DATABASE_URL");
    /// The key-value store. memory:// keeps cache and rate windows in the process.
    REDIS_URL = url(&["redis", "rediss", "memory"]).needed(Need::VariantB);
    /// The document store: when set, run records and journals go there instead of the relational database. The
    /// servers are named one by one: mongodb+srv:// addresses are not looked up.
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
    /// `redis://…` or `rediss://…`.
    Redis(Secret),
    /// `memory://`: in the process.
    Memory,
}

impl Stores {
    /// Reads nothing but these settings, for commands that work on what is kept.
    pub fn from_vars(vars: &impl EnvVars) -> Result<Self, Problems> {
        reader::collect(vars, SETTINGS, Self::read)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let database = reader.optional(&DATABASE_URL, Database::parse);
        let database_direct = reader.optional(&DATABASE_DIRECT_URL, parse_postgres);
        let key_value = reader.optional(&REDIS_URL, KeyValue::parse);
        let mongodb = reader.optional(&MONGODB_URL, parse_mongodb);
        let (database, database_direct) = (database?, database_direct?);
        if database_direct.is_some() && !matches!(database, Some(Database::Postgres(_))) {
            reader.warn(
                "DATABASE_DIRECT_URL is set and has no effect: DATABASE_URL does not name PostgreSQL; unset one or set \
                 the other",
            );
        }
        Ok(Self { database, database_direct, key_value: key_value?, mongodb: mongodb? })
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
        let url = Url::parse(text).ok()?;
        let usable = matches!(url.scheme(), "redis" | "rediss") && url.has_host();
        usable.then(|| Self::Redis(Secret::new(text)))
    }
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
