//! Polls and waits without a Redis.

use std::future::{pending, ready};

use agent_core::ports::queue::LEASE;

use super::*;
use crate::bullmq::BullQueue;
use crate::bullmq::shard::Shard;
use crate::redis::Redis;

/// A poll outlives its caller, so a panic in it must not be met by everybody who claims afterwards.
#[tokio::test]
async fn a_poll_that_panicked_is_not_taken_up_by_the_next_caller() {
    let queue = BullQueue::open_with_lease("redis://127.0.0.1:1", Duration::from_secs(1)).unwrap();
    let broken = async { panic!("a bug in a poll of the queue") };
    queue.pollers.lock().await.each[0].poll = Some(Box::pin(broken));
    let claim = || claim(&queue.stores, &queue.pollers, "worker", STALLED_CHECK_INTERVAL);
    let claimed = AssertUnwindSafe(claim()).catch_unwind().await;
    assert!(claimed.is_err(), "the panic is the first caller's");
    // Nobody listens there: the queue has been polled anew.
    let claimed = claim().await;
    assert!(matches!(claimed, Err(QueueError::Store { .. })), "{claimed:?}");
}

/// Shards of a Redis that is not there.
fn stores() -> Vec<Arc<Store>> {
    let redis = Redis::open("redis://127.0.0.1:1").unwrap();
    let store = |index| Arc::new(Store::new(&redis, Shard { index, count: 3 }, LEASE, LEASE));
    (0..3).map(store).collect()
}

fn waits(pollers: &Pollers) -> Vec<bool> {
    pollers.each.iter().map(|poller| poller.wait.is_some()).collect()
}

#[tokio::test]
async fn a_shard_whose_marker_is_waited_for_is_polled_by_an_impatient_caller_alone() {
    let (stores, mut pollers) = (stores(), Pollers::new(3));
    for poller in &mut pollers.each {
        poller.poll = Some(Box::pin(ready(Ok(Polled::Empty(LEASE)))));
        poller.wait = Some(Box::pin(ready(Ok(()))));
    }
    pollers.each[1].wait = Some(Box::pin(pending()));
    // Without stores no wait is begun.
    pollers.wait(&[]).await.unwrap();
    assert_eq!(waits(&pollers), [false, true, false], "all that have ended are taken at once");
    let moment = STALLED_CHECK_INTERVAL / 2;
    for (is_first, patience, left) in [
        (false, LEASE, [false, true, false]),
        (true, LEASE, [false, true, false]),
        (false, moment, [false, true, false]),
        (true, moment, [false; 3]),
    ] {
        // Only a poll that was not made yet is still there afterwards.
        for poller in &mut pollers.each {
            poller.poll = Some(Box::pin(ready(Ok(Polled::Empty(LEASE)))));
        }
        assert_eq!(pollers.poll_each(&stores, "worker", patience, is_first).await, Ok(None));
        let unpolled: Vec<_> = pollers.each.iter().map(|poller| poller.poll.is_some()).collect();
        assert_eq!(unpolled, left, "{is_first} {patience:?}");
    }
}

#[tokio::test]
async fn a_shard_that_fails_beside_others_is_no_failure_and_all_of_them_are_one() {
    let (stores, mut pollers) = (stores(), Pollers::new(3));
    let polled = |answer| -> BoxFuture<'static, Result<Polled, QueueError>> { Box::pin(ready(answer)) };
    let fails = || polled(Err(QueueError::Store { detail: "down".into() }));
    for (failing, is_failure) in [(1, false), (2, false), (3, true)] {
        for (index, poller) in pollers.each.iter_mut().enumerate() {
            poller.poll = Some(if index < failing { fails() } else { polled(Ok(Polled::Empty(LEASE))) });
        }
        let polled = pollers.poll_each(&stores, "worker", LEASE, true).await;
        assert_eq!(polled.is_err(), is_failure, "{failing}");
    }
    // Polled by itself, beside two that answered.
    pollers.each[1].is_failing = false;
    pollers.each[2].is_failing = false;
    for poller in &mut pollers.each[1..] {
        poller.wait = Some(Box::pin(pending()));
    }
    pollers.each[0].poll = Some(fails());
    assert_eq!(pollers.poll_each(&stores, "worker", LEASE, false).await, Ok(None));
}

#[test]
fn while_no_job_is_active_a_poll_is_worth_less_often() {
    let (idle, second) = (Duration::from_secs(4), STALLED_CHECK_INTERVAL);
    let wait = |answer: &[u64]| {
        let answer = answer.iter().map(|number| Value::Int(*number as i64)).collect();
        read_leased(Value::Array(answer), idle).err().unwrap()
    };
    let due = now() + 2_500;
    assert_eq!(wait(&[0, 0, 0, 0]), second, "the answer behind the end of a job");
    assert_eq!(wait(&[0, 0, 0, 0, 1]), second);
    assert_eq!(wait(&[0, 0, 0, 0, 0]), idle);
    assert_eq!(wait(&[0, 0, 1_500, 0, 0]), Duration::from_millis(1_500), "the queue is limited");
    let delayed = wait(&[0, 0, 0, due, 0]);
    assert!(delayed > second && delayed <= Duration::from_millis(2_500), "{delayed:?}");
}

#[tokio::test]
async fn a_wait_that_fails_at_once_is_not_followed_by_a_poll_at_once() {
    let (stores, mut pollers, begun) = (stores(), Pollers::new(3), Instant::now());
    pollers.wait(&stores).await.unwrap();
    assert!(begun.elapsed() >= STALLED_CHECK_INTERVAL);
}

#[tokio::test]
async fn who_waits_for_others_that_get_no_answer_does_not_say_that_there_is_no_job() {
    let (stores, pollers) = (stores(), Mutex::new(Pollers::new(3)));
    let _asking = pollers.lock().await;
    let moment = Duration::from_millis(1);
    assert_eq!(claim(&stores, &pollers, "worker", moment).await, Ok(None));
    for store in &stores {
        store.now().await.unwrap_err();
    }
    let claimed = claim(&stores, &pollers, "worker", moment).await;
    assert!(matches!(claimed, Err(QueueError::Store { .. })), "{claimed:?}");
}
