//! The table, row by row, as clients see it in production and elsewhere.

use agent_core::ports::ConversationError;
use axum::BoxError;
use axum::response::IntoResponse as _;
use insta::assert_snapshot;
use run_service::waits::{NotDecided, WaitError};

use super::*;

/// The whole answer: status, headers that are a promise, and the body.
async fn show(error: Error, production: bool) -> String {
    let response = render(error.into_response(), production);
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let headers = ["connection", "content-type", "etag", "retry-after"].iter().filter_map(|name| {
        let value = parts.headers.get(*name)?.to_str().unwrap();
        // The content type of nearly every answer is left out.
        (value != crate::answer::JSON).then(|| format!("; {name}: {value}"))
    });
    let headers: String = headers.collect();
    format!("{}{headers} | {}", parts.status, str::from_utf8(&body).unwrap())
}

/// An error that everybody is told of in the same way.
async fn everywhere(make: impl Fn() -> Error) -> String {
    let (production, elsewhere) = (show(make(), true).await, show(make(), false).await);
    assert_eq!(production, elsewhere);
    production
}

/// An error that is explained to developers.
async fn two_ways(make: impl Fn() -> Error) -> String {
    format!("{}\n{}", show(make(), true).await, show(make(), false).await)
}

fn model(error: ModelError) -> InvokeError {
    InvokeError::Run(RunError::Model(error))
}

fn provider() -> String {
    "openai/gpt".into()
}

const HALF: Duration = Duration::from_millis(500);
const MORE: Duration = Duration::from_millis(29_001);

