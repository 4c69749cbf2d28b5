//! `GET /api/agent/jobs`: a caller's own jobs, page by page (host/docs/interface/decisions-runs.md#jobs).

use acceptance::{Gate, Model, Service, Token, User, says};
use serde_json::{Value, json};

use super::jobs::Queue;

fn ids(page: &Value) -> Vec<String> {
    let data = page["data"].as_array().unwrap_or_else(|| panic!("a list: {page:#}"));
    data.iter().map(|job| job["jobId"].as_str().expect("an id").to_owned()).collect()
}

async fn page(user: &User, parameters: &str) -> Value {
    let answer = user.jobs(parameters).await;
    assert_eq!(answer.status, 200, "{parameters}: {answer}");
    answer.json()
}

#[tokio::test]
async fn whoever_has_no_jobs_gets_an_empty_page() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        let service = queue.service(&model).start().await;
        let empty = page(&service.user(Token::of("u")), "").await;
        assert_eq!((&empty["data"], &empty["nextCursor"]), (&json!([]), &Value::Null));
    }
}

#[tokio::test]
async fn jobs_are_listed_the_newest_first_as_they_are_read_one_by_one() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        model.always(|_| says("done"));
        let service = queue.service(&model).start().await;
        let (user, other) = (service.user(Token::of("u").premium()), service.user(Token::of("v")));
        let mut submitted = Vec::new();
        for n in 0..4 {
            submitted.push(user.job_for(&format!("work {n}")).await);
            other.job_for("work of somebody else").await;
        }
        for id in &submitted {
            user.ended_job(id).await;
        }
        submitted.reverse();
        let all = page(&user, "").await;
        assert_eq!((ids(&all), &all["nextCursor"]), (submitted.clone(), &Value::Null));
        for job in all["data"].as_array().unwrap() {
            let mut alone = user.job(job["jobId"].as_str().unwrap()).await.json();
            // A list may leave the results out, and nothing else.
            if job.get("result").is_none() {
                alone.as_object_mut().unwrap().remove("result");
            }
            assert_eq!(&alone, job);
        }
        assert_eq!(ids(&page(&other, "").await).len(), 4);
    }
}

#[tokio::test]
async fn a_list_is_read_page_by_page_without_loss_or_repetition() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        model.always(|_| says("done"));
        let service = queue.service(&model).start().await;
        let user = service.user(Token::of("u").premium());
        let mut submitted = Vec::new();
        for n in 0..7 {
            submitted.push(user.job_for(&format!("work {n}")).await);
        }
        submitted.reverse();
        let mut seen = Vec::new();
        let mut parameters = "?limit=3".to_owned();
        loop {
            let page = page(&user, &parameters).await;
            let ids = ids(&page);
            assert!((1..=3).contains(&ids.len()), "{page:#}");
            seen.extend(ids);
            let Some(cursor) = page["nextCursor"].as_str() else { break };
            parameters = format!("?limit=3&cursor={cursor}");
            // What is added meanwhile does not move the pages that follow.
            user.job_for("work added between two pages").await;
        }
        assert_eq!(seen, submitted);
    }
}

#[tokio::test]
async fn without_a_limit_a_page_has_twenty() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        model.always(|_| says("done"));
        let service = queue.service(&model).start().await;
        let user = service.user(Token::of("u").premium());
        for n in 0..21 {
            user.job_for(&format!("work {n}")).await;
        }
        let first = page(&user, "").await;
        assert_eq!(ids(&first).len(), 20);
        let cursor = first["nextCursor"].as_str().expect("there is more");
        let second = page(&user, &format!("?cursor={cursor}")).await;
        assert_eq!((ids(&second).len(), &second["nextCursor"]), (1, &Value::Null));
    }
}

#[tokio::test]
async fn a_list_can_be_narrowed_to_a_status() {
    for queue in Queue::every().await {
        let model = Model::openai().await;
        model.says("done");
        let gates: Vec<_> = (0..5).map(|_| model.holds(says("done"))).collect();
        let service = queue.service(&model).start().await;
        let user = service.user(Token::of("u").premium());
        let completed = user.job_for("first").await;
        user.ended_job(&completed).await;
        let mut active = Vec::new();
        for n in 0..5 {
            active.insert(0, user.job_for(&format!("held {n}")).await);
        }
        model.was_asked(6).await;
        let waiting = user.job_for("waits").await;
        let cancelled = user.job_for("not wanted any more").await;
        user.cancel(&cancelled).await;
        user.ended_job(&cancelled).await;
        for (status, expected) in [
            ("completed", vec![completed]),
            ("active", active),
            ("waiting", vec![waiting.clone()]),
            ("cancelled", vec![cancelled]),
            ("failed", vec![]),
            ("delayed", vec![]),
        ] {
            let page = page(&user, &format!("?status={status}")).await;
            assert_eq!(ids(&page), expected, "{status}");
            assert!(page["data"].as_array().unwrap().iter().all(|job| job["status"] == status), "{page:#}");
        }
        assert_eq!(user.cancel(&waiting).await.status, 202);
        gates.into_iter().for_each(Gate::open);
    }
}

#[tokio::test]
async fn parameters_that_make_no_sense_are_a_400() {
    let service = Service::variant_b().env("LLM_API_KEY", "sk-1").start().await;
    let user = service.user(Token::of("u").premium());
    for parameters in ["?status=done", "?limit=0", "?limit=-1", "?limit=many", "?cursor=made-up"] {
        let answer = user.jobs(parameters).await;
        assert_eq!(answer.status, 400, "{parameters}: {answer}");
    }
}
