//! A worker that is stopped (SIGSTOP) until its leases have ended and others have done its jobs, and that
//! wakes up then: it neither ends nor changes what is not its own any more.
//!
//! Only the process is stopped, at one moment: while the model is asked. The monotonic clock goes on, as for
//! a container that is frozen, so the worker wakes up with leases that have run out by its own clock. A
//! machine that sleeps, or a virtual one that is paused, may stop that clock as well. No test does that.

use acceptance::{Gate, Model, Service, Signal, Stores, Token, asks_for, eventually, says};
use serde_json::{Value, json};

/// What the log says of an attempt whose lease was lost.
const LEFT: &str = "job left to whoever holds its lease";

fn left_jobs(service: &Service) -> usize {
    service.log().entries().iter().filter(|line| line["message"] == LEFT).count()
}

async fn tool_calls(service: &Service) -> f64 {
    service.metrics().await.value("agent_tool_calls_total", &[]).unwrap_or_default()
}

async fn check_a_sleeper(stores: Stores) {
    let model = Model::openai().await;
    // What the sleeper finds when it wakes up: a reply that would end a job, and one that would go on with a
    // tool.
    let gates = [
        model.holds(says("from the dead")),
        model.holds(asks_for("calculate", json!({ "expression": "6 * 7" }))),
    ];
    model.always(|_| says("from the living"));
    // However slow the machine is, the sleeper's run is not over when it wakes up.
    let service = || stores.service(&model).env("AGENT_TIMEOUT_MS", "300000");
    let sleeper = service().start().await;
    let token = Token::of("u").premium();
    let mut ids = Vec::new();
    for number in 0..gates.len() {
        ids.push(sleeper.user(&token).job_for(&format!("job {number}")).await);
    }
    model.was_asked(2).await;
    sleeper.signal(Signal::STOP);

    let heir = service().start().await;
    let jobs = async |service: &Service| -> Vec<Value> {
        let mut jobs = Vec::new();
        for id in &ids {
            jobs.push(service.user(&token).ended_job(id).await);
        }
        jobs
    };
    let ended = jobs(&heir).await;
    for job in &ended {
        assert_eq!(
            (&job["status"], &job["result"]["output"]),
            (&json!("completed"), &json!("from the living"))
        );
        assert_eq!(job["attemptsMade"], 1, "{job:#}");
    }
    assert_eq!(left_jobs(&sleeper), 0, "it sleeps");

    // The replies lie before its sockets when it wakes up.
    gates.into_iter().for_each(Gate::open);
    sleeper.signal(Signal::CONT);
    eventually("the sleeper to leave both jobs", async || (left_jobs(&sleeper) == 2).then_some(())).await;
    for service in [&sleeper, &heir] {
        assert_eq!(jobs(service).await, ended, "nothing of them has changed");
    }
    assert!(tool_calls(&sleeper).await < 0.5, "it went on with a run that was not its own");
    assert_eq!(model.calls().len(), 4, "each job was asked for once before and once after");

    // The sleeper is a worker like any other again, and the only one.
    heir.stop().await;
    let next = sleeper.user(&token).job_for("next").await;
    assert_eq!(sleeper.user(&token).ended_job(&next).await["status"], "completed");
}

on_each! { check_a_sleeper:
    a_worker_that_slept_leaves_its_jobs_on_redis_to_who_has_done_them = Stores::redis_and_postgres().await;
    a_worker_that_slept_leaves_its_jobs_in_postgres_to_who_has_done_them = Stores::postgres().await;
}
