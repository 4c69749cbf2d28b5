//! What one run may spend at its model: the tools' descriptions take their share of it, so whoever loads
//! tools asks for it.

use agent_core::words::DEFAULT_TOKEN_BUDGET;

use super::problem::Problems;
use super::process_env::EnvVars;
use super::reader::{self, Reader, Reported};
use super::setting::{number, settings};

settings! {
    /// Most tokens all model calls of one request may use together.
    TOKEN_BUDGET_PER_REQUEST = number(1, 1_000_000_000).or_number(|| DEFAULT_TOKEN_BUDGET);
}

/// The budget alone, for commands that run no agent.
pub fn from_vars(vars: &impl EnvVars) -> Result<u64, Problems> {
    reader::collect(vars, SETTINGS, read)
}

/// The budget.
pub fn read(reader: &mut Reader<'_>) -> Result<u64, Reported> {
    reader.number(&TOKEN_BUDGET_PER_REQUEST)
}
