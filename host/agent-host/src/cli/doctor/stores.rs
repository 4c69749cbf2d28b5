//! The stores: whether they can be set up, answer, and have servers that keep what the service promises.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::ports::{StoreCheck, StoreCheckError};
use backends::sql::SqlPool;
use futures::future::join_all;
use run_service::health::{Check, check_all};
use rustix::fs::{Access, access};
use tokio::time::timeout;

use super::report::Finding;
use crate::composition::{self, PROBE_LIMIT, StoreProbes};
use crate::config::{Config, Database};

/// All of them, asked at the same time.
pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    let StoreProbes { mut probes, checks, mut database, problems } =
        composition::store_probes(&config.stores, config.variant_b.is_some()).await;
    let mut findings: Vec<_> = problems
        .into_iter()
        .map(|error| {
            let text = format!("{:#}", anyhow::Error::from(error));
            Finding::failed("stores", text, "mend the setting that is named")
        })
        .collect();
    if let Some(file) = sqlite_file(config).filter(|file| !file.exists())
        && probes.iter().any(|probe| probe.name() == "database")
    {
        // Asking would make it.
        probes.retain(|probe| probe.name() != "database");
        database = None;
        findings.push(to_be_made(&file));
    }
    let tables = async {
        let error = timeout(PROBE_LIMIT, database.as_ref()?.check_migrations()).await.ok()?.err()?;
        let todo = "run the release that made its tables, or name another database in DATABASE_URL: a service does not \
                    start on it as it is";
        Some(Finding::failed("database", error.to_string(), todo))
    };
    let (answers, warnings, tables) =
        futures::join!(check_all(&probes, PROBE_LIMIT), join_all(checks.iter().map(server_settings)), tables);
    // One that does not answer is told of by its probe.
    let is_there = answers.iter().any(|check| check.name == "database" && check.outcome.is_ok());
    findings.extend(answers.into_iter().map(answered));
    findings.extend(warnings.into_iter().flatten());
    findings.extend(tables.filter(|_| is_there));
    findings
}

/// Whether a first start can make the file. Its folder was looked at when the address was read, but a service
/// waits for a disk that may only be read.
fn to_be_made(file: &Path) -> Finding {
    let shown = file.display();
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match access(folder, Access::WRITE_OK) {
        Ok(()) => Finding::ok("database", format!("{shown} will be made at the first start")),
        Err(error) => {
            let todo = "have its disk mounted for writing, or name a file on another one in DATABASE_URL";
            Finding::failed("database", format!("{shown} cannot be made: {error}"), todo)
        }
    }
}

/// What a store said.
fn answered(Check { name, outcome }: Check) -> Finding {
    match outcome {
        Ok(latency) => Finding::ok(name, format!("answers, in {:.1} ms", latency.as_secs_f64() * 1e3)),
        Err(error) => {
            let todo = match name {
                "redis" => {
                    "see that the server of REDIS_URL runs and lets this machine in; REDIS_URL=memory:// needs none"
                }
                "mongodb" => "see that the server of MONGODB_URL runs and lets this machine in",
                _ => {
                    "see that the server of DATABASE_URL runs and lets this machine in, or that the file may be written"
                }
            };
            Finding::failed(name, error.0, todo)
        }
    }
}

/// What is wrong with the settings of a server. One that does not answer is told of by its probe.
async fn server_settings(check: &Arc<dyn StoreCheck>) -> Vec<Finding> {
    match timeout(PROBE_LIMIT, check.check()).await {
        Ok(Ok(warnings)) => {
            let finding = |text| Finding::warning(check.store(), text, "");
            warnings
                .into_iter()
                .map(|warning| finding(format!("{}: {}", warning.setting, warning.problem)))
                .collect()
        }
        Ok(Err(StoreCheckError::Unfit { problem })) => {
            vec![Finding::failed(check.store(), problem, "a service does not start on it as it is")]
        }
        Ok(Err(StoreCheckError::Away { .. })) | Err(_) => vec![],
    }
}

/// True when there is a database to ask: asking would make one that is a file.
pub(super) fn is_made(config: &Config) -> bool {
    sqlite_file(config).is_none_or(|file| file.exists())
}

/// The file of an embedded database.
fn sqlite_file(config: &Config) -> Option<PathBuf> {
    let Some(Database::Sqlite(url)) = &config.stores.database else { return None };
    SqlPool::sqlite_file(url.expose())
}

#[cfg(test)]
mod tests {
    use super::super::report::Report;
    use super::*;

    #[test]
    fn a_database_that_no_start_can_make_has_failed() {
        let home = tempfile::tempdir().unwrap();
        let has_failed = |file: &Path| Report(vec![to_be_made(file)]).has_failed();
        assert!(!has_failed(&home.path().join("x.db")));
        assert!(has_failed(&home.path().join("no/such/x.db")));
        assert!(!has_failed(Path::new("x.db")), "its folder is the one that the test runs in");
    }
}
