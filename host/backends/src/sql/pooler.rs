//! Whether a pooler stands before PostgreSQL that gives one session to several clients in turns (PgBouncer's
//! `pool_mode = transaction`), and whether it keeps their prepared statements apart.
//!
//! No pooler says what it is, so two things are tried. Sessions of a server have processes of their own: when
//! two open connections have the same one, or one connection has two, they are in turns. And a pooler that
//! keeps prepared statements apart names them itself, because two clients may give the same name to different
//! ones: PgBouncer does from 1.21 on, with `max_prepared_statements`.

use sqlx::Row as _;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgConnection;

/// How often both connections are asked. One time is enough unless others use the pooler at the same moment:
/// with three sessions that go to and fro, one attempt in a hundred still saw no change after three times.
const ROUNDS: usize = 16;

/// Which process of the server answers.
const PROCESS: &str = "SELECT pg_backend_pid()";

/// The names by which the server knows this statement.
const NAMES: &str = "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%pg_prepared_statements%'";

/// What the driver's names of statements begin with.
const DRIVERS_NAME: &str = "sqlx_s_";

/// What stands before the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Nothing, or a pooler whose clients have sessions of their own.
    None,
    /// A pooler whose clients share sessions and may prepare statements.
    Shared,
    /// One that mixes up the statements that its clients prepare.
    SharedUnprepared,
}

/// Finds out by two open connections to the same address.
pub(super) async fn find_pooling(one: &mut PgConnection, other: &mut PgConnection) -> sqlx::Result<Pooling> {
    let (mut of_one, mut of_other) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_one.push(process_of(one).await?);
        of_other.push(process_of(other).await?);
    }
    let is_in_turns = |processes: &[i32]| processes.iter().any(|process| Some(process) != processes.first());
    let is_shared = is_in_turns(&of_one)
        || is_in_turns(&of_other)
        || of_one.iter().any(|process| of_other.contains(process));
    if !is_shared {
        return Ok(Pooling::None);
    }
    Ok(if keeps_statements_apart(one).await? { Pooling::Shared } else { Pooling::SharedUnprepared })
}

async fn process_of(connection: &mut PgConnection) -> sqlx::Result<i32> {
    sqlx::raw_sql(PROCESS).fetch_one(connection).await?.try_get(0)
}

async fn keeps_statements_apart(connection: &mut PgConnection) -> sqlx::Result<bool> {
    let names: Vec<String> = match sqlx::query_scalar(NAMES).fetch_all(connection).await {
        Ok(names) => names,
        Err(error) if is_mix_up(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    Ok(!names.is_empty() && !names.iter().any(|name| name.starts_with(DRIVERS_NAME)))
}

/// Whether the server knows a statement that was not prepared, or does not know one that was.
fn is_mix_up(error: &sqlx::Error) -> bool {
    const UNKNOWN_STATEMENT: &str = "26000";
    const KNOWN_STATEMENT: &str = "42P05";
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| code == UNKNOWN_STATEMENT || code == KNOWN_STATEMENT)
}
