//! A page of a user's jobs, read by parts: results may have megabytes each, and a hundred of them would be in
//! memory at once, several times.

use agent_core::ports::{JobQueue, QueueError};
use agent_core::words::{Job, JobPage, JobQuery};

/// How many jobs that may have results are read at once.
const PART: usize = 10;

/// A page ends behind the part with which its results have so many bytes.
const MOST_BYTES: usize = 8 << 20;

/// Some of a user's jobs, the newest first. Those that are not to be kept are passed over and counted like
/// the others. The page has a cursor although it has fewer jobs than wanted when their results are large.
pub(crate) async fn read_page(
    queue: &dyn JobQueue,
    wanted: &JobQuery<'_>,
    keeps: fn(&Job) -> bool,
) -> Result<JobPage, QueueError> {
    let may_have_results = wanted.status.is_none_or(|status| status.has_ended());
    let most_at_once = if may_have_results { PART } else { wanted.limit };
    let (mut page, mut read) = (JobPage { jobs: Vec::new(), next_cursor: None }, 0);
    loop {
        let limit = wanted.limit.saturating_sub(read).min(most_at_once);
        let cursor = page.next_cursor.as_deref().or(wanted.cursor);
        let part = queue.list(&JobQuery { limit, cursor, ..*wanted }).await?;
        read += part.jobs.len();
        page.jobs.extend(part.jobs.into_iter().filter(keeps));
        page.next_cursor = part.next_cursor;
        let results = page.jobs.iter().filter_map(|job| job.result.as_ref());
        let bytes: usize = results.map(|result| result.get().len()).sum();
        if page.next_cursor.is_none() || read >= wanted.limit || bytes >= MOST_BYTES {
            return Ok(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::TestQueue;
    use agent_core::words::{JobData, JobStatus};
    use serde_json::value::to_raw_value;

    use super::*;

    #[tokio::test]
    async fn a_page_is_whole_unless_its_results_are_large_and_none_is_missing_behind_it() {
        let queue = TestQueue::default();
        for _ in 0..3 * PART {
            queue.add(&JobData::new("q", "u1")).await.unwrap();
        }
        let wanted = JobQuery { user_id: "u1", status: None, limit: 25, cursor: None };
        let all = |_: &Job| true;
        let whole = read_page(&queue, &wanted, all).await.unwrap();
        assert_eq!((whole.jobs.len(), whole.next_cursor.is_some()), (25, true));
        let last = JobQuery { cursor: whole.next_cursor.as_deref(), ..wanted };
        let last = read_page(&queue, &last, all).await.unwrap();
        assert_eq!((last.jobs.len(), last.next_cursor), (5, None));

        let large = to_raw_value(&"x".repeat(MOST_BYTES / PART)).unwrap();
        let newest: Vec<_> = whole.jobs.into_iter().map(|job| job.id).collect();
        for id in &newest[..PART] {
            queue.change(id, |job| {
                (job.status, job.result) = (JobStatus::Completed, Some(large.clone()));
            });
        }
        let short = read_page(&queue, &wanted, all).await.unwrap();
        let ids: Vec<_> = short.jobs.iter().map(|job| &job.id).collect();
        assert_eq!(ids, newest[..PART].iter().collect::<Vec<_>>());
        let behind = JobQuery { cursor: short.next_cursor.as_deref(), ..wanted };
        assert_eq!(read_page(&queue, &behind, all).await.unwrap().jobs[0].id, newest[PART]);

        let open = read_page(&queue, &wanted, |job| !job.status.has_ended()).await.unwrap();
        assert_eq!(open.jobs.len(), 25 - PART, "what is not kept makes no page shorter");
    }
}
