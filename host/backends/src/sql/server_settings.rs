//! The settings of a PostgreSQL server, and what they mean for what is kept there. No I/O.

use agent_core::ports::StoreWarning;

use super::pooler::Pooling;
use super::postgres::{CONNECTIONS_OF_A_PROCESS, ISOLATION};

/// The oldest version that is served, and the oldest that its makers still mend.
const OLDEST: i64 = 120_000;
const OLDEST_MAINTAINED: i64 = 140_000;

/// What a server tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerSettings {
    pub(super) version: String,
    /// As in `150_004`.
    pub(super) version_number: i64,
    pub(super) synchronous_commit: String,
    /// Of our sessions.
    pub(super) statement_timeout: String,
    /// Of a transaction of ours that asks for none.
    pub(super) isolation: String,
    /// Most connections of all clients together.
    pub(super) connections: i64,
    /// Processes like this one that are connected, this one included, as far as can be seen.
    pub(super) replicas: i64,
}

/// What is known of the server's own address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direct {
    /// None is set.
    Unset,
    /// Nobody answers there.
    Away,
    /// Another server answers, or another database is named.
    Another,
    /// A pooler answers that gives a session to several clients in turns.
    Pooled,
    /// It is the same server.
    Same,
}

/// What weakens the promises of the service, or why the server must not be used.
pub(super) fn judge(settings: &ServerSettings, pooling: Pooling) -> Result<Vec<StoreWarning>, String> {
    let mut warnings = Vec::new();
    let ServerSettings { version, version_number, .. } = settings;
    if *version_number < OLDEST {
        return Err(format!("DATABASE_URL names PostgreSQL {version}, which is too old: use 12 or newer"));
    }
    if *version_number < OLDEST_MAINTAINED {
        let problem =
            format!("PostgreSQL {version} is not mended any more by those who make it: use 14 or newer");
        warnings.push(warning("server_version", problem));
    }
    if settings.synchronous_commit == "off" {
        let problem = "off: when PostgreSQL's machine fails, the last half second of what was accepted is lost; set \
                       synchronous_commit to on for the user or the database of DATABASE_URL";
        warnings.push(warning("synchronous_commit", problem.into()));
    }
    if matches!(&*settings.statement_timeout, "0" | "") {
        let problem = "none, because the pooler does not pass it on: a statement that was given up goes on in the server; \
                       set it for the user of DATABASE_URL (ALTER ROLE … SET statement_timeout = '6s')";
        warnings.push(warning("statement_timeout", problem.into()));
    }
    // What is called "read uncommitted" is the same on PostgreSQL.
    if matches!(&*settings.isolation, "repeatable read" | "serializable") {
        let problem = format!(
            "{}: of two statements that change the same rows at once one fails; set default_transaction_isolation to \
             '{ISOLATION}' for the user of DATABASE_URL, and leave it out of that address",
            settings.isolation
        );
        warnings.push(warning("default_transaction_isolation", problem));
    }
    // A pooler bounds the connections to the server by itself.
    if pooling == Pooling::None {
        warnings.extend(judge_connections(settings));
    }
    Ok(warnings)
}

fn judge_connections(settings: &ServerSettings) -> Option<StoreWarning> {
    let ServerSettings { connections, replicas, .. } = settings;
    let replicas = (*replicas).max(1);
    let needed = replicas.saturating_mul(CONNECTIONS_OF_A_PROCESS);
    (needed > *connections).then(|| {
        let problem = format!(
            "the server takes {connections} connections, and {replicas} processes of up to \
             {CONNECTIONS_OF_A_PROCESS} each may want {needed}: raise max_connections, or put PgBouncer between"
        );
        warning("max_connections", problem)
    })
}

