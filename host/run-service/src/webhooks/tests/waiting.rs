//! What receivers are told of runs that wait.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_a_run_waits_for_is_told_once_and_its_end_afterwards() {
    let bench = Bench::new(&[Ok(500), Ok(204)]).await;
    let id = bench.park(None).await;
    sleep(Duration::from_secs(3600)).await;
    let got = bench.got();
    assert_eq!(got.len(), 2, "until it is confirmed, and no more: {got:?}");
    assert!(got.iter().all(|(_, message)| message.id == format!("msg_{id}")));
    assert_eq!(got[0].1.body, format!("{} parked{id}", bench.job_id));
    assert_eq!(bench.state(), WebhookState::Waiting);
    bench.queue.cancel(&bench.job_id).await.unwrap();
    sleep(Duration::from_secs(600)).await;
    assert_eq!((bench.got().len(), bench.state()), (3, WebhookState::Delivered));
}

/// A poll of the job comes much sooner than a receiver is asked again.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_does_not_confirm_a_wait_is_asked_again_as_seldom_as_about_an_end() {
    let bench = Bench::new(&[Ok(503)]).await;
    let id = bench.park(None).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.ids().len(), 3, "at once, after 5 s and after 30 s");
    sleep(Duration::from_secs(26 * 3600)).await;
    assert_eq!(bench.ids(), vec![format!("msg_{id}"); 12]);
    *bench.receiver.replies.lock() = vec![Ok(204)];
    sleep(Duration::from_secs(26 * 3600)).await;
    assert_eq!(bench.ids().len(), 12, "it is left alone until the end");
    bench.queue.cancel(&bench.job_id).await.unwrap();
    sleep(Duration::from_secs(600)).await;
    assert_eq!((bench.got().len(), bench.state()), (13, WebhookState::Delivered));
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_gone_is_not_told_again_of_the_same_wait() {
    let bench = Bench::new(&[Ok(410)]).await;
    bench.park(None).await;
    sleep(Duration::from_secs(3600)).await;
    assert_eq!((bench.got().len(), bench.state()), (1, WebhookState::Waiting));
}

#[tokio::test(start_paused = true)]
async fn what_a_child_run_waits_for_is_told_to_the_receiver_of_its_parent() {
    let bench = Bench::new(&[Ok(204)]).await;
    let child = bench.queue.add(&JobData::new("pay", "u1")).await.unwrap();
    let of_parent = bench.park(Some(&child)).await;
    sleep(Duration::from_secs(60)).await;
    let got = bench.got();
    assert_eq!((got.len(), got[0].1.id.as_str()), (1, format!("msg_{of_parent}").as_str()));
    // By a clock that was put back, or that of another replica.
    let of_child = bench.park_at(clock::millis() - 3_600_000, None).await;
    sleep(Duration::from_secs(3600)).await;
    let got = bench.got();
    assert_eq!(got.len(), 2, "once: {got:?}");
    assert_eq!(got[1].1.id, format!("msg_{of_child}"));
    assert_eq!(got[1].1.body, format!("{} parked{of_parent} {of_child}", bench.job_id));
    // What was told before is not told again when the child waits no more.
    bench.queue.cancel(&child).await.unwrap();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.got().len(), 2);
}
