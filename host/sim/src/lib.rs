//! The service in a box: several replicas of the real run service, their stores, the provider, the tools and
//! the clients in one process and one thread, with a clock that nothing waits for. A seed decides everything,
//! so that a failure can be made again.
//!
//! - [`simulation`]: one simulation from its beginning to its judge. Below it a failure as short as it gets,
//!   and the numbers of many simulations.
//! - [`replica`]: what lives and dies. Below it the run service as the composition root wires it, the real
//!   HTTP edge before it, asked without a socket, and their tasks, which are dropped at any await.
//! - [`deployment`]: how many replicas, of which release, over which stores.
//! - [`stores`], [`ports`]: reference stores, and the way to them.
//! - [`faults`]: what may go wrong in the world. Below it the gate, on which they hit, and the mutations,
//!   bugs that are put in on purpose.
//! - [`peers`], [`clients`], [`plan`]: who is asked, who asks, and for what.
//! - [`world`], [`judge`]: what is shared and counted, and whether what was promised was kept. The rules
//!   themselves are `run_service::invariants`.
//!
//! What does not belong here: rules of the service. A simulation finds that they are broken, and the service
//! is mended.

pub mod clients;
pub mod deployment;
pub mod faults;
pub mod judge;
pub mod peers;
pub mod plan;
pub mod ports;
pub mod replica;
pub mod simulation;
pub mod stores;
pub mod world;
