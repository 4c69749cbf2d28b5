//! From what a guest asks for to a request that may be sent, or to a refusal.
//!
//! In this order: count, scan for secrets, read the URI, ask the rules, clean the headers, inject
//! credentials. Nothing leaves the host before all of it is done, but for the body: that is scanned as it is
//! sent.

pub(crate) mod headers;
pub(crate) mod inject;

use http::{HeaderMap, Method, Request, Uri};
use http_body::Body;
use outbound::Reach;

use crate::allowed_hosts::{Admission, RequestLine, Times};
use crate::answers::recording;
use crate::answers::{HttpMode, HttpRequestRecord};
use crate::error::EgressError;
use crate::state::CallState;
use crate::target::Target;

/// A request that may be sent. It cannot be printed: credentials are in it.
pub(crate) struct Prepared<B> {
    pub target: Target,
    pub reach: Reach,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// The length of the body, if the guest gave it.
    pub length: Option<u64>,
    pub body: B,
    pub times: Times,
    /// Names of the secrets in it.
    pub secrets: Vec<String>,
    /// What the guest asked for, if somebody wants to know: no credential is in it.
    pub record: Option<HttpRequestRecord>,
}

/// Makes a request ready, or refuses it. Nothing has left the host then.
pub(crate) fn prepare<B: Body>(
    call: &CallState,
    request: Request<B>,
    times: Times,
) -> Result<Prepared<B>, EgressError> {
    call.ledger.requested();
    call.budget.count_request()?;
    // First, so that no error repeats a secret.
    inject::refuse_secrets(&request, &call.grant.scanner).inspect_err(|_| {
        // silent-ok: it is refused already, and the next request for the number of secrets.
        call.ledger.met(1);
        let _ = call.budget.meet_secrets(1);
    })?;
    let (head, body) = request.into_parts();
    let target = Target::parse(&head.uri).map_err(EgressError::InvalidUri)?;
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(EgressError::Method(head.method.to_string()));
    }
    let admission = admit(call, &head.method, &target)?;
    let (mut headers, length) = headers::for_request(head.headers, &target)?;
    let hint = body.size_hint();
    let fits = |length| hint.lower() <= length && hint.upper().is_none_or(|upper| length <= upper);
    if !length.is_none_or(fits) {
        return Err(EgressError::BodyLength);
    }
    let record = (!matches!(call.egress.http, HttpMode::Network { recorder: None })).then(|| {
        let path = inject::admitted_path(&admission, &target)?;
        Ok(recording::request(&head.method, &target, path.as_str(), &headers))
    });
    let record = record.transpose()?;
    let injected = inject::inject(&call.grant.secrets, &admission, &target, &mut headers)?;
    Ok(Prepared {
        reach: admission.reach(),
        uri: Uri::from(injected.path_and_query),
        target,
        method: head.method,
        headers,
        length,
        body,
        times,
        secrets: injected.secrets,
        record,
    })
}

fn admit(call: &CallState, method: &Method, target: &Target) -> Result<Admission, EgressError> {
    let line = RequestLine {
        scheme: target.origin.scheme,
        host: target.origin.host.as_str(),
        port: target.origin.port,
        authority: &target.origin.authority(),
        method,
        path_and_query: target.path_and_query.as_str(),
    };
    call.grant.rules.authorize(&line).map_err(EgressError::Denied)
}
