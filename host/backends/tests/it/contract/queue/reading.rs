//! Adding, reading, listing and counting jobs.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use agent_core::ports::{AttemptEnd, QueueError};
use agent_core::words::{Depth, JobQuery, JobStatus};
use test_servers::eventually;

use super::{Bench, add, claim_next, completed, data, failed, read, wanted};
use crate::contract::text::{NASTY, long};

/// Clocks of stores count whole milliseconds, and a server has one of its own.
const CLOCK: Duration = Duration::from_secs(1);

pub(crate) async fn a_job_is_read_as_it_was_added(bench: &Bench) {
    let before = SystemTime::now() - CLOCK;
    let id = bench.queue.add(&data("u1", "What is 2 + 3?")).await.unwrap();
    let after = SystemTime::now() + CLOCK;
    for queue in [&bench.queue, &bench.peer] {
        let job = queue.read(&id).await.unwrap().expect("it was added");
        assert_eq!((job.id.as_str(), job.user_id.as_str()), (id.as_str(), "u1"));
        assert_eq!((job.status, job.attempts_made), (JobStatus::Waiting, 0));
        assert!(job.result.is_none() && job.error.is_none());
        assert!(before <= job.created_at && job.created_at <= after, "{:?}", job.created_at);
        assert!(job.started_at.is_none() && job.finished_at.is_none());
    }
}

/// Whoever cancels a job between two attempts finds its run by that.
pub(crate) async fn a_job_names_the_run_of_its_attempts(bench: &Bench) {
    let id = add(bench, "q").await;
    let before = read(bench, &id).await.run_id;
    for _ in 0..2 {
        let claim = claim_next(&*bench.queue, "worker").await;
        assert_eq!((&claim.run_id, &read(bench, &id).await.run_id), (&before, &before));
        bench.queue.settle(&claim, &AttemptEnd::HANDED_BACK).await.unwrap();
        assert_eq!(read(bench, &id).await.run_id, before);
    }
}

pub(crate) async fn jobs_hold_any_text(bench: &Bench) {
    for text in [NASTY.to_owned(), long()] {
        let job = data(NASTY, &text);
        let id = bench.queue.add(&job).await.unwrap();
        let claim = claim_next(&*bench.queue, "worker").await;
        assert_eq!(claim.data.as_ref(), Ok(&job));
        bench.queue.settle(&claim, &failed(&text, true)).await.unwrap();
        assert_eq!(read(bench, &id).await.error.as_deref(), Some(text.as_str()));

        let claim = claim_next(&*bench.queue, "worker").await;
        let result = serde_json::to_string(&text).unwrap();
        bench.queue.settle(&claim, &completed(&result)).await.unwrap();
        let job = read(bench, &id).await;
        assert_eq!(job.user_id, NASTY);
        assert_eq!(job.result.expect("a result").get(), result);
    }
    assert_eq!(bench.queue.list(&wanted(NASTY)).await.unwrap().jobs.len(), 2);
}

pub(crate) async fn an_unknown_job_is_none(bench: &Bench) {
    add(bench, "another").await;
    let texts = ["none", "", "0", "-1", "1.0", "999999", "🦀", "\0", "a:b", "*", "' OR 1=1 --"];
    // On Redis the queue keeps other things beside its jobs under these.
    let keys = ["id", "meta", "wait"];
    for id in texts.into_iter().chain(keys).chain([&*"x".repeat(5_000)]) {
        assert!(bench.queue.read(id).await.unwrap().is_none(), "{id:?}");
    }
}

pub(crate) async fn jobs_are_listed_newest_first_page_by_page(bench: &Bench) {
    let mut ids = Vec::new();
    for number in 0..7 {
        ids.push(add(bench, &number.to_string()).await);
    }
    ids.reverse();
    for limit in [1, 3, 7, 100] {
        assert_eq!(list_all(bench, JobQuery { limit, ..wanted("u1") }).await, ids, "in pages of {limit}");
    }
    assert_eq!(list_all(bench, wanted("u2")).await, [""; 0]);
}

pub(crate) async fn a_user_sees_only_their_own_jobs(bench: &Bench) {
    let users = ["u1", "u10", "U1", "u1 ", "", "*", "u1:", "🦀"];
    let mut jobs = Vec::new();
    for user in users {
        jobs.push(bench.queue.add(&data(user, "theirs")).await.unwrap());
    }
    for (user, id) in users.into_iter().zip(jobs) {
        assert_eq!(list_all(bench, wanted(user)).await, [id], "of {user:?}");
    }
}

