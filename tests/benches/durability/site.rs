//! What an engine is given: a folder on the disk, ports that stay the same over a restart, the provider, and
//! servers for its stores.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use tempfile::TempDir;
use test_servers::{Postgres, Redis};
use tokio::runtime::Runtime;

use crate::deployments;
use crate::processes::tree;

/// Which servers an engine keeps its runs in.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stores {
    pub(crate) postgres: bool,
    pub(crate) redis: Option<AppendOnly>,
}

/// When Redis flushes its append-only file.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum AppendOnly {
    /// Once a second: what is usual where Redis has such a file at all.
    EverySecond,
    /// Before the client has its answer.
    Always,
}

pub(crate) struct Site {
    pub(crate) provider: SocketAddr,
    /// Free when the site was prepared.
    pub(crate) ports: [u16; 5],
    home: TempDir,
    postgres: Option<Postgres>,
    redis: Option<Redis>,
}

impl Site {
    pub(crate) fn prepare(runtime: &Runtime, provider: SocketAddr, stores: Stores) -> Self {
        // Tests do without the flushes.
        let postgres = stores.postgres.then(|| runtime.block_on(Postgres::start_with(&["fsync=on"])));
        let redis = stores.redis.map(|append_only| match append_only {
            AppendOnly::EverySecond => deployments::start_redis(runtime),
            AppendOnly::Always => runtime.block_on(Redis::start()),
        });
        // Held together, so that they differ.
        let listeners = [(); 5].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let ports = listeners.map(|listener| listener.local_addr().unwrap().port());
        Self { provider, ports, home: tempfile::tempdir().unwrap(), postgres, redis }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// An address of its own.
    pub(crate) fn address(&self, index: usize) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports[index]).into()
    }

    pub(crate) fn postgres_url(&self) -> String {
        self.postgres.as_ref().expect("a PostgreSQL server").url()
    }

    pub(crate) fn redis_url(&self) -> Option<String> {
        self.redis.as_ref().map(Redis::url)
    }

    /// The processes of the stores' servers.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let postgres = self.postgres.as_ref().and_then(|server| server.process());
        let redis = self.redis.as_ref().and_then(|server| server.process());
        postgres.into_iter().chain(redis).flat_map(tree).collect()
    }
}
