//! `GET /`: what this is and where its endpoints are, for somebody who has only the address. Programs get JSON, and browsers,
//! which name `text/html` in `Accept`, a page.

use std::fmt::Write as _;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer;
use crate::openapi::{Operation, tags};
use crate::static_text::HTML;

/// The endpoints of the variants that are served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variants {
    pub(crate) a: bool,
    pub(crate) b: bool,
    pub(crate) admin: bool,
    pub(crate) openai: bool,
}

/// What this is.
#[derive(Serialize, ToSchema)]
#[schema(as = FrontPage)]
struct Page {
    /// What it calls itself.
    #[schema(example = "agent-host")]
    service: &'static str,
    /// Of the program.
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// Everything that is served.
    endpoints: Vec<Endpoint>,
}

/// A method of a path.
#[derive(Serialize, ToSchema)]
struct Endpoint {
    /// How it is called.
    #[schema(example = "GET")]
    method: &'static str,
    /// Where it is.
    #[schema(example = "/metrics")]
    path: &'static str,
    /// What it is for.
    #[schema(example = "Metrics for Prometheus")]
    what: &'static str,
}

const fn endpoint(method: &'static str, path: &'static str, what: &'static str) -> Endpoint {
    Endpoint { method, path, what }
}

const A: [Endpoint; 5] = [
    endpoint(
        "POST",
        "/agent/invoke",
        "Runs the agent: {\"input\": \"…\"}; as events with Accept: text/event-stream",
    ),
    endpoint("GET", "/agent/runs/{runId}/events", "Follows a run from any event on"),
    endpoint("POST", "/agent/runs/{runId}/cancel", "Cancels a run that is streamed"),
    endpoint("GET", "/health/live", "Whether the process answers"),
    endpoint("GET", "/health/ready", "Whether requests should be sent here"),
];

const B: [Endpoint; 20] = [
    endpoint(
        "POST",
        "/api/agent",
        "Runs the agent: {\"query\": \"…\"}; with a bearer token, as all under /api/",
    ),
    endpoint("POST", "/api/agent/async", "Queues a job: {\"query\": \"…\"}"),
    endpoint("GET", "/api/agent/jobs", "Lists your jobs"),
    endpoint("GET", "/api/agent/jobs/{jobId}", "Reads a job; ?wait=<seconds> waits for its end"),
    endpoint("POST", "/api/agent/jobs/{jobId}/cancel", "Cancels a job"),
    endpoint("GET", "/api/agent/jobs/{jobId}/events", "Follows a job's run from any event on"),
    endpoint("GET", "/api/agent/jobs/{jobId}/webhook", "Where a job's end is sent, and what became of that"),
    endpoint("POST", "/api/agent/jobs/{jobId}/webhook/replay", "Sends a job's end once more"),
    endpoint("GET", "/api/agent/runs/{runId}/events", "Follows a run of yours from any event on"),
    endpoint("POST", "/api/agent/runs/{runId}/cancel", "Cancels a run that is streamed"),
    endpoint("GET", "/api/agent/conversations", "Lists your conversations"),
    endpoint("GET", "/api/agent/conversations/{conversationId}", "What was said in a conversation"),
    endpoint("DELETE", "/api/agent/conversations/{conversationId}", "Forgets a conversation"),
    endpoint("DELETE", "/api/agent/cache?pattern=agent:*", "Forgets results; for administrators"),
    endpoint("POST", "/api/serverless", "Runs the agent: {\"query\": \"…\"}"),
    endpoint(
        "POST",
        "/api/gateway",
        "Runs the agent, here or on a cluster: {\"query\": \"…\", \"priority\": \"high\"}",
    ),
    endpoint("POST", "/mcp", "The tools as an MCP server, over streamable HTTP; with a bearer token too"),
    endpoint("GET", "/mcp", "Tells MCP clients when the tools change"),
    endpoint("GET", "/health", "Whether everything that the service depends on works"),
    endpoint("GET", "/ready", "Whether requests should be sent here"),
];

/// For clients of OpenAI.
const OPENAI: [Endpoint; 6] = [
    endpoint(
        "GET",
        "/v1/models",
        "The agent as a model, for clients of OpenAI: agent; with a bearer token as API key",
    ),
    endpoint("GET", "/v1/models/{model}", "Reads a model"),
    endpoint("POST", "/v1/chat/completions", "Runs the agent: {\"model\": \"agent\", \"messages\": […]}"),
    endpoint("POST", "/v1/responses", "Runs the agent: {\"model\": \"agent\", \"input\": \"…\"}"),
    endpoint("GET", "/v1/responses/{response_id}", "Reads a response that was kept"),
    endpoint("DELETE", "/v1/responses/{response_id}", "Forgets a response"),
];

