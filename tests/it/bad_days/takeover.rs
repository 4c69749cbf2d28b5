//! How soon the job of a killed worker is taken up again (host/docs/interface/decisions-runs.md#durability).
//! These two times are promises, so they are held; a process's own start is no part of them.

use std::time::Duration;

use acceptance::{Model, Service, Signal, Stores, Token, says};
use tokio::time::Instant;

/// host/docs/interface/decisions-runs.md#durability.
const BY_ANOTHER: Duration = Duration::from_secs(10);
const BY_THE_SAME: Duration = Duration::from_secs(2);

async fn is_working(service: &Service) -> bool {
    service.metrics().await.value("agent_active_requests", &[]).is_some_and(|active| active > 0.5)
}

async fn check_another_process(stores: Stores) {
    let model = Model::openai().await;
    let gate = model.holds(says("never heard"));
    model.says("done");
    let (mut one, mut other) = tokio::join!(stores.service(&model).start(), stores.service(&model).start());
    let token = Token::of("u");
    let job = one.user(&token).job_for("work").await;
    model.was_asked(1).await;
    if is_working(&other).await {
        std::mem::swap(&mut one, &mut other);
    }
    one.signal(Signal::KILL);
    let killed = Instant::now();
    one.ended().await;
    model.was_asked(2).await;
    let took = model.calls()[1].came.duration_since(killed);
    assert!(took <= BY_ANOTHER, "{took:?}");
    assert_eq!(other.user(&token).ended_job(&job).await["status"], "completed");
    drop(gate);
}

async fn check_the_same_process(stores: Stores) {
    let model = Model::openai().await;
    let gate = model.holds(says("never heard"));
    model.says("done");
    let mut service = stores.service(&model).start().await;
    let token = Token::of("u");
    let job = service.user(&token).job_for("work").await;
    model.was_asked(1).await;
    service.killed().await;

    let service = stores.service(&model).env("PORT", service.address().port().to_string()).start().await;
    let serving = Instant::now();
    model.was_asked(2).await;
    let took = model.calls()[1].came.saturating_duration_since(serving);
    assert!(took <= BY_THE_SAME, "{took:?}");
    assert_eq!(service.user(&token).ended_job(&job).await["status"], "completed");
    drop(gate);
}

on_each! { check_another_process:
    another_process_on_the_same_file_takes_a_job_up_within_10_s = Stores::embedded();
    another_process_on_the_same_redis_takes_a_job_up_within_10_s = Stores::redis().await;
    another_process_on_the_same_postgres_takes_a_job_up_within_10_s = Stores::postgres().await;
}

on_each! { check_the_same_process:
    the_same_process_on_its_file_takes_a_job_up_within_2_s = Stores::embedded();
    the_same_process_on_its_redis_takes_a_job_up_within_2_s = Stores::redis().await;
    the_same_process_on_its_postgres_takes_a_job_up_within_2_s = Stores::postgres().await;
}
