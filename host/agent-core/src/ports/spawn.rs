//! Tasks that outlive whoever begins them.

use futures::future::BoxFuture;

/// Begins tasks that the process waits for when it ends.
pub trait Spawn: Send + Sync {
    /// Runs `work` beside everything else until it ends or the process does. `name` is for the log.
    fn spawn(&self, name: &'static str, work: BoxFuture<'static, ()>);
}
