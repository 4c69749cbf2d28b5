//! `/api/agent/waits`: what one's runs wait for, and what others asked one to decide. What a caller neither
//! owns nor decides about does not exist.

use agent_core::words::Verdict;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::header::ETAG;
use http::{HeaderMap, HeaderValue, StatusCode};
use run_service::waits::{Delivery, NotDecided, ProposedDecision, WaitPage};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::auth::Caller;
use super::bodies::{self, Choice, DecisionRequest, EventRequest};
use super::documented;
use super::error::{Error, WaitRefusal};
use super::parameters::{WaitListing, WaitsOf};
use super::state::Shared;
use super::to_the_end::to_the_end;
use super::wait_body::WaitBody;
use crate::answer;
use crate::body::Payload;
use crate::openapi::{Operation, Parameter, tags};
use crate::request::path_id::{PathId, check_id, id};
use crate::request::{Field, read_query};

pub(super) fn describe_list() -> Operation {
    Operation::new("listWaits", tags::JOBS, "List what jobs wait for")
        .about("Those of one's own jobs, or those that one is to decide. What is decided is not among them.")
        .query::<WaitListing>()
        .answers::<PageBody>(StatusCode::OK, "A page of them")
        .refuses(documented::stores())
}

pub(super) fn describe_one() -> Operation {
    Operation::new("readWait", tags::JOBS, "Read what a job waits for")
        .about("`ETag` is the digest of what is shown, which a decision carries.")
        .path(ID)
        .answers::<WaitBody>(StatusCode::OK, "What would be done, and who decides")
        .header(StatusCode::OK, &ETAG)
        .refuses([Error::Wait(WaitRefusal::Unknown)])
        .refuses(documented::stores())
}

pub(super) fn describe_decide() -> Operation {
    Operation::new("decideWait", tags::JOBS, "Decide about what a job waits for")
        .about(
            "The first complete decision counts, and is carried out with exactly what was shown. A rejection is told to \
             the model.",
        )
        .path(ID)
        .parameter(
            Parameter::header(
                "If-Match",
                "The digest of what was shown in double quotes: the `ETag` of the wait.",
                if_match(),
            )
            .required(),
        )
        .body::<DecisionRequest>()
        .answers::<DecidedBody>(StatusCode::OK, "It is decided")
        .refuses(WaitRefusal::documented().into_iter().map(Error::Wait))
        .refuses(documented::bodies())
        .refuses(documented::stores())
}

