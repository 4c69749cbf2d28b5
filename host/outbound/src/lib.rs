//! The one way out of this service: connections to checked addresses, and the HTTP client over them.
//!
//! [`Client`] is for requests of the service itself: model providers, registries, receivers of webhooks,
//! collectors. [`Dialer`] is what it is made of, for the tool host, which bounds and scans the requests of
//! guests by itself.
//!
//! What holds for every connection:
//! - A name is resolved once, every address is judged by one table (`ssrf_guard`), and the connection goes to
//!   an address that passed (`resolve`, `connect`). How far a request may reach is said with each request
//!   ([`Reach`]).
//! - No redirect is followed and no proxy asked. TLS is verified for the name in the URL.
//! - It speaks HTTP/1.1, and reads no head that is larger than a limit. A body is read within the reader's
//!   limit, and what frames it within one of the connection (`read_bound`).
//! - One that may serve again waits in a pool that is bounded, for its owner, origin and reach only (`pool`).
//! - Its I/O is done on the runtime of whoever connects, and ends with whoever waits for it (`task`).
//!
//! In reading order: `client`, `dialer`, then what they use. What does not belong here: who may ask for what,
//! credentials, retries, what an answer means.

mod client;
mod connect;
mod dialer;
mod error;
mod origin;
mod pool;
mod read_bound;
mod resolve;
mod ssrf_guard;
mod task;
mod tls;

pub use client::{Body, Client, Request};
pub use connect::{Connection, RequestBody, probe};
pub use dialer::Dialer;
pub use error::{ConnectError, Error};
pub use origin::{Host, Origin, Scheme};
pub use pool::{Destination, PoolBounds};
pub use read_bound::is_beyond_bound;
pub use resolve::{LookupBounds, LookupSlot, Resolve, SystemResolver};
pub use ssrf_guard::{Class, ForbiddenAddr, Reach};
pub use task::OwnedTask;
pub use tls::{Tls, TlsError};