/// The same for the two addresses.
pub(super) fn judge_addresses(pooling: Pooling, direct: Direct) -> Result<Vec<StoreWarning>, String> {
    if pooling == Pooling::SharedUnprepared {
        return Err(
            "DATABASE_URL names a pooler in transaction mode that mixes up the prepared statements of its clients: use \
             PgBouncer 1.21 or newer with max_prepared_statements = 200, or pool_mode = session, or name PostgreSQL itself"
                .into(),
        );
    }
    let problem = match (direct, pooling) {
        (Direct::Same, _) | (Direct::Unset, Pooling::None) => return Ok(vec![]),
        (Direct::Another, _) => {
            return Err("DATABASE_DIRECT_URL names another database or server than DATABASE_URL: name the server behind \
                        the pooler, and the same database"
                .into());
        }
        (Direct::Unset, _) => {
            "not set, and DATABASE_URL names a pooler in transaction mode: set it to PostgreSQL's own address, where jobs \
             are announced"
        }
        (Direct::Away, _) => "nobody answers there: tables are made and jobs are announced at that address",
        (Direct::Pooled, _) => {
            "it names a pooler in transaction mode: set it to PostgreSQL's own address, where jobs are announced"
        }
    };
    Ok(vec![warning("DATABASE_DIRECT_URL", problem.into())])
}

fn warning(setting: &'static str, problem: String) -> StoreWarning {
    StoreWarning { store: "database", setting, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ServerSettings {
        ServerSettings {
            version: "15.4".into(),
            version_number: 150_004,
            synchronous_commit: "on".into(),
            statement_timeout: "6s".into(),
            isolation: "read committed".into(),
            connections: 97,
            replicas: 1,
        }
    }

    fn named(settings: &ServerSettings, pooling: Pooling) -> Vec<&'static str> {
        judge(settings, pooling).unwrap().iter().map(|warning| warning.setting).collect()
    }

    #[test]
    fn each_setting_that_weakens_a_promise_is_named() {
        for (settings, expected) in [
            (settings(), vec![]),
            (ServerSettings { synchronous_commit: "off".into(), ..settings() }, vec!["synchronous_commit"]),
            (ServerSettings { synchronous_commit: "remote_apply".into(), ..settings() }, vec![]),
            (ServerSettings { statement_timeout: "0".into(), ..settings() }, vec!["statement_timeout"]),
            (ServerSettings { isolation: "read uncommitted".into(), ..settings() }, vec![]),
            (
                ServerSettings { isolation: "repeatable read".into(), ..settings() },
                vec!["default_transaction_isolation"],
            ),
            (ServerSettings { version_number: 130_010, ..settings() }, vec!["server_version"]),
            (ServerSettings { replicas: 4, ..settings() }, vec![]),
            (ServerSettings { replicas: 5, ..settings() }, vec!["max_connections"]),
            (ServerSettings { connections: 20, replicas: 0, ..settings() }, vec!["max_connections"]),
        ] {
            assert_eq!(named(&settings, Pooling::None), expected, "{settings:?}");
        }
        assert!(named(&ServerSettings { replicas: 50, ..settings() }, Pooling::Shared).is_empty());
        let old = ServerSettings { version: "11.22".into(), version_number: 110_022, ..settings() };
        assert!(judge(&old, Pooling::None).unwrap_err().contains("PostgreSQL 11.22"));
    }

    #[test]
    fn a_pooler_wants_an_address_of_the_server_behind_it() {
        let named = |pooling, direct| {
            let judged = judge_addresses(pooling, direct);
            judged.map(|warnings| warnings.len()).map_err(|problem| problem.contains("PgBouncer 1.21"))
        };
        for (pooling, direct, expected) in [
            (Pooling::None, Direct::Unset, Ok(0)),
            (Pooling::None, Direct::Same, Ok(0)),
            (Pooling::None, Direct::Away, Ok(1)),
            (Pooling::Shared, Direct::Unset, Ok(1)),
            (Pooling::Shared, Direct::Pooled, Ok(1)),
            (Pooling::Shared, Direct::Same, Ok(0)),
            (Pooling::Shared, Direct::Another, Err(false)),
            (Pooling::SharedUnprepared, Direct::Same, Err(true)),
        ] {
            assert_eq!(named(pooling, direct), expected, "{pooling:?} {direct:?}");
        }
    }
}
