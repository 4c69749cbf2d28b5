//! Redis: cached results, rate windows, idempotency keys and a probe over one shared connection; what tools
//! keep, over one of its own.
//!
//! `address.rs` says what an address names: one server, the master that sentinels know (`sentinel.rs`), or a
//! cluster (`cluster/`). `server.rs` is a connection to one server; [`Redis`] is all of them, and sends each
//! query to the server that has its keys (`Redis::at`). All keys of one query are of one hash slot, on one
//! server too.
//!
//! What becomes of a call while Redis is away is decided in four places, each for what it alone knows:
//!
//! | who | what it bounds | what its caller does then |
//! |---|---|---|
//! | `circuit_breaker.rs`, one for each connection to a server | tries at a server that is down: one a second; the others fail at once | whatever it does with an error |
//! | `run_service::rates::FallbackRates` | how long a request waits for shared rate windows: 600 ms, and none for a second after that | counts in the process |
//! | `run_service::layers::Cached` | how long a request waits for the cache: 600 ms | runs the agent |
//! | `run_service`'s `Outage` | lines in the log: one when an outage begins and one when it ends | nothing; it decides no call |
//!
//! They are not one, because the outer two bound what a request waits whatever store is behind the port (a
//! cache in this process has no circuit), and the circuit breaker is asked by the queue as well, which has
//! nothing to fall back to. The outer limits are longer than the connection's own (500 ms): a query that they
//! drop would neither open the circuit nor end a connection to a Redis that accepts and never answers.
//!
//! What does not belong here: the queue of jobs, which speaks BullMQ's protocol: [`crate::bullmq`].

mod address;
mod cache;
mod circuit_breaker;
mod cluster;
mod connection;
mod error;
mod idempotency;
mod key_value;
mod open;
mod probe;
mod rate_windows;
mod sentinel;
mod server;
mod server_check;
mod server_settings;

pub use address::AddressError;
pub use cache::RedisCache;
pub use connection::Redis;
pub use idempotency::RedisIdempotency;
pub use key_value::RedisKeyValues;
pub use probe::RedisProbe;
pub use rate_windows::RedisWindows;
pub use server_check::RedisCheck;
pub(crate) use server_check::ask;
pub use server_settings::RedisUse;

pub(crate) use error::QueryError;
pub(crate) use server::Manner;
