//! Every request is reported once, by words that callers cannot make up.

use parking_lot::Mutex;
use std::sync::Arc;

use http_edge::{AnsweredRequest, Edge};
use run_service::testing::ScriptedInvoke;

use crate::harness::{Answers, Fakes, Panics, Service, bearer, request};

type Seen = Arc<Mutex<Vec<String>>>;

fn observing(seen: &Seen) -> impl FnOnce(&mut Edge) {
    let seen = seen.clone();
    move |edge| {
        edge.observe = Arc::new(move |AnsweredRequest { route, method, status, .. }| {
            seen.lock().push(format!("{method} {} {status}", route.unwrap_or("-")));
        });
    }
}

#[tokio::test]
async fn a_request_is_reported_by_its_route_and_not_by_its_path() {
    let seen = Seen::default();
    let fakes = Fakes::configured(Answers, observing(&seen));
    fakes.get("/api/agent/jobs/secret-1?wait=0").await;
    fakes.service.get("/api/agent/jobs/secret-2").await;
    fakes.service.get("/nowhere/secret-3").await;
    fakes.service.ask("BREW", "/api/agent").await;
    fakes.post("/api/agent", r#"{"query":"hi"}"#).await;
    fakes.post("/api/agent/", r#"{"query":"hi"}"#).await;
    fakes.service.get("/").await;
    fakes.administer("GET", "/admin/tools/calculator/versions", "").await;
    fakes.administer("POST", "/admin/tools/calculator/made-up", "").await;
    assert_eq!(
        *seen.lock(),
        [
            "GET /api/agent/jobs/{job_id} 404",
            "GET /api/agent/jobs/{job_id} 401",
            "GET - 404",
            "other /api/agent 405",
            "POST /api/agent 200",
            "POST /api/agent 200",
            "GET / 200",
            "GET /admin/tools/{name}/versions 200",
            "POST - 404",
        ]
    );
}

#[tokio::test]
async fn panics_and_clients_that_go_away_are_reported_too() {
    let seen = Seen::default();
    let service = Service::configured(Panics, observing(&seen));
    service.invoke(r#"{"input":"x"}"#).await;
    let agent = ScriptedInvoke::hanging();
    let service = Service::configured(agent.clone(), observing(&seen));
    service.leave(request("POST", "/agent/invoke", r#"{"input":"hi"}"#), agent.until_under_way(1)).await;
    assert_eq!(*seen.lock(), ["POST /agent/invoke 500", "POST /agent/invoke 499"]);
}

#[tokio::test]
async fn the_line_of_a_client_that_went_away_says_whose_request_it_was() {
    let agent = ScriptedInvoke::hanging();
    let fakes = Fakes::with_invoke(agent.clone());
    let log = crate::harness::Log::collect();
    let asked = bearer("u1", request("POST", "/api/agent", r#"{"query":"hi"}"#));
    fakes.service.leave(asked, agent.until_under_way(1)).await;
    let line = log.request();
    assert_eq!((&line["status"], &line["user_id"]), (&499.into(), &"u1".into()));
}
