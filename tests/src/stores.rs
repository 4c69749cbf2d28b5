//! Where jobs, runs and what replicas share are kept, in each combination that is supported.

use std::path::PathBuf;

use tempfile::TempDir;
use test_servers::{Mongo, Postgres, Redis};

use crate::model::Model;
use crate::service::{Builder, Service};

/// The stores of a deployment. They outlive its processes.
pub struct Stores {
    /// Jobs, and what replicas share.
    pub redis: Option<Redis>,
    /// Records and journals, and jobs where there is no Redis.
    pub postgres: Option<Postgres>,
    /// Records and journals beside either.
    pub mongo: Option<Mongo>,
    folder: TempDir,
}

impl Stores {
    /// Everything in one SQLite file.
    pub fn embedded() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the database");
        Self { redis: None, postgres: None, mongo: None, folder }
    }

    /// Jobs on Redis, runs in a SQLite file.
    pub async fn redis() -> Self {
        Self { redis: Some(Redis::start().await), ..Self::embedded() }
    }

    /// One of each kind of queue.
    pub async fn of_each_queue() -> [Self; 2] {
        [Self::embedded(), Self::redis().await]
    }

    /// Jobs and runs in PostgreSQL.
    pub async fn postgres() -> Self {
        Self { postgres: Some(Postgres::start().await), ..Self::embedded() }
    }

    /// Jobs on Redis, runs in PostgreSQL.
    pub async fn redis_and_postgres() -> Self {
        let (redis, postgres) = tokio::join!(Redis::start(), Postgres::start());
        Self { redis: Some(redis), postgres: Some(postgres), ..Self::embedded() }
    }

    /// Jobs on Redis, runs in a document store.
    pub async fn redis_and_mongo() -> Self {
        let (redis, mongo) = tokio::join!(Redis::start(), Mongo::start());
        Self { redis: Some(redis), mongo: Some(mongo), ..Self::embedded() }
    }

    /// Jobs in PostgreSQL, runs in a document store.
    pub async fn postgres_and_mongo() -> Self {
        let (postgres, mongo) = tokio::join!(Postgres::start(), Mongo::start());
        Self { postgres: Some(postgres), mongo: Some(mongo), ..Self::embedded() }
    }

    /// The Redis there is.
    pub fn redis_server(&mut self) -> &mut Redis {
        self.redis.as_mut().expect("these stores have a Redis")
    }

    /// The PostgreSQL there is.
    pub fn postgres_server(&mut self) -> &mut Postgres {
        self.postgres.as_mut().expect("these stores have a PostgreSQL")
    }

    /// The document store there is.
    pub fn mongo_server(&mut self) -> &mut Mongo {
        self.mongo.as_mut().expect("these stores have a document store")
    }

    /// The file that runs are kept in where no server has them.
    pub fn sqlite_file(&self) -> PathBuf {
        self.folder.path().join("agent.db")
    }

    /// A service on these stores that asks this model, behind one proxy, so that callers may be of many
    /// addresses.
    pub fn service(&self, model: &Model) -> Builder {
        self.service_without_model().model(model).env("TRUST_PROXY", "1")
    }

    /// A service on these stores.
    pub fn service_without_model(&self) -> Builder {
        let mut builder = Service::variant_b().sqlite_in(self.folder.path());
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
