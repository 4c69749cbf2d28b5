//! Which version of a component serves, which wait for an approval, and what comes of trying another: rules
//! without I/O and without a clock.
//!
//! In the order in which a proposal meets them: [`diff`] says how it differs from what serves, [`approval`]
//! whether it may serve or waits, [`record`] what the component's record is after that and after everything
//! that an operator does, and [`verdicts`] how a version is compared with the one that serves while
//! both run.
//!
//! What the records look like is in `agent_core::words`; who keeps them is behind the port `ToolVersions`.

pub mod approval;
pub mod diff;
pub mod record;
#[cfg(test)]
mod tests;
pub mod verdicts;
