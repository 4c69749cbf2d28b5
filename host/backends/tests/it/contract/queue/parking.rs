//! Jobs whose runs wait for somebody.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use agent_core::ports::{AttemptEnd, QueueError};
use agent_core::words::{
    CancelOutcome, JobData, JobQuery, JobStatus, OpenKinds, ParkedRun, WaitDepth, WaitKind,
};

use super::{
    Bench, add, add_and_claim, assert_nothing_to_claim, claim_next, completed, data, failed, read, status,
    wanted,
};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);

/// Adds a job and parks it; its wait expires in that time.
async fn parked(bench: &Bench, within: Duration) -> String {
    let (id, claim) = add_and_claim(bench, "pay").await;
    bench.queue.settle(&claim, &parked_for(within, &[])).await.unwrap();
    id
}

/// The end of an attempt whose run waits for something of each kind, since a minute ago.
fn parked_for(within: Duration, kinds: &[WaitKind]) -> AttemptEnd {
    AttemptEnd::Parked { until: SystemTime::now() + within, open: since_a_minute(kinds) }
}

fn since_a_minute(kinds: &[WaitKind]) -> OpenKinds {
    let since = SystemTime::now() - Duration::from_secs(60);
    let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let bit = |kind: &WaitKind| 1 << WaitKind::ALL.iter().position(|other| other == kind).unwrap();
    OpenKinds { bits: kinds.iter().map(bit).sum(), since: since.try_into().unwrap() }
}

/// How many runs wait for something of each kind, as both processes see it.
async fn waits(bench: &Bench) -> [u64; 5] {
    let [own, peers] = [bench.queue.depth().await.unwrap(), bench.peer.depth().await.unwrap()];
    for depth in [own, peers] {
        for kind in WaitKind::ALL {
            let WaitDepth { runs, oldest } = depth.waits_for(kind);
            let is_right = |age: Duration| (58..90).contains(&age.as_secs());
            assert_eq!(oldest.is_some(), runs > 0, "{depth:?}");
            assert!(oldest.is_none_or(is_right), "{depth:?}");
        }
    }
    let counted = own.waits.map(|depth| depth.runs);
    assert_eq!(counted, peers.waits.map(|depth| depth.runs));
    counted
}

pub(crate) async fn depth_counts_what_is_waited_for_by_kind(bench: &Bench) {
    use WaitKind::{Approval, Child, Question, Timer};
    let park = async |within, kinds: &[WaitKind]| {
        let (id, claim) = add_and_claim(bench, "pay").await;
        bench.queue.settle(&claim, &parked_for(within, kinds)).await.unwrap();
        id
    };
    assert_eq!(waits(bench).await, [0; 5]);
    let both = park(LONG, &[Approval, Timer]).await;
    let question = park(LONG, &[Question]).await;
    let unwanted = park(LONG, &[Question, Child]).await;
    park(LONG, &[]).await;
    assert_eq!(waits(bench).await, [1, 2, 1, 0, 1]);
    // One that a request's run is handed over to counts from its beginning.
    let goes_on = Some(ParkedRun {
        run_id: "run_01a204ec6206715fbb305322b42db990".into(),
        until: SystemTime::now() + LONG,
        open: since_a_minute(&[Approval]),
    });
    let handed_over = JobData { goes_on, ..data("u1", "pay").with_id("01a204ec6206715fbb305322b42db980") };
    for queue in [&bench.queue, &bench.peer] {
        queue.add(&handed_over).await.unwrap();
    }
    assert_eq!(waits(bench).await, [2, 2, 1, 0, 1]);
    // One that is to go on soon still waits; decided, it does not.
    assert_eq!(bench.peer.resume(&both, LONG / 2).await, Ok(true));
    assert_eq!(bench.peer.cancel(&unwanted).await.unwrap(), CancelOutcome::Done);
    assert_eq!(waits(bench).await, [2, 1, 1, 0, 0]);
    for id in [&both, &question] {
        assert_eq!(bench.peer.resume(id, Duration::ZERO).await, Ok(true));
    }
    assert_eq!(waits(bench).await, [1, 0, 0, 0, 0]);
    // Parked anew, it waits for what it waits for by then.
    let claims = [claim_next(&*bench.queue, "worker").await, claim_next(&*bench.queue, "worker").await];
    let [first, second] =
        claims.each_ref().map(|claim| if claim.job_id == both { &[Timer][..] } else { &[] });
    bench.queue.settle(&claims[0], &parked_for(LONG, first)).await.unwrap();
    bench.queue.settle(&claims[1], &parked_for(LONG, second)).await.unwrap();
    assert_eq!(waits(bench).await, [1, 0, 1, 0, 0]);
    // One whose wait has expired is claimed, and waits no longer.
    let expired = park(Duration::from_millis(300), &[Child]).await;
    assert_eq!(claim_next(&*bench.peer, "another").await.job_id, expired);
    assert_eq!(waits(bench).await, [1, 0, 1, 0, 0]);
}