pub(crate) async fn a_list_may_want_one_status(bench: &Bench) {
    let mut expected = Vec::new();
    for (status, end) in [(JobStatus::Completed, completed("1")), (JobStatus::Failed, failed("no", false))] {
        expected.push((status, add(bench, "job").await));
        let claim = claim_next(&*bench.queue, "worker").await;
        bench.queue.settle(&claim, &end).await.unwrap();
    }
    expected.push((JobStatus::Active, add(bench, "job").await));
    claim_next(&*bench.queue, "worker").await;
    let cancelled = add(bench, "job").await;
    bench.queue.cancel(&cancelled).await.unwrap();
    expected.push((JobStatus::Cancelled, cancelled));
    let delayed = add(bench, "job").await;
    let claim = claim_next(&*bench.queue, "worker").await;
    expected.push((JobStatus::Waiting, add(bench, "job").await));
    bench.queue.settle(&claim, &failed("not yet", true)).await.unwrap();
    // First of all, before its time comes.
    expected.insert(0, (JobStatus::Delayed, delayed));
    for (status, id) in expected {
        let wanted = JobQuery { status: Some(status), limit: 1, ..wanted("u1") };
        assert_eq!(list_all(bench, wanted).await, [id], "{status:?}");
    }
}

pub(crate) async fn a_page_stays_where_it_is_while_jobs_are_added(bench: &Bench) {
    let first = add(bench, "first").await;
    let second = add(bench, "second").await;
    let page = bench.queue.list(&JobQuery { limit: 1, ..wanted("u1") }).await.unwrap();
    assert_eq!(page.jobs[0].id, second);
    add(bench, "third").await;
    let cursor = page.next_cursor.expect("there is more");
    let page = bench.peer.list(&JobQuery { cursor: Some(&cursor), ..wanted("u1") }).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| &job.id).collect::<Vec<_>>(), [&first]);
    assert_eq!(page.next_cursor, None);
}

pub(crate) async fn a_foreign_cursor_is_refused(bench: &Bench) {
    add(bench, "job").await;
    for cursor in ["", "no cursor", "-1", "🦀", "\0", "' OR 1=1 --", &"9".repeat(5_000)] {
        let wanted = JobQuery { cursor: Some(cursor), ..wanted("u1") };
        assert_eq!(bench.queue.list(&wanted).await.unwrap_err(), QueueError::BadCursor, "{cursor:?}");
    }
}

pub(crate) async fn depth_counts_what_has_not_ended(bench: &Bench) {
    assert_eq!(bench.queue.depth().await.unwrap(), Depth::default());
    for end in [completed("1"), failed("no", false)] {
        add(bench, "job").await;
        let claim = claim_next(&*bench.queue, "worker").await;
        bench.queue.settle(&claim, &end).await.unwrap();
    }
    for _ in 0..3 {
        add(bench, "job").await;
    }
    let mut claims = Vec::new();
    for _ in 0..3 {
        claims.push(claim_next(&*bench.queue, "worker").await);
    }
    bench.queue.settle(&claims[0], &failed("not yet", true)).await.unwrap();
    let depth = bench.queue.depth().await.unwrap();
    assert_eq!(depth, Depth { waiting: 0, active: 2, delayed: 1, oldest_waiting: None, ..Depth::default() });
    for _ in 0..3 {
        add(bench, "job").await;
    }
    let depth = bench.peer.depth().await.unwrap();
    assert_eq!((depth.waiting, depth.active), (3, 2));
}

pub(crate) async fn depth_says_how_long_the_oldest_has_waited(bench: &Bench) {
    add(bench, "old").await;
    let wait = Duration::from_millis(50);
    eventually("the job to have waited for a while", async || {
        let waited = bench.queue.depth().await.unwrap().oldest_waiting.expect("one waits");
        (waited >= wait).then_some(())
    })
    .await;
    add(bench, "young").await;
    assert!(bench.queue.depth().await.unwrap().oldest_waiting.expect("two wait") >= wait);
}

/// The ids of all pages.
async fn list_all(bench: &Bench, wanted: JobQuery<'_>) -> Vec<String> {
    let (mut ids, mut cursor, mut cursors) = (Vec::new(), None::<String>, HashSet::new());
    loop {
        let page = bench.queue.list(&JobQuery { cursor: cursor.as_deref(), ..wanted }).await.unwrap();
        assert!(page.jobs.len() <= wanted.limit);
        ids.extend(page.jobs.into_iter().map(|job| job.id));
        let Some(next) = page.next_cursor else { return ids };
        assert!(cursors.insert(next.clone()), "the cursor leads in a circle");
        cursor = Some(next);
    }
}
