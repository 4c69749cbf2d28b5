//! What every queue of jobs promises: `JobQueue`.

mod cancelling;
mod claiming;
mod finishing;
mod leases;
mod parking;
mod reading;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{AttemptEnd, Claim, JobQueue};
use agent_core::words::{Job, JobData, JobQuery, JobStatus};
use serde_json::value::RawValue;
use test_servers::PATIENCE;

pub(crate) use super::lease::*;
pub(crate) use cancelling::*;
pub(crate) use claiming::*;
pub(crate) use finishing::*;
pub(crate) use leases::*;
pub(crate) use parking::*;
pub(crate) use reading::*;

/// An empty queue.
pub(crate) struct Bench {
    /// As this process has it.
    pub(crate) queue: Arc<dyn JobQueue>,
    /// As another process has it.
    pub(crate) peer: Arc<dyn JobQueue>,
    /// How long its leases last: shorter than in life, that tests need not wait.
    pub(crate) lease: Duration,
    /// What has to live as long as the queue: its server, its folder, its tasks.
    pub(crate) _guard: Box<dyn Any + Send + Sync>,
}

/// A test of every case. The argument is the path of an `async fn() -> Bench`.
macro_rules! test_all {
    ($test:ident $benches:tt) => {
        crate::contract::lease::test_leased! { $test queue, $benches:
            // reading
            a_job_is_read_as_it_was_added,
            a_job_names_the_run_of_its_attempts,
            jobs_hold_any_text,
            an_unknown_job_is_none,
            jobs_are_listed_newest_first_page_by_page,
            a_user_sees_only_their_own_jobs,
            a_list_may_want_one_status,
            a_page_stays_where_it_is_while_jobs_are_added,
            a_foreign_cursor_is_refused,
            depth_counts_what_has_not_ended,
            depth_says_how_long_the_oldest_has_waited,
            // claiming
            jobs_are_claimed_in_the_order_they_were_added,
            an_empty_queue_gives_nothing,
            whoever_waits_gets_what_is_added,
            whoever_waits_gets_what_another_process_adds,
            each_job_is_claimed_by_one_of_many,
            one_that_stops_waiting_leases_nothing,
            a_run_id_belongs_to_one_job,
            a_claim_names_who_submitted_the_job,
            a_claim_has_the_options_of_its_job,
            a_job_under_a_chosen_id_is_added_once,
            // finishing
            a_completed_job_has_its_result,
            a_failed_attempt_is_made_again_later_and_not_for_ever,
            a_job_that_failed_for_good_can_be_tried_again,
            a_released_job_goes_to_the_front_and_counts_no_attempt,
            a_job_released_for_a_while_waits_that_long_and_counts_no_attempt,
            an_attempt_ends_once,
            an_end_that_is_told_again_is_the_same_end,
            the_end_of_an_attempt_may_claim_the_next_job,
            an_end_that_is_refused_claims_nothing,
            an_end_that_is_told_again_claims_one_job,
            the_end_of_a_parked_attempt_that_is_told_again_claims_one_job,
            attempts_that_end_at_once_claim_different_jobs,
            // cancelling
            a_waiting_job_is_cancelled_at_once,
            a_delayed_job_is_cancelled_at_once,
            whoever_works_on_a_job_is_asked_to_stop,
            a_job_that_has_ended_cannot_be_cancelled,
            a_cancelled_job_is_not_handed_to_anybody_else,
            a_result_that_came_before_the_stop_is_kept,
            a_final_failure_that_came_before_the_stop_is_kept,
            a_cancel_request_outlives_the_worker,
            a_cancel_request_outlives_being_reclaimed,
            a_cancelled_job_does_not_come_back_when_it_is_added_again,
            // parking
            a_parked_job_is_claimed_by_nobody_until_it_is_resumed,
            whoever_waits_gets_a_job_that_another_process_resumes,
            a_parked_job_is_claimed_when_its_wait_expires,
            one_that_is_to_be_resumed_is_claimed_then_and_parked_until_then,
            a_run_that_goes_on_is_claimed_before_what_nobody_has_begun,
            a_job_that_goes_on_with_a_run_is_parked_from_its_beginning,
            a_job_that_goes_on_is_not_parked_when_it_is_added_again,
            a_child_is_claimed_in_its_turn_and_names_its_parent,
            a_parked_job_is_cancelled_at_once,
            one_that_was_to_be_cancelled_is_not_parked,
            only_what_is_parked_is_resumed,
            parked_jobs_are_listed_as_such,
            depth_counts_what_is_waited_for_by_kind,
            parked_jobs_of_everybody_are_listed_in_the_order_they_are_due,
            // leases
            a_job_of_a_dead_worker_goes_to_another,
            a_restarted_worker_gives_its_predecessors_jobs_back_soon,
            one_life_of_the_server_has_one_name,
            a_late_reclaim_takes_nothing_that_was_claimed_or_renewed_since,
        }
    };
}
pub(crate) use test_all;

/// A job of `user` about `query`.
fn data(user: &str, query: &str) -> JobData {
    JobData::new(query, user)
}

async fn add(bench: &Bench, query: &str) -> String {
    bench.queue.add(&data("u1", query)).await.unwrap()
}

/// The next job, which there is or soon will be.
async fn claim_next(queue: &dyn JobQueue, worker: &str) -> Claim {
    queue.claim(worker, PATIENCE).await.unwrap().expect("a job to take")
}

/// A job, and its first claim.
async fn add_and_claim(bench: &Bench, query: &str) -> (String, Claim) {
    let id = add(bench, query).await;
    (id, claim_next(&*bench.queue, "worker").await)
}

async fn read(bench: &Bench, id: &str) -> Job {
    bench.queue.read(id).await.unwrap().expect("the job is there")
}

async fn status(bench: &Bench, id: &str) -> JobStatus {
    read(bench, id).await.status
}

/// Nothing can be taken now.
async fn assert_nothing_to_claim(bench: &Bench) {
    assert_eq!(bench.queue.claim("nobody", Duration::ZERO).await.unwrap(), None);
}

pub(crate) fn completed(json: &str) -> AttemptEnd {
    AttemptEnd::Completed(RawValue::from_string(json.into()).unwrap())
}

fn failed(error: &str, retry: bool) -> AttemptEnd {
    AttemptEnd::Failed { error: error.into(), retry }
}

fn wanted(user: &str) -> JobQuery<'_> {
    JobQuery { user_id: user, status: None, limit: 20, cursor: None }
}
