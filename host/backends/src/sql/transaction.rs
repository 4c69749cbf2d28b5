//! A transaction of either database, for several statements of which all take effect or none. Dropped before
//! [`SqlTransaction::commit`], it changes nothing.

use sqlx::{Sqlite, Transaction};

use super::SqlPool;
use super::postgres::Borrowed;

/// A transaction that writes.
pub(super) enum SqlTransaction {
    Postgres(Borrowed),
    Sqlite(Transaction<'static, Sqlite>),
}

/// Asks the database in the transaction. The expression is a future of a `Result`, and is compiled for each.
macro_rules! in_transaction {
    ($transaction:expr, $db:ident => $query:expr) => {
        match &mut $transaction {
            $crate::sql::transaction::SqlTransaction::Postgres(transaction) => {
                let $db = transaction.connection();
                $query.await
            }
            $crate::sql::transaction::SqlTransaction::Sqlite(transaction) => {
                let $db = &mut **transaction;
                $query.await
            }
        }
    };
}

pub(super) use in_transaction;

impl SqlTransaction {
    /// In SQLite a transaction keeps all other writers out from its beginning; in PostgreSQL it holds the
    /// rows that it has written.
    pub(super) async fn begin(pool: &SqlPool) -> sqlx::Result<Self> {
        Ok(match pool {
            SqlPool::Postgres(pool) => Self::Postgres(pool.begin().await?),
            SqlPool::Sqlite(pools) => Self::Sqlite(pools.writer().begin_with("BEGIN IMMEDIATE").await?),
        })
    }

    pub(super) async fn commit(self) -> sqlx::Result<()> {
        match self {
            Self::Postgres(transaction) => transaction.end("COMMIT").await,
            Self::Sqlite(transaction) => transaction.commit().await,
        }
    }

    pub(super) async fn rollback(self) -> sqlx::Result<()> {
        match self {
            Self::Postgres(transaction) => transaction.end("ROLLBACK").await,
            Self::Sqlite(transaction) => transaction.rollback().await,
        }
    }
}
