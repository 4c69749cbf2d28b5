//! Connections for requests: one that waits, or a new one to an address that was checked.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::connect::{self, Connection, RequestBody};
use crate::error::ConnectError;
use crate::pool::{Destination, Pool, PoolBounds};
use crate::resolve::{LookupBounds, Lookups, Resolve};
use crate::tls::Tls;

/// How long a connection may take to become ready for another request. It is unless the request is still
/// being sent.
const READY_WITHIN: Duration = Duration::from_millis(50);

/// Makes connections, and keeps those that may serve again. Dropping it closes these.
#[derive(Debug)]
pub struct Dialer<B> {
    tls: Option<Tls>,
    lookups: Lookups,
    pool: Arc<Pool<B>>,
}

impl<B: RequestBody> Dialer<B> {
    /// Without `tls`, every `https` connection fails and says so.
    pub fn new(
        resolver: Arc<dyn Resolve>,
        tls: Option<Tls>,
        lookups: LookupBounds,
        pool: PoolBounds,
    ) -> Self {
        Self { tls, lookups: Lookups::new(resolver, lookups), pool: Pool::new(pool) }
    }

    /// A connection that waits. The server may have closed it since.
    pub fn kept(&self, to: &Destination) -> Option<Connection<B>> {
        self.pool.take(to)
    }

    /// A new connection. `connect` is over all addresses, TLS included.
    pub async fn connect(
        &self,
        to: &Destination,
        resolve: Duration,
        connect: Duration,
    ) -> Result<Connection<B>, ConnectError> {
        let addresses = self.lookups.addresses(to, resolve).await?;
        connect::connect(self.tls.as_ref(), &to.origin, &addresses, connect).await
    }

    /// Keeps a connection whose response was read to its end, for the next request.
    pub async fn keep(&self, to: Destination, mut connection: Connection<B>) {
        if self.pool.keeps()
            && let Ok(Ok(())) = timeout(READY_WITHIN, connection.sender.ready()).await
        {
            self.pool.put(to, connection);
        }
    }

    /// The addresses of the destination that may be reached, of which there is one at least.
    pub async fn addresses(&self, to: &Destination, within: Duration) -> Result<Vec<IpAddr>, ConnectError> {
        let found = self.lookups.addresses(to, within).await?;
        Ok(found.into_iter().map(|address| address.socket_addr().ip()).collect())
    }

    /// How many connections wait, and how many of these the server has not closed.
    pub fn waiting(&self) -> (usize, usize) {
        self.pool.waiting()
    }
}
