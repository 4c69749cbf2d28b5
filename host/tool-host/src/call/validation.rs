//! Arguments and outputs held against their schemas: with a few steps where the call is, else beside the
//! threads that serve (`host_work_pool.rs`), with the call's deadline and its permits.

use json_schema::{Fuel, Misfit};
use serde_json::Value;

use super::admitted::Admitted;
use super::fault::Fault;
use crate::component::definition::Definition;

/// Outputs of more bytes are never checked where the call runs: reading them alone takes long.
const CHECKED_HERE_BYTES: usize = 16 << 10;

/// Checks arguments where the call is, before it has any permit. False when that takes more than a few steps.
pub(super) fn check_quickly(definition: &Definition, arguments: &Value) -> Result<bool, Fault> {
    match definition.check_arguments(arguments, &mut Fuel::inline()) {
        Ok(()) => Ok(true),
        Err(Misfit::Wrong(problems)) => Err(Fault::arguments(&problems)),
        Err(Misfit::TooCostly) => Ok(false),
    }
}

impl Admitted {
    /// Checks arguments that take more than a few steps.
    pub(super) async fn check_arguments(&self, arguments: String) -> Result<String, Fault> {
        let (tool, permits, deadline) = (self.tool.clone(), self.permits.clone(), self.deadline);
        let check = move || {
            let checked = tool.definition.check_arguments_text(&arguments, &mut Fuel::until(deadline));
            drop(permits);
            (arguments, checked)
        };
        match self.on_host_work(check).await? {
            (arguments, Ok(())) => Ok(arguments),
            (_, Err(Misfit::Wrong(problems))) => Err(Fault::arguments(&problems)),
            (_, Err(Misfit::TooCostly)) => Err(Fault::arguments_too_costly()),
        }
    }

    /// Checks an output. The permits are given back when nothing more is done for the call.
    pub(super) async fn check_output(self, value: String) -> Result<String, Fault> {
        if value.len() <= CHECKED_HERE_BYTES {
            match self.tool.definition.check_output(&value, &mut Fuel::inline()) {
                Ok(()) => return Ok(value),
                Err(Misfit::Wrong(problem)) => return Err(Fault::output(problem)),
                Err(Misfit::TooCostly) => {}
            }
        }
        let (tool, permits, deadline) = (self.tool.clone(), self.permits.clone(), self.deadline);
        let check = move || {
            let checked = tool.definition.check_output(&value, &mut Fuel::until(deadline));
            drop(permits);
            (value, checked)
        };
        match self.on_host_work(check).await? {
            (value, Ok(())) => Ok(value),
            (_, Err(Misfit::Wrong(problem))) => Err(Fault::output(problem)),
            (_, Err(Misfit::TooCostly)) => Err(Fault::output_too_costly()),
        }
    }

    async fn on_host_work<T: Send + 'static>(
        &self,
        check: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let checks = &self.tool.component.bulkhead.checks;
        let checked = self.runtime.host_work.run(checks, self.deadline, check).await;
        checked.map_err(|unfinished| Fault::unfinished(&unfinished, self.allowed))
    }
}
