//! Records, the revision of the store, and the audit trail.

use std::borrow::Cow;

use agent_core::ports::tool_versions::stored::{
    decode_audit_line, decode_record, encode_audit_line, encode_record, needed_digests,
};
use agent_core::ports::tool_versions::{MOST_AUDIT_LINES, Records, Versioned, VersionsError, VersionsResult};
use agent_core::words::{AuditLine, ComponentRecord};
use futures::TryFutureExt as _;

use super::failure::failed;
use super::statements;
use crate::sql::listener::TOOLS;
use crate::sql::text_columns::{escape, unescape};
use crate::sql::transaction::{SqlTransaction, in_transaction};
use crate::sql::{SqlPool, answer, reading};

/// One statement, which reads one row.
pub(super) async fn revision(pool: &SqlPool) -> VersionsResult<u64> {
    let revision: i64 =
        reading!(pool, db => sqlx::query_scalar(statements::REVISION).fetch_one(db)).map_err(failed)?;
    Ok(revision.unsigned_abs())
}

/// The revision of the store; name, revision and JSON of a record.
type RecordRow = (i64, Option<String>, Option<i64>, Option<String>);

/// One statement, so that revision and records are of one moment.
pub(super) async fn all(pool: &SqlPool) -> VersionsResult<Records> {
    let rows: Vec<RecordRow> =
        reading!(pool, db => sqlx::query_as(statements::RECORDS).fetch_all(db)).map_err(failed)?;
    let mut records = Records::default();
    for (of_store, name, revision, json) in rows {
        records.revision = of_store.unsigned_abs();
        let (Some(name), Some(revision), Some(json)) = (name, revision, json) else { continue };
        let name = unescape(name);
        match decode_record(&name, &json) {
            Ok(record) => {
                let versioned = Versioned { revision: revision.unsigned_abs(), record };
                records.components.insert(name, versioned);
            }
            Err(error) => tracing::warn!(component = name, %error, "a record of tool versions is left out"),
        }
    }
    Ok(records)
}

pub(super) async fn find(pool: &SqlPool, name: &str) -> VersionsResult<Option<Versioned>> {
    let row: Option<(i64, String)> = reading!(pool, db => {
        sqlx::query_as(statements::RECORD).bind(escape(name)).fetch_optional(db)
    })
    .map_err(failed)?;
    let Some((revision, json)) = row else { return Ok(None) };
    Ok(Some(Versioned { revision: revision.unsigned_abs(), record: decode_record(name, &json)? }))
}

/// What is written about one component.
pub(super) struct RecordWrite<'a> {
    name: Cow<'a, str>,
    expected: i64,
    record: String,
    /// An array of JSON.
    digests: String,
    trial: Option<Cow<'a, str>>,
    first_calls: Option<String>,
    audit: String,
}

impl<'a> RecordWrite<'a> {
    pub(super) fn new(
        name: &'a str,
        expected: u64,
        record: &'a ComponentRecord,
        audit: &AuditLine,
    ) -> VersionsResult<Self> {
        let digests: Vec<_> = needed_digests(record).into_iter().map(escape).collect();
        Ok(Self {
            name: escape(name),
            // No record has a revision that has none after it.
            expected: i64::try_from(expected)
                .ok()
                .filter(|expected| *expected < i64::MAX)
                .ok_or(VersionsError::Conflict)?,
            record: encode_record(name, record)?,
            digests: serde_json::Value::from_iter(digests).to_string(),
            trial: record.trial.as_ref().map(|trial| escape(&trial.id)),
            first_calls: record.first_calls_id(name).map(|id| escape(&id).into_owned()),
            audit: encode_audit_line(name, audit)?,
        })
    }

    /// Answers the record's new revision.
    pub(super) async fn commit(&self, pool: &SqlPool) -> VersionsResult<u64> {
        let is_written = answer(async {
            let mut transaction = SqlTransaction::begin(pool).await?;
            if !self.swap(&mut transaction).await? {
                return transaction.rollback().await.map(|()| false);
            }
            self.note_digests(&mut transaction).await?;
            self.append_audit_line(&mut transaction).await?;
            transaction.commit().await.map(|()| true)
        });
        if !is_written.await.map_err(failed)? {
            return Err(VersionsError::Conflict);
        }
        Ok(self.expected.unsigned_abs() + 1)
    }

    /// False if the record has another revision. Of several who expect the same one, all but one wait here
    /// until that one has committed, and then find another revision.
    async fn swap(&self, transaction: &mut SqlTransaction) -> sqlx::Result<bool> {
        let statement =
            if self.expected == 0 { statements::INSERT_RECORD } else { statements::REPLACE_RECORD };
        let swapped = in_transaction!(*transaction, db => {
            let query = sqlx::query(statement).bind(&*self.name).bind(self.expected).bind(&self.record);
            let query = query.bind(self.trial.as_deref()).bind(self.first_calls.as_deref());
            query.execute(db).map_ok(|done| done.rows_affected())
        })?;
        Ok(swapped > 0)
    }

    async fn note_digests(&self, transaction: &mut SqlTransaction) -> sqlx::Result<()> {
        in_transaction!(*transaction, db => {
            sqlx::query(statements::FORGET_DIGESTS).bind(&*self.name).execute(db).map_ok(drop)
        })?;
        let note = match transaction {
            SqlTransaction::Postgres(_) => statements::NOTE_DIGESTS_IN_POSTGRES,
            SqlTransaction::Sqlite(_) => statements::NOTE_DIGESTS_IN_SQLITE,
        };
        in_transaction!(*transaction, db => {
            sqlx::query(note).bind(&*self.name).bind(&self.digests).execute(db).map_ok(drop)
        })
    }

    /// Under the new revision of the store, so that lines are in the order of the writes. Others hear of it
    /// once it is committed.
    async fn append_audit_line(&self, transaction: &mut SqlTransaction) -> sqlx::Result<()> {
        let revision: i64 = in_transaction!(*transaction, db => {
            sqlx::query_scalar(statements::RAISE_REVISION).fetch_one(db)
        })?;
        in_transaction!(*transaction, db => {
            let query = sqlx::query(statements::INSERT_AUDIT_LINE).bind(revision).bind(&*self.name);
            query.bind(&self.audit).execute(db).map_ok(drop)
        })?;
        match transaction {
            SqlTransaction::Sqlite(_) => Ok(()),
            SqlTransaction::Postgres(_) => in_transaction!(*transaction, db => {
                sqlx::query(statements::ANNOUNCE_IN_POSTGRES).bind(TOOLS).execute(db).map_ok(drop)
            }),
        }
    }
}

pub(super) async fn audit(pool: &SqlPool, name: &str, most: u32) -> VersionsResult<Vec<AuditLine>> {
    let lines: Vec<String> = reading!(pool, db => {
        let query = sqlx::query_scalar(statements::AUDIT).bind(escape(name));
        query.bind(i64::from(most.min(MOST_AUDIT_LINES))).fetch_all(db)
    })
    .map_err(failed)?;
    let decode = |line: &String| {
        let line = decode_audit_line(name, line);
        line.inspect_err(|error| tracing::warn!(component = name, %error, "an audit line is left out")).ok()
    };
    Ok(lines.iter().filter_map(decode).collect())
}
