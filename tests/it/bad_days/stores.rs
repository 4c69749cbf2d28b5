//! Where jobs, runs and what replicas share are kept, in each combination that is supported.

use acceptance::{Builder, Model, Postgres, Redis, Service};
use tempfile::TempDir;
use test_servers::Mongo;

/// The stores of a deployment. They outlive its processes.
pub(crate) struct Stores {
    redis: Option<Redis>,
    postgres: Option<Postgres>,
    mongo: Option<Mongo>,
    folder: TempDir,
}

impl Stores {
    /// Everything in one SQLite file.
    pub(crate) fn embedded() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the database");
        Self { redis: None, postgres: None, mongo: None, folder }
    }

    /// Jobs on Redis, runs in a SQLite file.
    pub(crate) async fn redis() -> Self {
        Self { redis: Some(Redis::start().await), ..Self::embedded() }
    }

    /// One of each kind of queue.
    pub(crate) async fn of_each_queue() -> [Self; 2] {
        [Self::embedded(), Self::redis().await]
    }

    /// Jobs and runs in PostgreSQL.
    pub(crate) async fn postgres() -> Self {
        Self { postgres: Some(Postgres::start().await), ..Self::embedded() }
    }

    /// Jobs on Redis, runs in PostgreSQL.
    pub(crate) async fn redis_and_postgres() -> Self {
        let (redis, postgres) = tokio::join!(Redis::start(), Postgres::start());
        Self { redis: Some(redis), postgres: Some(postgres), ..Self::embedded() }
    }

    /// Jobs on Redis, runs in a document store.
    pub(crate) async fn redis_and_mongo() -> Self {
        let (redis, mongo) = tokio::join!(Redis::start(), Mongo::start());
        Self { redis: Some(redis), mongo: Some(mongo), ..Self::embedded() }
    }

    /// Jobs in PostgreSQL, runs in a document store.
    pub(crate) async fn postgres_and_mongo() -> Self {
        let (postgres, mongo) = tokio::join!(Postgres::start(), Mongo::start());
        Self { postgres: Some(postgres), mongo: Some(mongo), ..Self::embedded() }
    }

    /// The Redis there is.
    pub(crate) fn redis_server(&mut self) -> &mut Redis {
        self.redis.as_mut().expect("these stores have a Redis")
    }

    /// The PostgreSQL there is.
    pub(crate) fn postgres_server(&mut self) -> &mut Postgres {
        self.postgres.as_mut().expect("these stores have a PostgreSQL")
    }

    /// The document store there is.
    pub(crate) fn mongo_server(&mut self) -> &mut Mongo {
        self.mongo.as_mut().expect("these stores have a document store")
    }

    /// Whether the SQLite file, or the log before it, holds that text: whether it was committed.
    pub(crate) fn sqlite_holds(&self, text: &str) -> bool {
        let holds = |name: &str| {
            let content = std::fs::read(self.folder.path().join(name)).unwrap_or_default();
            content.windows(text.len()).any(|part| part == text.as_bytes())
        };
        holds("agent.db") || holds("agent.db-wal")
    }

    /// A service on these stores, behind one proxy, so that callers may be of many addresses.
    pub(crate) fn service(&self, model: &Model) -> Builder {
        let mut builder =
            Service::variant_b().model(model).sqlite_in(self.folder.path()).env("TRUST_PROXY", "1");
        if let Some(redis) = &self.redis {
            builder = builder.redis(redis);
        }
        if let Some(postgres) = &self.postgres {
            builder = builder.postgres(postgres);
        }
        if let Some(mongo) = &self.mongo {
            builder = builder.env("MONGODB_URL", mongo.url());
        }
        builder
    }
}