pub(crate) async fn a_parked_job_is_claimed_by_nobody_until_it_is_resumed(bench: &Bench) {
    let id = parked(bench, LONG).await;
    let job = read(bench, &id).await;
    assert_eq!((job.status, job.attempts_made, job.finished_at), (JobStatus::Parked, 0, None));
    assert_nothing_to_claim(bench).await;
    let other = add(bench, "another").await;
    assert_eq!(bench.peer.resume(&id, Duration::ZERO).await, Ok(true));
    assert_eq!(status(bench, &id).await, JobStatus::Waiting);
    assert_eq!(bench.peer.resume(&id, Duration::ZERO).await, Ok(false), "once");
    let mut claims = [claim_next(&*bench.queue, "worker").await, claim_next(&*bench.queue, "worker").await];
    claims.sort_by_key(|claim| claim.job_id != id);
    let [claim, next] = claims;
    assert_eq!((&claim.job_id, &next.job_id, claim.attempts_made), (&id, &other, 0));
    assert_eq!(claim.run_id, job.run_id, "the run goes on");
    for claim in [claim, next] {
        bench.queue.settle(&claim, &completed("1")).await.unwrap();
    }
    assert_eq!(status(bench, &id).await, JobStatus::Completed);
}

pub(crate) async fn whoever_waits_gets_a_job_that_another_process_resumes(bench: &Bench) {
    let id = parked(bench, LONG).await;
    let (claim, resumed) = tokio::join!(claim_next(&*bench.queue, "worker"), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        bench.peer.resume(&id, Duration::ZERO).await
    });
    assert_eq!((claim.job_id, resumed), (id, Ok(true)));
}

pub(crate) async fn a_parked_job_is_claimed_when_its_wait_expires(bench: &Bench) {
    let began = Instant::now();
    let id = parked(bench, Duration::from_secs(1)).await;
    let claim = claim_next(&*bench.peer, "another").await;
    assert_eq!((&claim.job_id, claim.attempts_made), (&id, 0));
    assert!(began.elapsed() >= Duration::from_millis(990), "it was taken too early");
    // Taken up too early by its run, it is parked again.
    bench.peer.settle(&claim, &parked_for(LONG, &[])).await.unwrap();
    assert_eq!(status(bench, &id).await, JobStatus::Parked);
    assert_nothing_to_claim(bench).await;
}

pub(crate) async fn one_that_is_to_be_resumed_is_claimed_then_and_parked_until_then(bench: &Bench) {
    let id = parked(bench, LONG).await;
    let began = Instant::now();
    assert_eq!(bench.queue.resume(&id, Duration::from_secs(1)).await, Ok(true));
    assert_eq!(bench.peer.resume(&id, LONG).await, Ok(true), "it is not put off");
    assert_eq!(status(bench, &id).await, JobStatus::Parked);
    let claim = claim_next(&*bench.queue, "worker").await;
    assert_eq!(claim.job_id, id);
    assert!(began.elapsed() >= Duration::from_millis(990), "it was taken too early");
}

pub(crate) async fn a_run_that_goes_on_is_claimed_before_what_nobody_has_begun(bench: &Bench) {
    let resumed = parked(bench, LONG).await;
    let expired = parked(bench, Duration::from_millis(300)).await;
    for _ in 0..3 {
        add(bench, "not begun").await;
    }
    assert_eq!(bench.peer.resume(&resumed, Duration::ZERO).await, Ok(true));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut claimed = BTreeSet::new();
    for queue in [&bench.queue, &bench.peer] {
        claimed.insert(claim_next(&**queue, "worker").await.job_id);
    }
    assert_eq!(claimed, [resumed, expired].into());
}

