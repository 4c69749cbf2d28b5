//! A transaction that holds a space: nobody else writes in it until the transaction has ended, in whatever
//! process.
//!
//! The row of the space is the lock and has the number of bytes in it. Dropped before [`HeldSpace::end`], it
//! changes nothing.

use futures::TryFutureExt as _;

use super::statements;
use crate::sql::SqlPool;
use crate::sql::from_row::from_row;
use crate::sql::text_columns::escape;
use crate::sql::transaction::{SqlTransaction, in_transaction};

/// Most rows that one transaction removes because they have expired: a few milliseconds.
const MOST_SWEPT: i64 = 256;

/// How a space is found: its id, and its names for whoever reads the table.
pub(super) struct SpaceRow<'a> {
    pub(super) id: &'a [u8],
    pub(super) component: &'a str,
    pub(super) user: Option<&'a str>,
}

/// A space in which nobody else writes.
pub(super) struct HeldSpace<'a> {
    transaction: SqlTransaction,
    id: &'a [u8],
    /// Of all rows, those included that have expired.
    bytes: i64,
    is_changed: bool,
}

/// A key in a space.
pub(super) struct Look {
    /// The time, in milliseconds since 1970.
    pub(super) now: i64,
    /// What is under the key.
    pub(super) kept: Option<StoredValue>,
    /// Whether there may be rows in the space that have expired.
    pub(super) is_unswept: bool,
}

/// A value that has not expired.
pub(super) struct StoredValue {
    pub(super) value: Vec<u8>,
    pub(super) expires_at: Option<i64>,
}

from_row! {
    /// Row of [`statements::LOOK`].
    struct LookRow {
        ms: i64,
        value: Option<Vec<u8>>,
        expires_at: Option<i64>,
        has_expired: bool,
    }
}

impl<'a> HeldSpace<'a> {
    /// Waits until nobody else writes in the space; makes it if there is none.
    pub(super) async fn hold(pool: &SqlPool, space: &SpaceRow<'a>) -> sqlx::Result<Self> {
        let mut held = Self::begin(pool, space.id).await?;
        held.bytes = in_transaction!(held.transaction, db => {
            let query = sqlx::query_scalar(statements::HOLD).bind(space.id).bind(escape(space.component));
            query.bind(space.user.map(escape)).fetch_one(db)
        })?;
        Ok(held)
    }

    /// Holds a space that somebody made, if it is still there, when nobody else writes in it.
    pub(super) async fn hold_old(pool: &SqlPool, id: &'a [u8]) -> sqlx::Result<Option<Self>> {
        let mut held = Self::begin(pool, id).await?;
        let bytes: Option<i64> = in_transaction!(held.transaction, db => {
            sqlx::query_scalar(statements::HOLD_OLD).bind(id).fetch_optional(db)
        })?;
        let Some(bytes) = bytes else { return held.end().await.map(|()| None) };
        held.bytes = bytes;
        Ok(Some(held))
    }

    async fn begin(pool: &SqlPool, id: &'a [u8]) -> sqlx::Result<Self> {
        let transaction = SqlTransaction::begin(pool).await?;
        Ok(Self { transaction, id, bytes: 0, is_changed: false })
    }

    /// Bytes of all keys and values, those included that have expired and are still there.
    pub(super) fn bytes(&self) -> i64 {
        self.bytes
    }

    /// Looks what is under a key. Some of what has expired is removed on the way, and what was under the key
    /// if it has.
    pub(super) async fn look(&mut self, key: &str) -> sqlx::Result<Look> {
        let LookRow { ms, value, expires_at, has_expired } = in_transaction!(self.transaction, db => {
            sqlx::query_as(statements::LOOK).bind(self.id).bind(key.as_bytes()).fetch_one(db)
        })?;
        let is_unswept = has_expired && self.sweep().await?;
        let mut kept = value.map(|value| StoredValue { value, expires_at });
        if let Some(expired) = kept.take_if(|kept| kept.expires_at.is_some_and(|time| time <= ms)) {
            self.remove(key, &expired.value).await?;
        }
        Ok(Look { now: ms, kept, is_unswept })
    }

    /// Removes some of what has expired. Says whether there may be more of it.
    pub(super) async fn sweep(&mut self) -> sqlx::Result<bool> {
        let swept: Vec<i64> = in_transaction!(self.transaction, db => {
            sqlx::query_scalar(statements::SWEEP).bind(self.id).bind(MOST_SWEPT).fetch_all(db)
        })?;
        self.bytes -= swept.iter().sum::<i64>();
        self.is_changed |= !swept.is_empty();
        Ok(swept.len() as u64 >= MOST_SWEPT.unsigned_abs())
    }

    /// Puts a value under a key where there has been `before`.
    pub(super) async fn put(
        &mut self,
        key: &str,
        before: Option<&StoredValue>,
        after: &StoredValue,
    ) -> sqlx::Result<()> {
        in_transaction!(self.transaction, db => {
            let query = sqlx::query(statements::PUT).bind(self.id).bind(key.as_bytes());
            query.bind(&*after.value).bind(after.expires_at).execute(db).map_ok(drop)
        })?;
        self.bytes += growth(key, before, after);
        self.is_changed = true;
        Ok(())
    }

    /// Removes the row of a key, if it is there; `value` is what it has.
    pub(super) async fn remove(&mut self, key: &str, value: &[u8]) -> sqlx::Result<()> {
        let removed = in_transaction!(self.transaction, db => {
            let query = sqlx::query(statements::REMOVE).bind(self.id).bind(key.as_bytes());
            query.execute(db).map_ok(|done| done.rows_affected())
        })?;
        if removed > 0 {
            self.bytes -= length(key.len() + value.len());
            self.is_changed = true;
        }
        Ok(())
    }

    /// Ends the transaction: what was changed takes effect. A space in which nothing is left leaves no row.
    pub(super) async fn end(mut self) -> sqlx::Result<()> {
        if !self.is_changed {
            return self.transaction.rollback().await;
        }
        if self.bytes > 0 {
            in_transaction!(self.transaction, db => {
                sqlx::query(statements::RECOUNT).bind(self.id).bind(self.bytes).execute(db).map_ok(drop)
            })?;
        } else {
            in_transaction!(self.transaction, db => sqlx::query(statements::DROP).bind(self.id).execute(db).map_ok(drop))?;
        }
        self.transaction.commit().await
    }
}

/// How much larger a space becomes, in bytes.
pub(super) fn growth(key: &str, before: Option<&StoredValue>, after: &StoredValue) -> i64 {
    let freed = before.map_or(0, |kept| key.len() + kept.value.len());
    length(key.len() + after.value.len()) - length(freed)
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
