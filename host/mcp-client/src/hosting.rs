//! Means of the host that its servers share.

use std::sync::Arc;
use std::time::Duration;

use tool_grants::ComponentGrants;

use crate::connection::child_limits::Launcher;
use crate::connection::farewell::Farewells;

/// Means of the host that its servers share. Clones are the same ones.
#[derive(Clone)]
pub struct Hosting {
    pub grants: Arc<ComponentGrants>,
    pub launcher: Launcher,
    /// Longest a server may take to list its tools, its start included.
    pub look_limit: Duration,
    /// Tasks that tell servers that a session is over.
    pub farewells: Farewells,
}