pub(crate) async fn a_job_that_goes_on_with_a_run_is_parked_from_its_beginning(bench: &Bench) {
    let until = SystemTime::now() + LONG;
    for (number, ends) in [(1, true), (2, false)] {
        let run_id = format!("run_01a204ec6206715fbb305322b42db99{number}");
        let job_id = format!("01a204ec6206715fbb305322b42db98{number}");
        let goes_on = Some(ParkedRun { run_id: run_id.clone(), until, open: OpenKinds::default() });
        let job = JobData { goes_on, ..data("u1", "pay").with_id(&job_id) };
        let id = bench.queue.add(&job).await.unwrap();
        let job = read(bench, &id).await;
        assert_eq!((job.status, &job.run_id, job.attempts_made), (JobStatus::Parked, &run_id, 0));
        assert_nothing_to_claim(bench).await;
        assert_eq!(bench.peer.list_parked(10, None).await.unwrap().jobs.len(), 1);
        if !ends {
            assert_eq!(bench.peer.cancel(&id).await.unwrap(), CancelOutcome::Done);
            assert_eq!(status(bench, &id).await, JobStatus::Cancelled);
            continue;
        }
        assert_eq!(bench.peer.resume(&id, Duration::ZERO).await, Ok(true));
        let claim = claim_next(&*bench.queue, "worker").await;
        assert_eq!((&claim.job_id, &claim.run_id, claim.earlier.are_none), (&id, &run_id, false));
        assert_eq!(claim.data.as_ref().unwrap().query, "pay");
        bench.queue.settle(&claim, &completed("1")).await.unwrap();
        assert_eq!(read(bench, &id).await.run_id, run_id);
    }
}

/// By whoever hands a run over and had no answer: somebody may have decided meanwhile.
pub(crate) async fn a_job_that_goes_on_is_not_parked_when_it_is_added_again(bench: &Bench) {
    let (run_id, job_id) = ("run_01a204ec6206715fbb305322b42db950", "01a204ec6206715fbb305322b42db951");
    let until = SystemTime::now() + LONG;
    let goes_on =
        Some(ParkedRun { run_id: run_id.into(), until, open: since_a_minute(&[WaitKind::Approval]) });
    let job = JobData { goes_on, ..data("u1", "pay").with_id(job_id) };
    let id = bench.queue.add(&job).await.unwrap();
    assert_eq!(bench.peer.resume(&id, Duration::ZERO).await, Ok(true));
    assert_eq!(bench.queue.add(&job).await, Ok(id.clone()));
    assert_eq!((status(bench, &id).await, waits(bench).await), (JobStatus::Waiting, [0; 5]));
    let claim = claim_next(&*bench.queue, "worker").await;
    assert_eq!((&claim.job_id, claim.run_id.as_str()), (&id, run_id));
    bench.peer.add(&job).await.unwrap();
    assert_eq!(status(bench, &id).await, JobStatus::Active);
    bench.queue.settle(&claim, &completed("1")).await.unwrap();
    assert_nothing_to_claim(bench).await;
}

/// A job whose run another run began: due behind those that wait already, however often it is added, and
/// known as that.
pub(crate) async fn a_child_is_claimed_in_its_turn_and_names_its_parent(bench: &Bench) {
    let before = bench.queue.add(&data("u2", "look")).await.unwrap();
    // Within one millisecond jobs are claimed by their ids.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let (run_id, job_id) = ("run_01a204ec6206715fbb305322b42db970", "01a204ec6206715fbb305322b42db970");
    let goes_on =
        Some(ParkedRun { run_id: run_id.into(), until: SystemTime::UNIX_EPOCH, open: OpenKinds::default() });
    let parent = Some("01a204ec6206715fbb305322b42db971:1.0".to_owned());
    let job = JobData { goes_on, parent: parent.clone(), ..data("u1", "look").with_id(job_id) };
    for queue in [&bench.queue, &bench.peer] {
        assert_eq!(queue.add(&job).await.unwrap(), job_id);
    }
    let listed =
        bench.peer.list(&JobQuery { user_id: "u1", status: None, limit: 5, cursor: None }).await.unwrap();
    assert_eq!((listed.jobs.len(), &listed.jobs[0].parent), (1, &parent));
    assert_eq!(claim_next(&*bench.queue, "worker").await.job_id, before);
    let claim = claim_next(&*bench.queue, "worker").await;
    let data = claim.data.as_ref().unwrap();
    assert_eq!((claim.run_id.as_str(), &data.parent, claim.earlier.are_none), (run_id, &parent, false));
    bench.queue.settle(&claim, &completed("1")).await.unwrap();
    // Whoever adds it again begins nothing.
    bench.queue.add(&job).await.unwrap();
    assert_nothing_to_claim(bench).await;
    let ended = read(bench, job_id).await;
    assert_eq!((ended.status, ended.parent, ended.run_id.as_str()), (JobStatus::Completed, parent, run_id));
}

