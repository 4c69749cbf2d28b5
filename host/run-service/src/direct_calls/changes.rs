//! When the tools of a caller change.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::Toolbox;
use agent_core::words::Principal;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How often it is looked whether a caller's tools have changed. A look is cheap, and whoever waits for a
/// swap is a program that asks for the list again.
const LOOK: Duration = Duration::from_secs(1);

/// The changes of one caller's tools.
pub struct ToolChanges {
    toolbox: Arc<dyn Toolbox>,
    stopping: CancellationToken,
    caller: Principal,
    /// Of the tools as they were last.
    digest: String,
}

impl ToolChanges {
    pub(super) fn since(
        digest: String,
        caller: Principal,
        (toolbox, stopping): (Arc<dyn Toolbox>, CancellationToken),
    ) -> Self {
        Self { toolbox, stopping, caller, digest }
    }

    /// Names the tools as they were last.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Waits for the next change. Several within a second are one. Nothing when the service is going away.
    /// Cancellation-safe: a change that was not waited for to the end is found by the next call.
    pub async fn next(&mut self) -> Option<&str> {
        let look = async {
            loop {
                let tools = self.toolbox.current_for(&self.caller);
                let digest = tools.catalog().digest();
                if digest != self.digest {
                    return digest.to_owned();
                }
                sleep(LOOK).await;
            }
        };
        let changed = self.stopping.run_until_cancelled(look).await?;
        self.digest = changed;
        Some(&self.digest)
    }
}
