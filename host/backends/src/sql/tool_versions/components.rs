//! The bytes of components.
//!
//! Bytes are a blob of chunks, each of which is written in a transaction of its own. Nobody sees a blob until
//! the row of the component names it, which is one statement: a component is there as a whole or not at all.
//! Two who keep the same component at once write a blob each, and the second removes its own. What was left
//! half-written is removed by `prune.rs`.

use agent_core::ports::tool_versions::{KeptComponent, MOST_COMPONENT_BYTES};
use agent_core::ports::{VersionsError, VersionsResult};
use futures::TryFutureExt as _;
use uuid::Uuid;

use super::failure::{failed, in_transfer_time};
use super::statements;
use crate::sql::from_row::from_row;
use crate::sql::text_columns::escape;
use crate::sql::{SqlPool, reading, writing};

/// How much is written at once: SQLite's one writer is held for some milliseconds.
const CHUNK_BYTES: usize = 1 << 20;

/// Keeps a component's bytes, unless they are there, and its signature if it has one.
pub(super) async fn keep(
    pool: &SqlPool,
    name: &str,
    digest: &str,
    component: &KeptComponent,
) -> VersionsResult {
    let (name, digest) = (&*escape(name), &*escape(digest));
    in_transfer_time(async {
        keep_bytes(pool, digest, component).await?;
        let Some(signature) = component.signature.as_deref() else { return Ok(()) };
        let kept = writing!(pool, db => {
            let query = sqlx::query(statements::KEEP_SIGNATURE).bind(name).bind(digest);
            query.bind(signature).execute(db).map_ok(drop)
        });
        kept.map_err(failed)
    })
    .await
}

/// Has a component consist of these bytes, whatever it consisted of: `prune.rs` removes that.
pub(super) async fn replace(pool: &SqlPool, digest: &str, component: &KeptComponent) -> VersionsResult {
    let (blob, digest) = (Uuid::now_v7().simple().to_string(), &*escape(digest));
    in_transfer_time(async {
        let kept = keep_as(pool, &blob, digest, component, statements::REPLACE_COMPONENT).await;
        kept.map(drop).map_err(failed)
    })
    .await
}

async fn keep_bytes(pool: &SqlPool, digest: &str, component: &KeptComponent) -> VersionsResult {
    if keep_again(pool, digest).await.map_err(failed)? {
        return Ok(());
    }
    let blob = Uuid::now_v7().simple().to_string();
    let kept = keep_as(pool, &blob, digest, component, statements::INSERT_COMPONENT).await;
    let is_unused = match &kept {
        Ok(used) => *used != blob,
        // Of a database that is gone nothing else is asked.
        Err(error) => matches!(error, sqlx::Error::Database(_)),
    };
    if is_unused && let Err(error) = remove_blob(pool, &blob).await {
        // The blob counts as half-written, and is removed later.
        tracing::debug!(error = %failed(error), "a component's bytes are not removed yet");
    }
    kept.map(drop).map_err(failed)
}

async fn keep_again(pool: &SqlPool, digest: &str) -> sqlx::Result<bool> {
    let rows = writing!(pool, db => {
        sqlx::query(statements::KEEP_AGAIN).bind(digest).execute(db).map_ok(|done| done.rows_affected())
    })?;
    Ok(rows > 0)
}

/// The bytes of all components.
pub(super) async fn kept_bytes(pool: &SqlPool) -> VersionsResult<u64> {
    let bytes: i64 =
        reading!(pool, db => sqlx::query_scalar(statements::KEPT_BYTES).fetch_one(db)).map_err(failed)?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}

/// Writes the bytes as a blob of that id, and has the component consist of it as the statement says. Answers
/// the id of the blob that it consists of now.
async fn keep_as(
    pool: &SqlPool,
    blob: &str,
    digest: &str,
    component: &KeptComponent,
    statement: &'static str,
) -> sqlx::Result<String> {
    writing!(pool, db => sqlx::query(statements::BEGIN_BLOB).bind(blob).execute(db).map_ok(drop))?;
    for (number, chunk) in (0_i64..).zip(component.bytes.chunks(CHUNK_BYTES)) {
        writing!(pool, db => {
            let query = sqlx::query(statements::INSERT_CHUNK).bind(blob).bind(number);
            query.bind(chunk).execute(db).map_ok(drop)
        })?;
    }
    let bytes = i64::try_from(component.bytes.len()).unwrap_or(i64::MAX);
    let used = writing!(pool, db => {
        sqlx::query_scalar(statement).bind(digest).bind(blob).bind(bytes).fetch_one(db)
    });
    // The writer's cache is full of its pages, and the next to read them is another start.
    if let SqlPool::Sqlite(pools) = pool
        && let Err(error) = pools.shrink_memory().await
    {
        tracing::debug!(error = %failed(error), "the memory of the writer was not given back");
    }
    used
}

/// Removes a blob, unless a component consists of it.
pub(super) async fn remove_blob(pool: &SqlPool, id: &str) -> sqlx::Result<()> {
    writing!(pool, db => sqlx::query(statements::REMOVE_BLOB).bind(id).execute(db).map_ok(drop))
}

from_row! {
    struct ComponentRow {
        blob: String,
        bytes: i64,
        signature: Option<Vec<u8>>,
    }
}

/// What is kept under a digest, with the signature of a name.
pub(super) async fn find(pool: &SqlPool, name: &str, digest: &str) -> VersionsResult<Option<KeptComponent>> {
    in_transfer_time(async {
        let mut read = None;
        loop {
            let Some(row) = find_row(pool, name, digest).await? else { return Ok(None) };
            if read.as_ref() == Some(&row.blob) {
                let problem = format!("some of its {} bytes are missing", row.bytes);
                return Err(VersionsError::Unreadable { name: digest.to_owned(), problem });
            }
            if let Some(bytes) = read_blob(pool, &row).await? {
                let signature = row.signature.map(Into::into);
                return Ok(Some(KeptComponent { bytes: bytes.into(), signature }));
            }
            // The component was removed meanwhile, and perhaps kept anew; or it is damaged if it is still
            // there.
            read = Some(row.blob);
        }
    })
    .await
}

async fn find_row(pool: &SqlPool, name: &str, digest: &str) -> VersionsResult<Option<ComponentRow>> {
    reading!(pool, db => {
        sqlx::query_as(statements::COMPONENT).bind(escape(digest)).bind(escape(name)).fetch_optional(db)
    })
    .map_err(failed)
}

/// The bytes, if all of them are there.
async fn read_blob(pool: &SqlPool, row: &ComponentRow) -> VersionsResult<Option<Vec<u8>>> {
    let size = usize::try_from(row.bytes).ok().filter(|size| *size <= MOST_COMPONENT_BYTES);
    let Some(size) = size else { return Ok(None) };
    let mut bytes = Vec::with_capacity(size);
    for number in 0_i64.. {
        if bytes.len() == size {
            break;
        }
        let chunk: Option<Vec<u8>> = reading!(pool, db => {
            sqlx::query_scalar(statements::CHUNK).bind(&row.blob).bind(number).fetch_optional(db)
        })
        .map_err(failed)?;
        let fits = |chunk: &Vec<u8>| !chunk.is_empty() && bytes.len() + chunk.len() <= size;
        let Some(chunk) = chunk.filter(fits) else { return Ok(None) };
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}
