//! The service in a box: several replicas of the real run service, their stores, the provider, the tools and
//! the clients in one process and one thread, with a clock that nothing waits for. A seed decides everything,
//! so that a failure can be made again.
//!
//! - [`simulation`]: one simulation from its beginning to its judge.
//! - [`service`], [`replica`], [`process`]: the run service as the composition root wires it, what lives and
//!   dies of it, and its tasks, which are dropped at any await.
//! - [`deployment`]: how many replicas, of which release, over which stores.
//! - [`edge`]: the real HTTP edge before it, asked without a socket.
//! - [`stores`], [`ports`], [`gate`]: reference stores, and the way to them on which the faults hit.
//! - [`faults`], [`mutation`]: what may go wrong in the world, and bugs that are put in on purpose.
//! - [`peers`], [`clients`], [`plan`]: who is asked, who asks, and for what.
//! - [`world`], [`promises`], [`judge`]: what is shared and counted, what was promised, and whether it was
//!   kept. The rules themselves are `run_service::invariants`.
//! - [`shrink`], [`tally`]: a failure as short as it gets, and the numbers of many simulations.
//!
//! What does not belong here: rules of the service. A simulation finds that they are broken, and the service
//! is mended.

pub mod clients;
pub mod deployment;
pub mod edge;
pub mod faults;
pub mod gate;
pub mod judge;
pub mod mutation;
pub mod peers;
pub mod plan;
pub mod ports;
pub mod process;
pub mod promises;
pub mod replica;
pub mod service;
pub mod shrink;
pub mod simulation;
pub mod stores;
pub mod tally;
pub mod world;
