//! The audit trail of tool versions: lines in the order of their revisions. When a line was written stands in
//! its text.

use std::time::SystemTime;

use agent_core::ports::{EndedItem, EndedPage};
use futures::TryFutureExt as _;
use serde::Deserialize;

use super::ids::{SqlPage, as_json, of_dialect, with_ids};
use crate::sql::{SqlPool, reading, to_ms, writing};

/// `$1` after which revision, `$2` most rows.
const LINES: &str = "SELECT revision, line FROM tool_audit WHERE revision > $1 ORDER BY revision LIMIT $2";

/// `$1` how many are newer.
const NTH_NEWEST: &str = "SELECT line FROM tool_audit ORDER BY revision DESC LIMIT 1 OFFSET $1";

/// The range `$2` to `$3` is what the primary key finds; the list is what is meant.
const REMOVE: [&str; 2] =
    with_ids!("DELETE FROM tool_audit WHERE revision BETWEEN $2 AND $3 AND CAST(revision AS TEXT)", "");

/// When a line was written, whatever else it says.
#[derive(Deserialize)]
struct Written {
    at: i64,
}

/// Lines up to the first that is younger. One that does not say when it was written stays.
pub(super) async fn written_before(
    pool: &SqlPool,
    before: SystemTime,
    from: Option<&str>,
    most: u32,
) -> SqlPage {
    let after: i64 = from.and_then(|from| from.parse().ok()).unwrap_or(i64::MIN);
    let rows: Vec<(i64, String)> =
        reading!(pool, db => sqlx::query_as(LINES).bind(after).bind(i64::from(most)).fetch_all(db))?;
    let is_full = rows.len() >= most as usize;
    let mut page = EndedPage {
        next: rows.last().filter(|_| is_full).map(|(revision, _)| revision.to_string()),
        ..EndedPage::default()
    };
    for (revision, line) in rows {
        match written_at(&line) {
            Some(at) if at < to_ms(before) => {
                page.items.push(EndedItem { id: revision.to_string(), job_id: None });
            }
            Some(_younger) => {
                page.next = None;
                break;
            }
            None => {}
        }
    }
    Ok(page)
}

pub(super) async fn remove(pool: &SqlPool, revisions: &[String]) -> sqlx::Result<u64> {
    let numbers = || revisions.iter().filter_map(|revision| revision.parse::<i64>().ok());
    let (first, last) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
    let revisions = as_json(revisions.iter());
    writing!(pool, db => {
        let query = sqlx::query(of_dialect(pool, REMOVE)).bind(&revisions).bind(first).bind(last);
        query.execute(db).map_ok(|done| done.rows_affected())
    })
}

pub(super) async fn nth_newest(pool: &SqlPool, newer: i64) -> sqlx::Result<Option<i64>> {
    let line: Option<String> =
        reading!(pool, db => sqlx::query_scalar(NTH_NEWEST).bind(newer).fetch_optional(db))?;
    Ok(line.and_then(|line| written_at(&line)))
}

pub(super) async fn oldest(pool: &SqlPool) -> sqlx::Result<Option<i64>> {
    let lines: Vec<(i64, String)> =
        reading!(pool, db => sqlx::query_as(LINES).bind(i64::MIN).bind(1_i64).fetch_all(db))?;
    Ok(lines.first().and_then(|(_, line)| written_at(line)))
}

fn written_at(line: &str) -> Option<i64> {
    serde_json::from_str::<Written>(line).ok().map(|written| written.at)
}
