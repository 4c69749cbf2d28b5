//! Webhooks that are put in, and whose jobs the queue does not know.

use agent_core::testing::clock::{SimulatedClock, set_skew};

use super::*;

/// The job's submitter tries again under the same idempotency key.
#[tokio::test(start_paused = true)]
async fn a_webhook_that_was_given_up_before_its_job_was_added_is_sent_when_that_has_ended() {
    let bench = Bench::new(&[Ok(200)]).await;
    let late = NewWebhook { job_id: "late", user_id: "u1", url: "https://example.com/" };
    bench.webhooks.put(&late).await.unwrap();
    // The system's clock does not go with the paused one: it was submitted long ago.
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    bench.outbox.change("late", |webhook| webhook.created_at = long_ago);
    sleep(Duration::from_secs(60)).await;
    let webhook = bench.row("late");
    assert_eq!(webhook.state, WebhookState::Failed);
    assert_eq!(webhook.attempts[0].error.as_deref(), Some("neither the queue nor the records have the job"));
    bench.webhooks.put(&late).await.unwrap();
    bench.queue.add(&JobData::new("2+2", "u1").with_id("late")).await.unwrap();
    for _ in 0..2 {
        bench.finish_job().await;
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.row("late").state, WebhookState::Delivered);
}

/// A webhook is put in before its job is added, and may be claimed in between.
#[tokio::test(start_paused = true)]
async fn a_replica_whose_clock_is_hours_ahead_gives_up_none_whose_job_is_added_a_moment_later() {
    let _clock = SimulatedClock::begin(1);
    set_skew(3 * 3_600_000);
    let bench = Bench::new(&[Ok(200)]).await;
    let soon = NewWebhook { job_id: "soon", user_id: "u1", url: "https://example.com/" };
    bench.webhooks.put(&soon).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.row("soon").state, WebhookState::Waiting);
    bench.queue.add(&JobData::new("2+2", "u1").with_id("soon")).await.unwrap();
    for _ in 0..2 {
        bench.finish_job().await;
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.row("soon").state, WebhookState::Delivered);
}
