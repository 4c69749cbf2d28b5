//! What went wrong, in words that hold no address, no name and no text of a run.

use std::time::Duration;

use agent_core::ports::JournalError;
use mongodb::error::{Error, ErrorKind, WriteFailure};

/// How long an answer may take once the server was found. The driver itself would wait for ever for one that
/// holds its connections and says nothing. Queries that may look through much have it as their `maxTimeMS`,
/// or the server would go on with those that nobody waits for.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What a question to the server results in.
pub(super) type QueryResult<T = ()> = Result<T, QueryError>;

/// Why the store did not do what it was asked for.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum QueryError {
    #[error("the server gave no answer within {} s", ANSWER_TIMEOUT.as_secs())]
    Silent,
    #[error("{}", describe(.0))]
    Driver(Error),
}

/// Waits for the server's answer, but not for ever.
pub(super) async fn answer<T>(asked: impl IntoFuture<Output = Result<T, Error>>) -> QueryResult<T> {
    match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the document store failed");
            Err(QueryError::Driver(error))
        }
        Err(_elapsed) => Err(QueryError::Silent),
    }
}

impl From<QueryError> for JournalError {
    fn from(error: QueryError) -> Self {
        store_error(error.to_string())
    }
}

pub(super) fn store_error(detail: impl Into<String>) -> JournalError {
    JournalError::Store { detail: detail.into() }
}

/// What a server says when it refuses, which is its code: its words may quote what was written.
pub(super) fn refusal(code: i32) -> String {
    format!("the server refused (code {code})")
}

fn describe(error: &Error) -> String {
    match &*error.kind {
        ErrorKind::ServerSelection { .. } => "no server could be reached".into(),
        ErrorKind::Authentication { .. } => "the server refused the credentials".into(),
        ErrorKind::Io(error) => format!("the connection failed: {}", error.kind()),
        ErrorKind::ConnectionPoolCleared { .. } => "the connection failed".into(),
        ErrorKind::InvalidTlsConfig { .. } => "the connection could not be secured".into(),
        ErrorKind::Shutdown => "the service is shutting down".into(),
        ErrorKind::Command(error) => refusal(error.code),
        ErrorKind::Write(WriteFailure::WriteError(error)) => refusal(error.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(error)) => not_safe(error.code),
        ErrorKind::InsertMany(error) => match &error.write_concern_error {
            Some(error) => not_safe(error.code),
            None => "the server refused some of it".into(),
        },
        _ => "the operation failed".into(),
    }
}

fn not_safe(code: i32) -> String {
    format!("the server could not make it safe (code {code})")
}
