//! What is said about a failure of the database: enough to know what to do, without what only the operator's
//! log may say: addresses, users, file names.

use std::io::ErrorKind;

use sqlx::error::DatabaseError;

/// Tables are made by the service when it starts, and by no command.
const UNPREPARED: &str =
    "the database has not been prepared: its tables are missing; the service makes them when it starts";

/// What went wrong, fit for health reports and errors.
pub(super) fn describe(error: &sqlx::Error) -> String {
    tracing::debug!(error = %error, "the database failed");
    match error {
        sqlx::Error::PoolTimedOut => "no connection to the database within 2000 ms".into(),
        sqlx::Error::PoolClosed => "the service is shutting down".into(),
        // What `time_limit.rs` gives up as well: the connection may hold, and a statement wait for a lock.
        sqlx::Error::Io(error) if error.kind() == ErrorKind::TimedOut => {
            "no answer in time: the database is away or slow, or something else keeps it locked".into()
        }
        sqlx::Error::Io(error) => format!("the connection failed: {}", error.kind()),
        sqlx::Error::Tls(_) => "the connection could not be secured".into(),
        sqlx::Error::Database(error) => describe_refusal(&**error),
        _ => "the query failed".into(),
    }
}

/// Whether a database refuses because of what is to be written, so that other writes may pass. What else it
/// says is about itself: its disk is full, it shuts down, its tables are missing.
pub(super) fn is_about_a_write(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Encode(_) => true,
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
                // Constraints, triggers included; too long; of another type.
                code.parse::<i32>().is_ok_and(|code| matches!(code & 0xff, 18..=20))
            } else {
                // Data, constraints, exceptions raised by triggers, limits of a row.
                ["22", "23", "54", "P0"].iter().any(|class| code.starts_with(class))
            }
        }
        _ => false,
    }
}

/// Whether a table could not be locked because of others who hold it, or who wait for what we hold. On
/// PostgreSQL.
pub(super) fn is_locked(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| matches!(&*code, "55P03" | "40P01"))
}

/// Whether a pooler has as many clients as it takes. PgBouncer's code of it is that of almost all that it
/// says itself.
pub(super) fn is_full_pooler(error: &dyn DatabaseError) -> bool {
    let message = error.message();
    message.contains("max_client_conn") || message.contains("client connections exceeded")
}

fn describe_refusal(error: &dyn DatabaseError) -> String {
    let code = error.code().unwrap_or_else(|| "unknown".into());
    let meaning = if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
        // The low byte is the result, what stands above it says where it came up. A missing table has no code
        // of its own.
        let is_unprepared = error.message().starts_with("no such table");
        let meaning = code.parse::<i32>().ok().and_then(|code| meaning_in_sqlite(code & 0xff));
        meaning.or(is_unprepared.then_some(UNPREPARED))
    } else if is_full_pooler(error) {
        Some("the pooler takes no more clients: raise its max_client_conn")
    } else {
        meaning_in_postgres(&code)
    };
    match meaning {
        Some(meaning) => format!("{meaning} (code {code})"),
        None => format!("the database refused (code {code})"),
    }
}

/// <https://www.sqlite.org/rescode.html>
fn meaning_in_sqlite(code: i32) -> Option<&'static str> {
    Some(match code {
        3 => "the database file may not be accessed",
        5 | 6 => "the database is locked by another process",
        8 => "the database is read-only",
        10 => "the disk failed",
        11 => "the database file is damaged",
        13 => "the disk is full",
        14 => "the database file cannot be opened, or its folder may not be written",
        26 => "the file is not a database",
        _ => return None,
    })
}

/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
fn meaning_in_postgres(code: &str) -> Option<&'static str> {
    Some(match code {
        "25006" => "the database is read-only",
        "28000" | "28P01" => "the database does not accept the user and password",
        "3D000" => "there is no database of that name",
        "42501" => "the user of the database lacks a privilege",
        "42P01" => UNPREPARED,
        "53100" => "the disk is full",
        "53300" => "the database has too many connections",
        "55P03" => "a table could not be locked in time, because something else has been using it for long",
        "57014" => "the statement took longer than the database lets it",
        "57P01" | "57P02" | "57P03" => "the database is shutting down or starting",
        _ => return None,
    })
}
