//! From a host's name to addresses that may be connected to.
//!
//! Every address is checked after it was resolved, and only checked ones leave this file; `connect` resolves
//! nothing again. Addresses in a URL bypass the resolver and are checked the same.
//!
//! `getaddrinfo` cannot be cancelled. A lookup holds its [`LookupSlot`] until its thread has really ended:
//! one that hangs costs a slot of its owner, and never all of them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ConnectError;
use crate::origin::Host;
use crate::pool::Destination;
use crate::ssrf_guard::{self, AllowedAddr, Reach};

/// Most addresses of a name that are looked at.
const MAX_ADDRESSES: usize = 16;

pub trait Resolve: fmt::Debug + Send + Sync {
    /// All addresses of a name. Keeps the slot until the work has ended, even if the future is dropped
    /// before.
    fn resolve(&self, host: String, slot: LookupSlot) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver, on the blocking threads of the runtime that asks.
#[derive(Debug)]
pub struct SystemResolver;

/// The right to look one name up.
#[derive(Debug)]
pub struct LookupSlot {
    _of_owner: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// How many lookups may be under way.
#[derive(Debug, Clone, Copy)]
pub struct LookupBounds {
    /// Of all owners together.
    pub in_all: usize,
    pub per_owner: usize,
}

/// The resolver with its bounds.
#[derive(Debug)]
pub(crate) struct Lookups {
    resolver: Arc<dyn Resolve>,
    bounds: LookupBounds,
    of_all: Arc<Semaphore>,
    /// Of the owners that look up names now.
    of_owners: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
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
        let lookup = tokio::task::spawn_blocking(work);
        Box::pin(async move { lookup.await.map_err(io::Error::other)? })
    }
}

impl Default for LookupBounds {
    fn default() -> Self {
        Self { in_all: 16, per_owner: 4 }
    }
}

impl Lookups {
    pub(crate) fn new(resolver: Arc<dyn Resolve>, bounds: LookupBounds) -> Self {
        let of_all = Arc::new(Semaphore::new(bounds.in_all));
        Self { resolver, bounds, of_all, of_owners: Mutex::default() }
    }

    /// The addresses of the destination that may be connected to.
    pub(crate) async fn addresses(
        &self,
        to: &Destination,
        within: Duration,
    ) -> Result<Vec<AllowedAddr>, ConnectError> {
        let (port, reach) = (to.origin.port, to.reach);
        let name = match &to.origin.host {
            Host::Address(address, _) => return allowed(&[*address], port, reach),
            Host::Name(name) => name,
        };
        let lookup = async {
            let slot = self.slot(&to.owner).await.map_err(|error| failed(&error))?;
            self.resolver.resolve(name.clone(), slot).await.map_err(|error| failed(&error))
        };
        let looked_up = tokio::time::timeout(within, lookup).await;
        let mut found = looked_up.unwrap_or(Err(ConnectError::ResolveTimeout(within)))?;
        if found.is_empty() {
            return Err(ConnectError::NoSuchName("the name has no address".to_owned()));
        }
        found.truncate(MAX_ADDRESSES);
        allowed(&found, port, reach)
    }

    /// Waits for a slot: of the owner first, so that nobody waits for an owner whose lookups hang but itself.
    async fn slot(&self, owner: &Arc<str>) -> io::Result<LookupSlot> {
        let own = self.of_owner(owner);
        let of_owner = own.acquire_owned().await.map_err(io::Error::other)?;
        let of_all = self.of_all.clone().acquire_owned().await.map_err(io::Error::other)?;
        Ok(LookupSlot { _of_owner: of_owner, _of_all: of_all })
    }

    fn of_owner(&self, owner: &Arc<str>) -> Arc<Semaphore> {
        let mut known = self.of_owners.lock();
        // Permits and who waits for one hold the semaphore, too.
        known.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let new = || Arc::new(Semaphore::new(self.bounds.per_owner));
        known.entry(owner.clone()).or_insert_with(new).clone()
    }
}

/// Whether another try may resolve the name. The standard library has no kind for it; these are `EAI_AGAIN`
/// in the words of glibc and of musl. An error of the system itself (`EAI_SYSTEM`), such as that no more
/// files may be open, says nothing of the name.
fn failed(error: &io::Error) -> ConnectError {
    let problem = error.to_string();
    let is_temporary = error.raw_os_error().is_some()
        || ["Temporary failure", "Try again"].iter().any(|words| problem.contains(words));
    if is_temporary { ConnectError::Resolve(problem) } else { ConnectError::NoSuchName(problem) }
}

fn allowed(addresses: &[IpAddr], port: u16, reach: Reach) -> Result<Vec<AllowedAddr>, ConnectError> {
    ssrf_guard::check(addresses, port, reach).map_err(ConnectError::Forbidden)
}
