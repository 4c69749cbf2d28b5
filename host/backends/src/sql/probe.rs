//! Whether the database answers.

use std::time::Duration;

use agent_core::ports::{Probe, ProbeError};
use boxed_async::boxed_async;

use super::SqlPool;
use super::error::describe;
use super::opened_file::REPLACED;

/// Runs a trivial query: the check named `database` of both variants
/// (host/docs/interface/endpoints.md#variant-b). A SQLite file that was removed while it was open passes
/// that, so its path is looked at first.
pub struct SqlProbe(pub SqlPool);

#[boxed_async]
impl Probe for SqlProbe {
    fn name(&self) -> &'static str {
        "database"
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        if let SqlPool::Sqlite(pools) = &self.0
            && pools.file().is_replaced().await
        {
            return Err(ProbeError(REPLACED.into()));
        }
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
    async fn a_sqlite_file_that_is_removed_or_replaced_while_it_is_open_fails_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        for (name, replaced) in [("removed.db", false), ("replaced.db", true)] {
            let path = folder.path().join(name);
            let pool = SqlPool::sqlite(&format!("sqlite://{}", path.display())).unwrap();
            pool.migrate().await.unwrap();
            let probe = SqlProbe(pool);
            assert_eq!(probe.check().await, Ok(None));
            let (kept, another) = (folder.path().join("kept.db"), folder.path().join("another.db"));
            std::fs::rename(&path, &kept).unwrap();
            if replaced {
                std::fs::copy(&kept, &another).unwrap();
                std::fs::rename(&another, &path).unwrap();
            }
            let error = probe.check().await.unwrap_err();
            assert!(error.0.contains("removed or replaced while it was open"), "{error}");
            assert!(!error.0.contains(name), "{error}");
            // Connections that were opened meanwhile have the other file.
            std::fs::rename(&kept, &path).unwrap();
            assert_eq!(probe.check().await, Err(error));
        }
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
