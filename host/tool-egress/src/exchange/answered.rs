//! A request that is answered by an [`HttpAnswers`], without the network.
//!
//! What a guest can notice is as it is with a server: permits, bytes, times, the scan of both bodies. An
//! address in the URL is judged, a name is taken for one that may be reached.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use outbound::ConnectError;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::answers::recording::BoundedBody;
use crate::answers::{HttpAnswers, HttpOutcome};
use crate::body::{Accounts, RequestBody, ResponseBody};
use crate::error::{EgressError, ErrorKind};
use crate::request::Prepared;
use crate::request::headers;
use crate::state::CallState;

/// Answers a request that was prepared.
pub(crate) async fn send<B>(
    call: &Arc<CallState>,
    answers: &dyn HttpAnswers,
    prepared: Prepared<B>,
) -> Result<Response<ResponseBody>, EgressError>
where
    B: Body<Data = Bytes> + Send + 'static,
{
    let host = prepared.target.origin.host.as_str().to_owned();
    let _permits = call.permits(&host).await?;
    let row = call.ledger.begun(&prepared.target.origin);
    let accounts = Accounts { budget: call.budget.clone(), ledger: call.ledger.clone(), row };
    let until = call.budget.deadline().min(Instant::now() + prepared.times.total);
    let within = prepared.times.total;
    let answered = tokio::time::timeout_at(until, answer(call, answers, prepared, &accounts)).await;
    let answered = match answered {
        Ok(answered) => answered,
        Err(_elapsed) if until < call.budget.deadline() => {
            Err(EgressError::TotalTimeout { host: host.clone(), within })
        }
        Err(_elapsed) => Err(EgressError::Deadline(host.clone())),
    };
    let responded = answered.and_then(|outcome| respond(call, &host, outcome, &accounts));
    responded.inspect_err(|error| {
        call.ledger.failed(row);
        if error.is_refusal() {
            call.ledger.refused(error);
        }
    })
}

async fn answer<B>(
    call: &Arc<CallState>,
    answers: &dyn HttpAnswers,
    prepared: Prepared<B>,
    accounts: &Accounts,
) -> Result<HttpOutcome, EgressError>
where
    B: Body<Data = Bytes> + Send + 'static,
{
    let Prepared { target, reach, uri, headers, length, body, secrets, record, .. } = prepared;
    let host = || target.origin.host.as_str().to_owned();
    target.origin.check_literal(reach).map_err(|why| EgressError::Unreachable { host: host(), why })?;
    let mut request = record.ok_or_else(|| unusable("the request was not written down"))?;
    call.ledger.injected(&secrets);
    let head_bytes = request.method.len()
        + uri.path_and_query().map_or(0, |asked| asked.as_str().len())
        + headers::bytes_of(&headers);
    accounts.spend_sent(head_bytes)?;
    let sent = BoundedBody::default();
    let scan = call.grant.scanner().stream();
    let (mut body, _watch) = RequestBody::new(body, length, scan, accounts.clone());
    while let Some(frame) = body.frame().await {
        if let Ok(chunk) = frame?.into_data() {
            sent.push(&chunk);
        }
    }
    sent.end();
    (request.body, request.body_cut) = sent.take();
    answers.answer(call.name.key(), &request).await.map_err(EgressError::Unanswered)
}

/// The outcome as the guest gets it.
fn respond(
    call: &CallState,
    host: &str,
    outcome: HttpOutcome,
    accounts: &Accounts,
) -> Result<Response<ResponseBody>, EgressError> {
    let (status, fields, body, cut) = match outcome {
        HttpOutcome::Response { status, headers, body, cut } => (status, headers, body, cut),
        HttpOutcome::Failed(code) => return Err(failure(host, &code)),
    };
    let scanner = call.grant.scanner();
    let fields = fields_of(fields)?;
    accounts.spend_received(headers::bytes_of(&fields))?;
    headers::check_coding(&fields, host, scanner)?;
    accounts.spend_received(body.len())?;
    let (scanned, replaced) = headers::for_response(&fields, scanner, &[], cut || !scanner.is_empty());
    let (body, found) = scanner.scan_bytes(&body);
    call.ledger.redacted(replaced.all + found);
    // One for each: the body, and the error after one that is cut.
    let (chunks, waiting) = mpsc::channel(2);
    if !body.is_empty() {
        // silent-ok: there is room, and its receiver is here.
        let _ = chunks.try_send(Ok(Bytes::from(body.into_owned())));
    }
    if cut {
        // silent-ok: as above.
        let _ = chunks.try_send(Err(EgressError::Incomplete { host: host.to_owned() }));
    }
    let mut response = Response::new(ResponseBody::new(waiting, Arc::new(AtomicBool::new(true)), None));
    *response.status_mut() =
        StatusCode::from_u16(status).map_err(|_| unusable(&format!("{status} is no status")))?;
    *response.headers_mut() = scanned;
    Ok(response)
}

fn fields_of(fields: Vec<(String, String)>) -> Result<HeaderMap, EgressError> {
    let mut map = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        let wrong = || unusable(&format!("the header {name:?} is not valid"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        map.append(name, HeaderValue::from_str(&value).map_err(|_| wrong())?);
    }
    Ok(map)
}

/// The failure with that code. Where a guest is told words, they are the same as those of a failure over the
/// network.
fn failure(host: &str, code: &str) -> EgressError {
    let host = host.to_owned();
    match ErrorKind::from_name(code) {
        Some(ErrorKind::DestinationIpProhibited) => {
            EgressError::Unreachable { host, why: ConnectError::Forbidden(vec![]) }
        }
        Some(kind) => EgressError::Answered { host, kind },
        None => unusable(&format!("wasi:http has no error {code:?}")),
    }
}

fn unusable(problem: &str) -> EgressError {
    EgressError::Host(format!("the answer that was given for a request cannot be used: {problem}"))
}
