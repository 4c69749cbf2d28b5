//! The component that is tested, and against what.

use std::path::PathBuf;

use tool_host::PolicyFile;
use tool_kit::cases::CaseFile;

use crate::isolated::{ComponentFile, Setup};

/// What is tested.
pub(super) struct Tested {
    pub(super) setup: Setup,
    pub(super) file: ComponentFile,
    pub(super) cases: CaseFile,
    /// The file of the cases, for the report.
    pub(super) cases_path: Option<PathBuf>,
    pub(super) policy: Option<PolicyFile>,
    pub(super) seed: u64,
}
