//! A call that has its permits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tool_grants::Granted;

use super::tool::Tool;
use crate::component::bulkhead::Permits;
use crate::limits::ToolLimits;
use crate::runtime::Runtime;

/// A call that was admitted, with all that the part of it needs which may move to another thread.
pub(super) struct Admitted {
    pub(super) runtime: Arc<Runtime>,
    pub(super) tool: Arc<Tool>,
    pub(super) granted: Option<Arc<Granted>>,
    pub(super) limits: ToolLimits,
    /// How long the call may take, for texts.
    pub(super) allowed: Duration,
    pub(super) deadline: Instant,
    /// Given back when the store is gone and no check is under way.
    pub(super) permits: Arc<Permits>,
}
