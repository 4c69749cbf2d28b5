//! From a host's name to addresses that may be connected to.
//!
//! Every address is checked after it was resolved, and only checked ones leave this file; `connect` resolves nothing
//! again. Addresses in a URL bypass the resolver and are checked the same.
//!
//! `getaddrinfo` cannot be cancelled. A lookup holds its [`LookupSlot`] until its thread has really ended: one that
//! hangs costs a slot of its grant, and never all of them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::address_check::{self, AllowedAddr, Reach};
use super::error::EgressError;
use super::target::{Host, Target};
use super::task::IoRuntime;

/// Most addresses of a name that are looked at.
const MAX_ADDRESSES: usize = 16;

/// Resolves names.
pub(crate) trait Resolve: fmt::Debug + Send + Sync {
    /// All addresses of a name. Keeps the slot until the work has ended, even if the future is dropped before.
    fn resolve(&self, host: String, slot: LookupSlot) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver.
#[derive(Debug)]
pub(crate) struct SystemResolver(IoRuntime);

/// The right to look one name up.
#[derive(Debug)]
pub(crate) struct LookupSlot {
    _of_grant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// How many lookups may be under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookupBounds {
    pub(crate) in_all: usize,
    pub(crate) per_grant: usize,
}

/// The resolver with its bounds.
#[derive(Debug)]
pub(super) struct Lookups {
    resolver: Arc<dyn Resolve>,
    bounds: LookupBounds,
    of_all: Arc<Semaphore>,
    /// Of the grants that look up names now.
    of_grants: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

impl SystemResolver {
    /// Looks up on the blocking threads of a runtime.
    pub(crate) fn new(runtime: Handle) -> Self {
        Self(IoRuntime::new(runtime))
    }
}

impl Resolve for SystemResolver {
    fn resolve(&self, host: String, slot: LookupSlot) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        // What `tokio::net::lookup_host` does, but the slot goes along.
        let work = move || {
            let found = (host.as_str(), 0).to_socket_addrs().map(|found| found.map(|socket| socket.ip()));
            let found = found.map(|found| found.take(MAX_ADDRESSES).collect());
            drop(slot);
            found
        };
        let lookup = self.0.spawn_blocking(work);
        Box::pin(async move { lookup.await.map_err(io::Error::other)? })
    }
}

impl Default for LookupBounds {
    fn default() -> Self {
        Self { in_all: 16, per_grant: 4 }
    }
}

impl Lookups {
    pub(super) fn new(resolver: Arc<dyn Resolve>, bounds: LookupBounds) -> Self {
        let of_all = Arc::new(Semaphore::new(bounds.in_all));
        Self { resolver, bounds, of_all, of_grants: Mutex::default() }
    }

    /// The addresses of the target that may be connected to.
    pub(super) async fn addresses(
        &self,
        target: &Target,
        grant: &Arc<str>,
        reach: Reach,
        within: Duration,
    ) -> Result<Vec<AllowedAddr>, EgressError> {
        let name = match &target.host {
            Host::Address(address, text) => return allowed(&[*address], text, target.port, reach),
            Host::Name(name) => name,
        };
        let failed = |error: io::Error| {
            let (host, problem) = (name.clone(), error.to_string());
            if is_temporary(&problem) {
                EgressError::Resolve { host, problem }
            } else {
                EgressError::NoSuchName { host, problem }
            }
        };
        let lookup = async {
            let slot = self.slot(grant).await.map_err(failed)?;
            self.resolver.resolve(name.clone(), slot).await.map_err(failed)
        };
        let mut found = match tokio::time::timeout(within, lookup).await {
            Ok(found) => found?,
            Err(_elapsed) => return Err(EgressError::ResolveTimeout { host: name.clone(), within }),
        };
        if found.is_empty() {
            return Err(failed(io::Error::other("the name has no address")));
        }
        found.truncate(MAX_ADDRESSES);
        allowed(&found, name, target.port, reach)
    }

    /// Waits for a slot: of the grant first, so that nobody waits for a grant whose lookups hang but itself.
    async fn slot(&self, grant: &Arc<str>) -> io::Result<LookupSlot> {
        let own = self.of_grant(grant);
        let of_grant = own.acquire_owned().await.map_err(io::Error::other)?;
        let of_all = self.of_all.clone().acquire_owned().await.map_err(io::Error::other)?;
        Ok(LookupSlot { _of_grant: of_grant, _of_all: of_all })
    }

    fn of_grant(&self, grant: &Arc<str>) -> Arc<Semaphore> {
        let mut known = self.of_grants.lock();
        // Permits and who waits for one hold the semaphore, too.
        known.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let new = || Arc::new(Semaphore::new(self.bounds.per_grant));
        known.entry(grant.clone()).or_insert_with(new).clone()
    }
}

/// Whether another try may resolve the name. The standard library has no kind for it; these are `EAI_AGAIN`
/// in the words of glibc and of musl.
fn is_temporary(problem: &str) -> bool {
    ["Temporary failure", "Try again"].iter().any(|words| problem.contains(words))
}

fn allowed(
    addresses: &[IpAddr],
    host: &str,
    port: u16,
    reach: Reach,
) -> Result<Vec<AllowedAddr>, EgressError> {
    address_check::check(addresses, port, reach)
        .map_err(|addresses| EgressError::ForbiddenAddress { host: host.to_owned(), addresses })
}
