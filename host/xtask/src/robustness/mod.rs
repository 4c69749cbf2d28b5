//! What tries the service beyond its tests: kills, hours of load, simulations, strangers' bytes, drawn
//! schedules.

pub(crate) mod chaos;
pub(crate) mod fuzz;
pub(crate) mod schedules;
pub(crate) mod sim;
pub(crate) mod soak;
