//! What tools were answered over HTTP, kept beside a run's journal so that its tool calls can be made again
//! without the network.
//!
//! The store does not know what is in an exchange: whoever records has left away what must not be kept. It
//! keeps as much as the bounds below say and no more, whoever appends at once: what is beyond is left away,
//! the first come first.

use boxed_async::boxed_async;

/// Most exchanges that are kept of one call of a tool.
pub const MOST_EXCHANGES_OF_A_CALL: usize = 64;

/// Most bytes of the exchanges of one call.
pub const MOST_BYTES_OF_A_CALL: usize = 1 << 20;

/// Most bytes of the exchanges of one run.
pub const MOST_BYTES_OF_A_RUN: usize = 8 << 20;

/// One exchange of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRecording {
    /// The call's id within all runs: [`ToolRequest::call_id`](crate::ports::ToolRequest).
    pub call_id: String,
    /// Request and outcome, as whoever records writes them.
    pub exchange: Vec<u8>,
}

/// Keeps the exchanges of runs.
#[boxed_async]
pub trait HttpRecordings: Send + Sync {
    /// Appends exchanges to a run, in their order, and says how many of them were kept: fewer when the bounds
    /// are reached.
    ///
    /// Not cancellation-safe, and not to be repeated: dropped or failed, it may have been carried out or not.
    async fn append(&self, run_id: &str, recordings: &[HttpRecording]) -> Result<usize, HttpRecordingsError>;

    /// All exchanges of a run: those of each call in the order in which they were appended.
    async fn read(&self, run_id: &str) -> Result<Vec<HttpRecording>, HttpRecordingsError>;

    /// Removes all exchanges of these runs. Removing again what was removed is no error.
    async fn remove(&self, run_ids: &[String]) -> Result<(), HttpRecordingsError>;
}

/// The store failed or did not answer in time. It holds no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store of HTTP recordings failed: {0}")]
pub struct HttpRecordingsError(pub String);
