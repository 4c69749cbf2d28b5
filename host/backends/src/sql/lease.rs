//! Leases in the database. A table whose rows are claimed says in a [`LeasedTable`] which of its columns that
//! concerns; the statements follow from it, the same ones for PostgreSQL and SQLite. Each text is made once.
//!
//! Sweeps have a table of leases alone ([`SqlLeases`]), which says as well when the next one is due. A lease
//! that is a row needs no session of its own, so it holds through poolers of connections. Migrations and the
//! making of partitions take PostgreSQL's advisory locks instead: those end with the transaction or
//! connection of the work itself, before there are any tables. Jobs are claimed, renewed and ended by many in
//! one statement of the commit lane (`commit/`), whose rows come with it: those stand there.

use std::sync::LazyLock;
use std::time::Duration;

use agent_core::ports::{ClaimTime, LeaseError, LeaseResult, Leases, Renewal};
use boxed_async::boxed_async;
use futures::TryFutureExt as _;

use super::error::describe;
use super::{SqlPool, ms, writing};

/// The time by the database's clock.
const NOW: &str = "(SELECT ms FROM clock)";

/// A table whose rows are claimed under leases.
///
/// A holder is given as the values of `key` and of `owner`, which are the first parameters of a statement.
pub(super) struct LeasedTable {
    pub(super) table: &'static str,
    /// The columns that name a row.
    pub(super) key: &'static [&'static str],
    /// The column of the holder.
    pub(super) owner: &'static str,
    /// The column that says until when nobody else may claim.
    pub(super) until: &'static str,
}

/// What a statement is given behind the holder.
pub(super) enum Given<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Number(i64),
    OptionalNumber(Option<i64>),
}

impl LeasedTable {
    /// Whether the first parameters name a row and its holder.
    pub(super) fn is_held(&self) -> String {
        let columns = self.key.iter().chain([&self.owner]).zip(1..);
        columns.map(|(column, number)| format!("{column} = ${number}")).collect::<Vec<_>>().join(" AND ")
    }

    /// Makes a row that was not inserted, as there is one of its key, that of the owner who would have been
    /// its first.
    pub(super) fn or_take_over(&self) -> String {
        let Self { key, owner, until, .. } = self;
        let key = key.join(", ");
        format!("ON CONFLICT ({key}) DO UPDATE SET {owner} = excluded.{owner}, {until} = excluded.{until}")
    }

    /// Whether the lease of the row `kept` has ended.
    pub(super) fn is_free(&self) -> String {
        format!("kept.{} <= {NOW}", self.until)
    }

    /// Renews the lease of a row that is held. Its length in ms is given behind the holder.
    pub(super) fn renewal(&self) -> String {
        self.update(&format!("{} = {NOW} + ${}", self.until, self.key.len() + 2))
    }

    /// Sets columns of a row that is held, among them those of the lease.
    pub(super) fn update(&self, set: &str) -> String {
        format!("UPDATE {} SET {set} WHERE {}", self.table, self.is_held())
    }
}

/// Says whether a row was changed: if not, the claim was lost.
pub(super) async fn change(
    pool: &SqlPool,
    sql: &'static str,
    holder: &[&str],
    given: &[Given<'_>],
) -> sqlx::Result<bool> {
    let changed = writing!(pool, db => {
        let mut query = sqlx::query(sql);
        for text in holder {
            query = query.bind(*text);
        }
        for value in given {
            query = match *value {
                Given::Text(text) => query.bind(text),
                Given::Bytes(bytes) => query.bind(bytes),
                Given::Number(number) => query.bind(number),
                Given::OptionalNumber(number) => query.bind(number),
            };
        }
        query.execute(db).map_ok(|done| done.rows_affected())
    })?;
    Ok(changed > 0)
}

/// Renews with the text of a [`LeasedTable::renewal`].
pub(super) async fn renew(
    pool: &SqlPool,
    renewal: &'static str,
    holder: &[&str],
    lease: Duration,
) -> sqlx::Result<Renewal> {
    change(pool, renewal, holder, &[Given::Number(ms(lease))]).await.map(Renewal::of_holder)
}

/// The leases of what is done again and again, a row each.
const SWEEPS: LeasedTable =
    LeasedTable { table: "sweeps", key: &["what"], owner: "sweeper", until: "held_until" };

static CLAIM_NOW: LazyLock<String> = LazyLock::new(|| claim(""));
static CLAIM_WHEN_DUE: LazyLock<String> =
    LazyLock::new(|| claim("AND kept.due_at <= (SELECT ms FROM clock)"));
static RENEW: LazyLock<String> = LazyLock::new(|| SWEEPS.renewal());

/// `$3` ms until the next one is due.
static SETTLE: LazyLock<String> =
    LazyLock::new(|| SWEEPS.update("sweeper = '', held_until = 0, due_at = (SELECT ms FROM clock) + $3"));

/// `$1` name, `$2` owner, `$3` ms of the lease.
fn claim(and_if: &str) -> String {
    format!(
        "INSERT INTO sweeps AS kept (what, sweeper, held_until, due_at) \
         SELECT $1, $2, ms + $3, ms FROM clock WHERE TRUE {} WHERE {} {and_if}",
        SWEEPS.or_take_over(),
        SWEEPS.is_free()
    )
}

/// Leases by name in the database.
pub struct SqlLeases {
    pool: SqlPool,
}

impl SqlLeases {
    /// The leases in that database, whose tables `SqlPool::migrate` makes.
    pub fn new(pool: SqlPool) -> Self {
        Self { pool }
    }
}

#[boxed_async]
impl Leases for SqlLeases {
    async fn claim(&self, name: &str, owner: &str, lease: Duration, time: ClaimTime) -> LeaseResult<bool> {
        let claim = match time {
            ClaimTime::WhenDue => &CLAIM_WHEN_DUE,
            ClaimTime::Now => &CLAIM_NOW,
        };
        let given = [Given::Number(ms(lease))];
        change(&self.pool, claim, &[name, owner], &given).await.map_err(failed)
    }

    async fn renew(&self, name: &str, owner: &str, lease: Duration) -> LeaseResult<Renewal> {
        renew(&self.pool, &RENEW, &[name, owner], lease).await.map_err(failed)
    }

    async fn settle(&self, name: &str, owner: &str, next: Duration) -> LeaseResult<bool> {
        change(&self.pool, &SETTLE, &[name, owner], &[Given::Number(ms(next))]).await.map_err(failed)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err wants")]
fn failed(error: sqlx::Error) -> LeaseError {
    LeaseError(describe(&error))
}
