//! What the handlers of the admin API share.

use std::sync::Arc;

use agent_core::ports::ToolAdmin;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::super::error::AdminRefusal;
use crate::dependencies::Settings;

/// Most uploads at once. Each holds a whole component in memory, and has it compiled.
const MOST_UPLOADS: usize = 2;

pub(super) struct Admin {
    pub(super) tools: Arc<dyn ToolAdmin>,
    /// Limits of bodies that are no uploads.
    pub(super) settings: Settings,
    uploads: Semaphore,
}

/// Shared by all handlers.
pub(super) type Shared = Arc<Admin>;

impl Admin {
    pub(super) fn new(settings: Settings, tools: Arc<dyn ToolAdmin>) -> Self {
        Self { tools, settings, uploads: Semaphore::new(MOST_UPLOADS) }
    }

    /// The limits of an upload: as many bytes as a component may have, within the time of any body.
    pub(super) fn upload_settings(&self) -> Settings {
        let max_body_bytes = usize::try_from(self.tools.most_upload_bytes()).unwrap_or(usize::MAX);
        Settings { max_body_bytes, ..self.settings }
    }

    /// A permit for one upload, to be held until it has ended. Nobody waits for one: who waits keeps a
    /// connection.
    pub(super) fn permit_upload(&self) -> Result<SemaphorePermit<'_>, AdminRefusal> {
        self.uploads.try_acquire().map_err(|_| AdminRefusal::Busy)
    }
}
