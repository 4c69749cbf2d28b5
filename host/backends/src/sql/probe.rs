//! Whether the database answers.

use std::time::Duration;

use agent_core::ports::{Probe, ProbeError};
use boxed_async::boxed_async;

use super::SqlPool;
use super::error::describe;

/// Runs a trivial query: the check named `database` of both variants
/// (host/docs/interface/endpoints.md#variant-b).
pub struct SqlProbe(pub SqlPool);

#[boxed_async]
impl Probe for SqlProbe {
    fn name(&self) -> &'static str {
        "database"
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        match self.0.run_trivial_query().await {
            Ok(()) => Ok(None),
            Err(error) => Err(ProbeError(describe(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sqlite_file_is_created_and_passes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made.db");
        let pool = SqlPool::sqlite(&format!("sqlite://{}", path.display())).unwrap();
        assert_eq!(SqlProbe(pool).check().await, Ok(None));
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_database_that_is_not_there_fails_without_a_secret() {
        let pool = SqlPool::postgres("postgres://user:hunter2@127.0.0.1:1/db").unwrap();
        let error = SqlProbe(pool).check().await.unwrap_err();
        assert!(!error.0.is_empty(), "{error}");
        assert!(!error.0.contains("hunter2") && !error.0.contains("127.0.0.1"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gone/away.db");
        std::fs::create_dir(folder.path().join("gone")).unwrap();
        let pool = SqlPool::sqlite(&format!("sqlite://{}", file.display())).unwrap();
        std::fs::remove_dir(folder.path().join("gone")).unwrap();
        assert!(SqlProbe(pool).check().await.is_err());
    }

    #[test]
    fn an_unusable_address_is_not_quoted() {
        let error = SqlPool::postgres("postgres://u:hunter2@h:99999/db").err().unwrap();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