/// For administrators, about the service.
const SERVICE: [Endpoint; 11] = [
    endpoint("GET", "/console", "The console: a page for administrators; with an administrator's token"),
    endpoint("GET", "/admin/runs", "Lists everybody's runs; for administrators"),
    endpoint("GET", "/admin/runs/{runId}", "What a run did and what it cost"),
    endpoint("GET", "/admin/runs/{runId}/events", "Follows anybody's run from any event on"),
    endpoint("POST", "/admin/runs/{runId}/cancel", "Cancels anybody's run"),
    endpoint("GET", "/admin/queue", "How many jobs there are"),
    endpoint("GET", "/admin/jobs?user=", "Lists a user's jobs"),
    endpoint("GET", "/admin/jobs/{jobId}", "Reads anybody's job"),
    endpoint("POST", "/admin/jobs/{jobId}/retry", "Tries a failed job again"),
    endpoint("POST", "/admin/jobs/{jobId}/cancel", "Cancels anybody's job"),
    endpoint("GET", "/admin/status", "How the service is and what its limits are"),
];

/// For administrators, about the tools.
const ADMIN: [Endpoint; 15] = [
    endpoint("GET", "/admin/tools", "Lists the components and what serves of each; for administrators"),
    endpoint("GET", "/admin/tools/{name}", "Everything about one component"),
    endpoint("GET", "/admin/tools/{name}/versions", "Its versions, the newest first"),
    endpoint("GET", "/admin/tools/{name}/diff?from=&to=", "What differs between two versions"),
    endpoint("GET", "/admin/tools/{name}/audit", "Who did what with it, the newest first"),
    endpoint("PUT", "/admin/tools/{name}", "Proposes a version: the bytes of the component"),
    endpoint("POST", "/admin/tools/{name}/approve", "Lets a version serve: {\"digest\": \"…\"}"),
    endpoint("POST", "/admin/tools/{name}/rollback", "Has an earlier version serve: {\"digest\": \"…\"}"),
    endpoint("POST", "/admin/tools/{name}/enable", "Has a component serve again"),
    endpoint("POST", "/admin/tools/{name}/disable", "Has a component serve no longer"),
    endpoint(
        "POST",
        "/admin/tools/{name}/canary",
        "Tries a version on a share of the runs: {\"share\": 0.05}",
    ),
    endpoint("POST", "/admin/tools/{name}/shadow", "Tries a version beside the calls: {\"share\": 0.05}"),
    endpoint("POST", "/admin/tools/{name}/promote", "Has the version serve that is tried"),
    endpoint("POST", "/admin/tools/{name}/end-trial", "Ends a trial"),
    endpoint("DELETE", "/admin/tools/{name}", "Removes a component and all its versions"),
];

const ALWAYS: [Endpoint; 5] = [
    endpoint("GET", "/metrics", "Metrics for Prometheus"),
    endpoint("GET", "/openapi.json", "Everything that is served, as OpenAPI 3.1"),
    endpoint("GET", "/docs", "The documentation, with a search"),
    endpoint("GET", "/docs/api", "/openapi.json as a page"),
    endpoint("GET", "/llms.txt", "Every page of the documentation, for language models"),
];

pub(crate) fn describe() -> Operation {
    Operation::new("showIndex", tags::SERVICE, "What this is and where its endpoints are")
        .answers::<Page>(StatusCode::OK, "The endpoints of what is served")
        .answers_text("text/html", "The same as a page, for whoever names `text/html` in `Accept`")
}

pub(crate) async fn show_index(State(variants): State<Variants>, headers: HeaderMap) -> Response {
    let a = variants.a.then_some(A).into_iter().flatten();
    let b = variants.b.then_some(B).into_iter().flatten();
    let openai = variants.openai.then_some(OPENAI).into_iter().flatten();
    let service = variants.b.then_some(SERVICE).into_iter().flatten();
    let admin = variants.admin.then_some(ADMIN).into_iter().flatten();
    let page = Page {
        service: "agent-host",
        version: env!("CARGO_PKG_VERSION"),
        endpoints: a.chain(b).chain(openai).chain(service).chain(admin).chain(ALWAYS).collect(),
    };
    let mut answer =
        if accepts_html(&headers) { page.as_html() } else { answer::json(StatusCode::OK, &page) };
    answer.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    answer
}

/// Whether `Accept` names `text/html` by itself, as browsers do.
fn accepts_html(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let essence = |range: &str| range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    values.flat_map(|value| value.split(',')).any(|range| essence(range) == "text/html")
}

/// Nothing runs on the page, and nothing is loaded.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

impl Page {
    fn as_html(&self) -> Response {
        let Self { service, version, endpoints } = self;
        let mut rows = String::new();
        for Endpoint { method, path, what } in endpoints {
            let (shown, what) = (escaped(path), escaped(what));
            // What has no parameters can be looked at. Writing to a string cannot fail.
            let _ = match *method {
                "GET" if !path.contains(['{', '?']) => {
                    writeln!(rows, "<tr><td>GET<td><a href=\"{shown}\">{shown}</a><td>{what}")
                }
                method => writeln!(rows, "<tr><td>{method}<td>{shown}<td>{what}"),
            };
        }
        let page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{service}</title>\n\
             <h1>{service} {version}</h1>\n<table>\n<caption>What is served</caption>\n\
             <tr><th scope=\"col\">Method<th scope=\"col\">Path<th scope=\"col\">What for\n{rows}</table>\n</html>\n"
        );
        ([(CONTENT_TYPE, HTML), (CONTENT_SECURITY_POLICY, POLICY)], page).into_response()
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