pub(crate) async fn a_parked_job_is_cancelled_at_once(bench: &Bench) {
    let id = parked(bench, LONG).await;
    assert_eq!(bench.peer.cancel(&id).await.unwrap(), CancelOutcome::Done);
    let job = read(bench, &id).await;
    assert_eq!(job.status, JobStatus::Cancelled);
    assert!(job.finished_at.is_some());
    assert_eq!(bench.queue.resume(&id, Duration::ZERO).await, Ok(false));
    assert_nothing_to_claim(bench).await;
}

pub(crate) async fn one_that_was_to_be_cancelled_is_not_parked(bench: &Bench) {
    let (id, claim) = add_and_claim(bench, "unwanted").await;
    assert_eq!(bench.peer.cancel(&id).await.unwrap(), CancelOutcome::Asked);
    bench.queue.settle(&claim, &parked_for(LONG, &[])).await.unwrap();
    assert_eq!(status(bench, &id).await, JobStatus::Cancelled);
}

pub(crate) async fn only_what_is_parked_is_resumed(bench: &Bench) {
    assert_eq!(bench.queue.resume("none", Duration::ZERO).await, Ok(false));
    let id = add(bench, "job").await;
    assert_eq!(bench.queue.resume(&id, Duration::ZERO).await, Ok(false), "it waits");
    let claim = claim_next(&*bench.queue, "worker").await;
    assert_eq!(bench.queue.resume(&id, Duration::ZERO).await, Ok(false), "it is worked on");
    bench.queue.settle(&claim, &parked_for(LONG, &[])).await.unwrap();
    assert_eq!(bench.queue.resume(&id, Duration::ZERO).await, Ok(true));
    let claim = claim_next(&*bench.queue, "worker").await;
    bench.queue.settle(&claim, &failed("not yet", true)).await.unwrap();
    assert_eq!(status(bench, &id).await, JobStatus::Delayed, "it waits for nobody any more");
    assert_eq!(bench.queue.resume(&id, Duration::ZERO).await, Ok(false));
}

pub(crate) async fn parked_jobs_of_everybody_are_listed_in_the_order_they_are_due(bench: &Bench) {
    let later = parked(bench, 2 * LONG).await;
    let sooner = parked(bench, LONG).await;
    add(bench, "another").await;
    let claim = claim_next(&*bench.queue, "worker").await;
    bench.queue.settle(&claim, &failed("not yet", true)).await.unwrap();
    // Several that are due in the same millisecond.
    let until = SystemTime::now() + 3 * LONG;
    let last = [0, 1, 2].map(|number| format!("01a204ec6206715fbb305322b42db96{number}"));
    for id in &last {
        let goes_on = Some(ParkedRun { run_id: format!("run_{id}"), until, open: OpenKinds::default() });
        bench.queue.add(&JobData { goes_on, ..data("u1", "pay").with_id(id) }).await.unwrap();
    }
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = bench.peer.list_parked(1, cursor.as_deref()).await.unwrap();
        assert!(page.jobs.len() <= 1);
        found.extend(page.jobs.into_iter().map(|job| job.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let due_together = found.split_off(2);
    assert_eq!(found, [sooner, later]);
    assert_eq!(due_together.into_iter().collect::<BTreeSet<_>>(), last.into(), "each once");
    for foreign in ["x", "", "1", "x-1"] {
        assert_eq!(bench.queue.list_parked(1, Some(foreign)).await.unwrap_err(), QueueError::BadCursor);
    }
}

pub(crate) async fn parked_jobs_are_listed_as_such(bench: &Bench) {
    let ids = [parked(bench, LONG).await, parked(bench, LONG).await];
    let other = add(bench, "another").await;
    let parked_only = JobQuery { status: Some(JobStatus::Parked), ..wanted("u1") };
    let page = bench.peer.list(&parked_only).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| &job.id).collect::<Vec<_>>(), [&ids[1], &ids[0]]);
    let page = bench.peer.list(&JobQuery { limit: 1, ..parked_only }).await.unwrap();
    assert_eq!((page.jobs.len(), page.next_cursor.is_some()), (1, true));
    let others = JobQuery { status: Some(JobStatus::Waiting), ..wanted("u1") };
    let page = bench.peer.list(&others).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| &job.id).collect::<Vec<_>>(), [&other]);
    assert!(bench.peer.list(&JobQuery { user_id: "u2", ..parked_only }).await.unwrap().jobs.is_empty());
}
