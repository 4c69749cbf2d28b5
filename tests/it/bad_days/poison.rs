//! Jobs that can come to no good end: they are given up after three attempts, and say why.

use acceptance::{Gate, Model, Stores, Token, says};
use serde_json::json;

/// A job that kills its worker at the same step each time. What waits behind it is done all the same.
async fn check_a_killer(stores: Stores) {
    let model = Model::openai().await;
    let mut gates: Vec<Gate> = Vec::new();
    let mut port = "0".to_owned();
    let token = Token::of("u").premium();
    let mut job = None;
    for life in 1..=3 {
        gates.push(model.holds(says("never heard")));
        let mut service = stores.service(&model).env("PORT", &port).start().await;
        if job.is_none() {
            job = Some(service.user(&token).job_for("poison").await);
        }
        model.was_asked(life).await;
        port = service.address().port().to_string();
        service.killed().await;
    }
    gates.into_iter().for_each(Gate::open);
    model.says("done");

    let service = stores.service(&model).env("PORT", &port).start().await;
    let user = service.user(&token);
    let failed = user.ended_job(&job.unwrap()).await;
    let why = json!("the run stopped its worker 3 times");
    assert_eq!((&failed["status"], &failed["error"]), (&json!("failed"), &why), "{failed:#}");
    assert_eq!(model.calls().len(), 3);
    let next = user.job_for("next").await;
    assert_eq!(user.ended_job(&next).await["status"], "completed");
}

on_each! { check_a_killer:
    a_job_in_the_database_that_kills_three_workers_has_failed = Stores::embedded();
    a_job_on_redis_that_kills_three_workers_has_failed = Stores::redis().await;
}