fn if_match() -> Value {
    json!({ "type": "string", "pattern": r#"^"[^"]*"$"#, "examples": [format!("\"{EXAMPLE}\"")] })
}

const EXAMPLE: &str = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

const ID: Field = id("waitId", "The wait: its job, and the call that waits.", || json!("1:37ddff8e-1.0"));

/// `GET /api/agent/waits?of=&limit=&cursor=`: a page of waits, own ones or those to decide.
pub(super) async fn list_waits(
    State(edge): State<Shared>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let WaitListing { of, limit, cursor } = read_query(query.as_deref())?;
    let (waits, cursor) = (&edge.variant.waits, cursor.as_deref());
    let page = match of {
        WaitsOf::Own => waits.list(caller.id(), limit, cursor).await,
        WaitsOf::Decidable => waits.list_decidable(&caller.principal(), limit, cursor).await,
    };
    let WaitPage { waits, next_cursor } = page.map_err(NotDecided::from)?;
    let page = PageBody { data: waits.iter().map(WaitBody::from).collect(), next_cursor };
    Ok(answer::visible_json(StatusCode::OK, &page))
}

/// `GET /api/agent/waits/{waitId}`: what would be done, with its digest as the tag.
pub(super) async fn read_wait(
    State(edge): State<Shared>,
    caller: Caller,
    id: PathId,
) -> Result<Response, Error> {
    let id = check_id(id).ok_or(WaitRefusal::Unknown)?;
    let wait = edge.variant.waits.show(&caller.principal(), &id).await.map_err(NotDecided::from)?;
    let wait = wait.ok_or(WaitRefusal::Unknown)?;
    let mut response = answer::visible_json(StatusCode::OK, &WaitBody::from(&wait));
    if let Ok(tag) = HeaderValue::try_from(format!("\"{}\"", wait.open.wait.shown.digest())) {
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}

/// `POST /api/agent/waits/{waitId}/decision`: the wait is decided, under the digest of what was shown. Its
/// run goes on at once, also when the client leaves behind the decision.
pub(super) async fn decide_wait(
    State(edge): State<Shared>,
    caller: Caller,
    id: PathId,
    headers: HeaderMap,
    payload: Payload,
) -> Result<Response, Error> {
    let id = check_id(id).ok_or(WaitRefusal::Unknown)?;
    let shown = super::if_match::only_tag(&headers)?;
    let DecisionRequest { decision, reason, arguments, answer } =
        bodies::read(payload, &edge.settings).await?;
    let verdict = match (decision, arguments, answer) {
        (Choice::Approve, None, None) => Verdict::Approve,
        (Choice::Reject, None, None) => Verdict::Reject { reason },
        (Choice::Edit, Some(arguments), None) => Verdict::Edit { arguments },
        (Choice::Answer, None, Some(answer)) => Verdict::Answer { answer },
        // Whoever approves with arguments wants another call than the one that was shown.
        _ => return Err(WaitRefusal::NoArguments.into()),
    };
    let proposed = ProposedDecision { by: caller.principal(), shown, verdict };
    let waits = edge.variant.waits.clone();
    let decided = async move { waits.decide(&id, &proposed).await };
    let decided = to_the_end(&edge, "decision", decided).await??;
    let body = DecidedBody { wait: WaitBody::from(&decided.wait), goes_on: decided.goes_on };
    Ok(answer::visible_json(StatusCode::OK, &body))
}

pub(super) fn describe_event() -> Operation {
    Operation::new("deliverEvent", tags::JOBS, "Deliver an event to runs that wait for it")
        .about(
            "To one's own runs, or as an administrator to a user's. None is kept for runs that wait later.",
        )
        .path(EVENT)
        .body::<EventRequest>()
        .answers::<DeliveredBody>(StatusCode::OK, "To how many runs it was delivered")
        .refuses([Error::NotAdmin, Error::Wait(WaitRefusal::Unknown)])
        .refuses(documented::bodies())
        .refuses(documented::stores())
}

const EVENT: Field = id("name", "The event, as the runs named it.", || json!("payment-received"));

/// `POST /api/agent/events/{name}`: the runs of a user that wait for the event go on with it: all of them,
/// also when the client leaves before the answer. Nobody would deliver it to those that are left.
pub(super) async fn deliver_event(
    State(edge): State<Shared>,
    caller: Caller,
    name: PathId,
    payload: Payload,
) -> Result<Response, Error> {
    let name = check_id(name).ok_or(WaitRefusal::Unknown)?;
    let EventRequest { key, data, user_id } = bodies::read(payload, &edge.settings).await?;
    let by = caller.principal();
    if user_id.is_some() && by.role.as_deref() != Some("admin") {
        return Err(Error::NotAdmin);
    }
    let user_id = user_id.unwrap_or_else(|| caller.id().to_owned());
    let event = Delivery { name, key, data: data.unwrap_or_default() };
    let waits = edge.variant.waits.clone();
    let delivered = async move { waits.deliver(&by, &user_id, &event).await };
    let delivered = to_the_end(&edge, "event-delivery", delivered).await??;
    Ok(answer::json(StatusCode::OK, &DeliveredBody { delivered }))
}

/// What became of an event.
#[derive(Serialize, ToSchema)]
#[schema(as = EventDelivered)]
struct DeliveredBody {
    /// How many runs go on with it.
    #[schema(example = 1)]
    delivered: usize,
}

/// A page of a list of waits.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WaitPage)]
struct PageBody {
    /// What is waited for, in the order of the list.
    data: Vec<WaitBody>,
    /// What `cursor` has to be for the next page; null when this is the last one.
    #[schema(required = true, example = "41")]
    next_cursor: Option<String>,
}

/// A decision that was taken.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WaitDecided)]
struct DecidedBody {
    /// What was decided, and how.
    wait: WaitBody,
    /// Whether the run goes on: nothing else has to be decided for it.
    #[schema(example = true)]
    goes_on: bool,
}