#[tokio::test]
async fn limiters_answer_429() {
    let address = everywhere(|| Error::AddressLimited { retry_after: MORE }).await;
    assert_snapshot!(address, @r#"429 Too Many Requests; content-type: text/html; charset=utf-8; etag: W/"1e-roKLuvUqeFZ1+vMntDcNHW9otjw"; retry-after: 30 | Too many requests from this IP"#);
    let user = everywhere(|| Error::UserLimited { retry_after: Duration::ZERO }).await;
    assert_snapshot!(user, @r#"429 Too Many Requests; retry-after: 1 | {"error":"Rate limit exceeded"}"#);
}

#[tokio::test]
async fn a_missing_token_is_401_and_a_bad_one_403_without_a_word() {
    assert_snapshot!(everywhere(|| Error::NoToken).await, @"401 Unauthorized |");
    for make in [
        || TokenError::NotATime("exp"),
        || TokenError::Expired,
        || TokenError::NotYet,
        || TokenError::Nobody,
        || TokenError::Forged,
        || TokenError::Malformed,
    ] {
        assert_eq!(everywhere(|| make().into()).await, "403 Forbidden | ");
    }
}

#[tokio::test]
async fn a_role_that_is_missing_is_403_with_a_word() {
    assert_snapshot!(everywhere(|| Error::NotAdmin).await, @r#"403 Forbidden | {"error":"Forbidden"}"#);
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_mistakes_of_the_client() {
    let large = everywhere(|| BodyError::TooLarge { limit: 1 }.into()).await;
    assert_snapshot!(large, @r#"413 Payload Too Large | {"error":"Payload too large"}"#);
    let slow = everywhere(|| BodyError::TooSlow { limit: HALF }.into()).await;
    assert_snapshot!(slow, @r#"408 Request Timeout | {"error":"Request timeout"}"#);
    let broken = everywhere(|| BodyError::Broken(BoxError::from("reset")).into()).await;
    assert_snapshot!(broken, @r#"400 Bad Request | {"error":"Invalid input"}"#);
    let no_json = everywhere(|| crate::json::parse(b"{").unwrap_err().into()).await;
    assert_snapshot!(no_json, @r#"400 Bad Request | {"error":"Invalid input"}"#);
    let dense = || format!("[{}0]", r#"{"":0},"#.repeat(1 << 16));
    let dense = everywhere(|| crate::json::parse(dense().as_bytes()).unwrap_err().into()).await;
    assert_snapshot!(dense, @r#"413 Payload Too Large | {"error":"Payload too large"}"#);
    let issues =
        everywhere(|| Issues::from(Issue::wrong_type("string", None, vec![Step::Name("query")])).into())
            .await;
    assert_snapshot!(issues, @r#"400 Bad Request | {"error":[{"code":"invalid_type","expected":"string","received":"undefined","path":["query"],"message":"Required"}]}"#);
}

#[tokio::test]
async fn a_choice_of_tools_that_the_caller_does_not_have_is_a_mistake_of_the_client() {
    let unknown = everywhere(|| InvokeError::UnknownTools { indexes: vec![0, 12] }.into()).await;
    assert_snapshot!(unknown, @r#"400 Bad Request | {"error":[{"code":"custom","message":"Unknown tool","path":["options","tools",0]},{"code":"custom","message":"Unknown tool","path":["options","tools",12]}]}"#);
}

#[tokio::test]
async fn a_provider_that_limits_our_rate_is_429() {
    let limited = |retry_after| {
        let (provider, detail) = (provider(), "slow down".to_owned());
        let quota_exhausted = false;
        Error::Invoke(model(ModelError::RateLimited { provider, detail, retry_after, quota_exhausted }))
    };
    assert_snapshot!(everywhere(|| limited(None)).await, @r#"429 Too Many Requests; retry-after: 1 | {"error":"Rate limit exceeded"}"#);
    assert_snapshot!(everywhere(|| limited(Some(MORE))).await, @r#"429 Too Many Requests; retry-after: 30 | {"error":"Rate limit exceeded"}"#);
}

#[test]
fn what_passes_by_itself_says_when_to_come_back_in_the_form_of_openai_as_well() {
    for (status, after) in [(429, true), (503, true), (500, false), (400, false)] {
        let status = StatusCode::from_u16(status).unwrap();
        let answer = refuse_openai(status, &json!({}), None);
        assert_eq!(answer.headers().get(RETRY_AFTER).is_some_and(|after| after == "1"), after, "{status}");
    }
    let open = Error::from(InvokeError::CircuitOpen { retry_after: MORE });
    let answer = refuse_openai(StatusCode::SERVICE_UNAVAILABLE, &json!({}), open.retry_after());
    assert_eq!(answer.headers()[RETRY_AFTER], "30");
}

#[tokio::test]
async fn an_agent_that_is_not_to_be_had_is_503_and_says_when_to_come_back() {
    let busy = everywhere(|| InvokeError::Busy { waited: MORE }.into()).await;
    assert_snapshot!(busy, @r#"503 Service Unavailable; retry-after: 1 | {"error":"Service temporarily unavailable"}"#);
    let open = everywhere(|| InvokeError::CircuitOpen { retry_after: MORE }.into()).await;
    assert_snapshot!(open, @r#"503 Service Unavailable; retry-after: 30 | {"error":"Service temporarily unavailable"}"#);
    let late =
        everywhere(|| InvokeError::TimedOut { limit: MORE, retry_after: Some(HALF), in_tools: false }.into())
            .await;
    assert_snapshot!(late, @r#"503 Service Unavailable; retry-after: 1 | {"error":"Service temporarily unavailable"}"#);
    let late =
        everywhere(|| InvokeError::TimedOut { limit: MORE, retry_after: None, in_tools: false }.into()).await;
    assert_snapshot!(late, @r#"503 Service Unavailable; retry-after: 1 | {"error":"Service temporarily unavailable"}"#);
}

#[tokio::test]
async fn an_agent_that_fails_is_500_and_is_explained_outside_of_production() {
    let detail = || "no such model".to_owned();
    let rows = [
        ModelError::Timeout { provider: provider() },
        ModelError::Unreachable { provider: provider(), detail: detail() },
        ModelError::Unavailable { provider: provider(), detail: detail(), retry_after: None },
        ModelError::Refused { provider: provider(), detail: detail() },
        ModelError::Malformed { provider: provider(), detail: detail() },
    ];
    let mut told = vec![];
    for error in rows {
        told.push(two_ways(|| model(error.clone()).into()).await);
    }
    assert_snapshot!(told.join("\n"), @r#"
    500 Internal Server Error | {"error":"Internal server error"}
    500 Internal Server Error | {"error":"the agent run failed: the model call failed: the model provider openai/gpt did not answer in time"}
    500 Internal Server Error | {"error":"Internal server error"}
    500 Internal Server Error | {"error":"the agent run failed: the model call failed: the model provider openai/gpt could not be reached: no such model"}
    500 Internal Server Error | {"error":"Internal server error"}
    500 Internal Server Error | {"error":"the agent run failed: the model call failed: the model provider openai/gpt is unavailable: no such model"}
    500 Internal Server Error | {"error":"Internal server error"}
    500 Internal Server Error | {"error":"the agent run failed: the model call failed: the model provider openai/gpt refused the request: no such model"}
    500 Internal Server Error | {"error":"Internal server error"}
    500 Internal Server Error | {"error":"the agent run failed: the model call failed: the model provider openai/gpt sent a reply that cannot be read: no such model"}
    "#);
}

/// Whoever brought the function along can mend it, so it is no failure of the service.
#[test]
fn a_function_that_the_provider_refuses_is_named_to_its_client() {
    let refused = |functions: Vec<String>| {
        let detail = "the provider's words".to_owned();
        Error::from(model(ModelError::RefusedFunctions { provider: provider(), functions, detail }))
            .openai(true)
    };
    let (status, body) = refused(vec!["look".into(), "find".into()]);
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let message = "The provider of the model refuses the functions: 'look', 'find'.";
    let expected = json!({"error": {"message": message, "type": "invalid_request_error", "param": "tools",
                                    "code": "invalid_function_parameters"}});
    assert_eq!(body, expected);
    let (_, many) = refused((0..64).map(|number| format!("f{number}")).collect());
    assert!(many["error"]["message"].as_str().unwrap().ends_with("'f7' and 56 more."), "{many}");
}

/// Clients of OpenAI shorten their conversations by that code, and repeat what is a 500.
#[tokio::test]
async fn a_conversation_that_is_too_long_is_a_500_but_for_clients_of_openai() {
    let detail = "400 Bad Request: prompt is too long";
    let long = || Error::from(model(ModelError::TooLong { provider: provider(), detail: detail.into() }));
    assert_snapshot!(two_ways(long).await, @r#"
    500 Internal Server Error | {"error":"Internal server error"}
    500 Internal Server Error | {"error":"the agent run failed: the model call failed: the model provider openai/gpt refused the request, which is too long for the model: 400 Bad Request: prompt is too long"}
    "#);
    let (status, body) = long().openai(true);
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::BAD_REQUEST, &json!("context_length_exceeded"))
    );
}

#[tokio::test]
async fn a_run_that_cannot_go_on_is_500_as_well() {
    let journal = || JournalError::Store { detail: "the disk is full".into() };
    let told = two_ways(|| InvokeError::Run(RunError::Journal(journal())).into()).await;
    assert_snapshot!(told, @r#"
    500 Internal Server Error | {"error":"Internal server error"}
    500 Internal Server Error | {"error":"the agent run failed: the run could not be recorded: the run journal failed: the disk is full"}
    "#);
}

#[tokio::test]
async fn what_is_damaged_is_500_and_not_to_be_asked_for_again() {
    let damaged = || JournalError::Damaged { detail: "event 4 of run run_1 cannot be read".into() };
    let waits = || NotDecided::from(WaitError::Journal(damaged()));
    let conversation = || InvokeError::Conversation(ConversationError::Unreadable.into());
    for told in [
        two_ways(|| damaged().into()).await,
        two_ways(|| waits().into()).await,
        two_ways(|| conversation().into()).await,
    ] {
        assert!(
            told.starts_with(r#"500 Internal Server Error | {"error":"Internal server error"}"#),
            "{told}"
        );
    }
    let away = || JournalError::Store { detail: "connection refused".into() }.into();
    assert_snapshot!(everywhere(away).await, @r#"503 Service Unavailable; retry-after: 1 | {"error":"Service temporarily unavailable"}"#);
}

#[tokio::test]
async fn serverless_failures_are_500_with_their_outermost_text_everywhere() {
    let failed = || model(ModelError::Timeout { provider: provider() });
    assert_snapshot!(everywhere(|| Error::Serverless(failed())).await, @r#"500 Internal Server Error | {"error":"the agent run failed"}"#);
    let open = || InvokeError::CircuitOpen { retry_after: MORE };
    assert_snapshot!(everywhere(|| Error::Serverless(open())).await, @r#"500 Internal Server Error | {"error":"the circuit breaker is open"}"#);
    let busy = || InvokeError::Busy { waited: HALF };
    assert_snapshot!(everywhere(|| Error::Serverless(busy())).await, @r#"500 Internal Server Error | {"error":"no agent became free within 500 ms"}"#);
    let late = || InvokeError::TimedOut { limit: HALF, retry_after: None, in_tools: false };
    assert_snapshot!(everywhere(|| Error::Serverless(late())).await, @r#"500 Internal Server Error | {"error":"the agent run took longer than the 500 ms of AGENT_TIMEOUT_MS"}"#);
}

#[tokio::test]
async fn a_store_or_a_cluster_that_is_down_is_503() {
    let queue = || QueueError::Store { detail: "connection refused".into() }.into();
    assert_snapshot!(everywhere(queue).await, @r#"503 Service Unavailable; retry-after: 1 | {"error":"Service temporarily unavailable"}"#);
    let cache = || CacheError("connection refused".into()).into();
    assert_snapshot!(everywhere(cache).await, @r#"503 Service Unavailable; retry-after: 1 | {"error":"Service temporarily unavailable"}"#);
    let cluster = || ClusterError("connection refused".into()).into();
    assert_snapshot!(everywhere(cluster).await, @r#"503 Service Unavailable; retry-after: 1 | {"error":"Service temporarily unavailable"}"#);
}

#[tokio::test]
async fn what_is_wrong_with_jobs_has_its_rows() {
    assert_snapshot!(everywhere(|| Error::UnknownJob).await, @r#"404 Not Found | {"error":"Not found"}"#);
    assert_snapshot!(everywhere(|| Error::JobHadEnded).await, @r#"409 Conflict | {"error":"The job has already ended"}"#);
    assert_snapshot!(everywhere(|| Error::JobOutOfReach).await, @r#"409 Conflict | {"error":"The job cannot be cancelled here"}"#);
    assert_snapshot!(everywhere(|| Error::RunOutOfReach).await, @r#"409 Conflict; retry-after: 1 | {"error":"The run cannot be cancelled at this moment"}"#);
    assert_snapshot!(everywhere(|| Error::JobNotFailed).await, @r#"409 Conflict | {"error":"Only a job that failed can be tried again"}"#);
    let child = everywhere(|| Error::JobOfChildRun { parent: "1".into() }).await;
    assert_snapshot!(child, @r#"409 Conflict | {"error":"The job is a run that job 1 began: retry that one, if it failed"}"#);
    let cursor = everywhere(|| QueueError::BadCursor.into()).await;
    assert_snapshot!(cursor, @r#"400 Bad Request | {"error":[{"code":"custom","message":"Invalid cursor","path":["cursor"]}]}"#);
    let lease = two_ways(|| QueueError::LeaseLost { job_id: "7".into() }.into()).await;
    assert_snapshot!(lease, @r#"
    500 Internal Server Error | {"error":"Internal server error"}
    500 Internal Server Error | {"error":"the lease of job 7 was lost"}
    "#);
}

#[tokio::test]
async fn an_administrator_is_told_what_is_wrong() {
    let mut told = vec![];
    for error in [
        AdminError::UnknownComponent,
        AdminError::UnknownVersion("the bytes of sha256:1 are gone".into()),
        AdminError::Invalid("it is no digest".into()),
        AdminError::Refused("it exports \u{202e}nothing".into()),
        AdminError::Conflict("nothing is tried".into()),
        AdminError::NoStore,
        AdminError::Unavailable("connection refused".into()),
    ] {
        told.push(everywhere(|| error.clone().into()).await);
    }
    assert_snapshot!(told.join("\n"), @r#"
    404 Not Found | {"error":"there is no component of that name"}
    404 Not Found | {"error":"the bytes of sha256:1 are gone"}
    400 Bad Request | {"error":"it is no digest"}
    422 Unprocessable Entity | {"error":"it exports \u202enothing"}
    409 Conflict | {"error":"nothing is tried"}
    409 Conflict | {"error":"this service has no database to keep versions of tools in: set DATABASE_URL, or work with the tools folder"}
    503 Service Unavailable; retry-after: 1 | {"error":"Service temporarily unavailable"}
    "#);
}

#[tokio::test]
async fn what_the_admin_api_refuses_by_itself_has_its_rows() {
    let mut told = vec![];
    for refusal in [
        AdminRefusal::Name,
        AdminRefusal::IfMatch,
        AdminRefusal::NoRevision,
        AdminRefusal::Changed { revision: 7 },
        AdminRefusal::NeverThere,
        AdminRefusal::Signature,
        AdminRefusal::ContentType,
        AdminRefusal::ContentCoding,
        AdminRefusal::Part,
        AdminRefusal::Empty,
        AdminRefusal::Busy,
    ] {
        told.push(everywhere(|| refusal.clone().into()).await);
    }
    assert_snapshot!(told.join("\n"), @r#"
    400 Bad Request | {"error":"The name of a component is that of its file without .wasm: 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', and neither '.' nor '..'"}
    400 Bad Request | {"error":"If-Match holds revisions as the ETag of the component has them, such as \"7\", or *"}
    428 Precondition Required | {"error":"If-Match names no revision: send the one that you have read, which is the ETag of GET /admin/tools/{name}"}
    412 Precondition Failed | {"error":"The component is at revision 7: read it again and decide anew"}
    412 Precondition Failed | {"error":"There is no component of that name, so it has no revision that If-Match could name"}
    400 Bad Request | {"error":"Agent-Tool-Signature holds the bytes of <name>.wasm.sig in base64, at most 1024 of them"}
    415 Unsupported Media Type | {"error":"A component is sent as application/wasm or application/octet-stream"}
    415 Unsupported Media Type | {"error":"A component is sent as it is, without a content coding"}
    400 Bad Request | {"error":"A component is sent as a whole, without Content-Range"}
    400 Bad Request | {"error":"The body is empty: send the bytes of the component"}
    503 Service Unavailable; retry-after: 1 | {"error":"Two uploads are under way already"}
    "#);
}
