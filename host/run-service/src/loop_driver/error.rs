//! Why a run has no result.

use agent_core::agent_loop::UnexpectedEvent;
use agent_core::ports::{JournalError, ModelError};
use agent_core::words::OpenKinds;

/// Why a run has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// The model gave no reply.
    #[error("the model call failed")]
    Model(#[source] ModelError),
    /// The history could not be written or read, so the run must not go on.
    #[error("the run could not be recorded")]
    Journal(#[source] JournalError),
    /// The run was told something it did not ask for: a bug or a damaged journal.
    #[error("the run was driven wrongly")]
    Driver(#[source] UnexpectedEvent),
    /// The run was told to stop and did so between two steps. Its journal says where it can be taken up.
    #[error("the run was stopped between two steps")]
    Stopped,
    /// The run waits for somebody, and nobody holds it meanwhile. Its journal says for what.
    #[error("the run waits for somebody")]
    Parked {
        /// When the first of its waits expires, in milliseconds since 1970.
        until: u64,
        /// How many events its journal has.
        events: u64,
        /// When it is to be taken up at the latest: then, or sooner to look at its children.
        due: u64,
        /// The jobs of child runs whose ends it waits for.
        children: Vec<String>,
        /// The kinds of things for which it waits.
        open: OpenKinds,
    },
    /// The run stopped whoever drove it too often, without any progress or as often as it may at all, and is
    /// not taken up again.
    #[error("the run stopped its worker {attempts} times")]
    Stuck {
        /// How often a worker was stopped.
        attempts: u32,
    },
    /// The run panicked: a bug. Where is said by the panic's own line in the log.
    #[error("the run broke off")]
    Panicked,
}
