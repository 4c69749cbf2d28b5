//! `/api/agent/conversations`: listing, reading and deleting one's own kept conversations. An id belongs to
//! the namespace of its user: that of somebody else does not exist.

use std::time::SystemTime;

use agent_core::ports::{ConversationError, Deletion};
use agent_core::words::{Conversation, ConversationSummary, Turn, is_conversation_id};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use run_service::conversations::ConversationRefusal;
use run_service::layers::InvokeError;
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::Caller;
use super::bodies::CONVERSATION_ID;
use super::documented;
use super::error::Error;
use super::parameters::{ConversationListing, cursor_behind, place_behind};
use super::state::Shared;
use super::timestamp::{iso_8601, iso_8601_of_millis};
use crate::answer;
use crate::answer::result_json::MessageBody;
use crate::openapi::{Operation, tags};
use crate::request::path_id::{PathId, check_id};
use crate::request::{Field, Issue, Issues, read_query};

pub(super) fn describe_list() -> Operation {
    let summary = "List one's kept conversations, the one first that was last gone on with";
    Operation::new("listConversations", tags::AGENT, summary)
        .query::<ConversationListing>()
        .answers::<PageBody>(StatusCode::OK, "A page of them")
        .refuses(documented::stores())
}

pub(super) fn describe_one() -> Operation {
    Operation::new("readConversation", tags::AGENT, "Read a kept conversation")
        .path(ID)
        .answers::<ConversationBody<'static>>(StatusCode::OK, "The conversation")
        .refuses([Error::UnknownConversation])
        .refuses(documented::stores())
}

pub(super) fn describe_delete() -> Operation {
    Operation::new("deleteConversation", tags::AGENT, "Forget a kept conversation")
        .about("Not while a run is part of it. The runs themselves stay as long as they are to be kept.")
        .path(ID)
        .answers_nothing(StatusCode::NO_CONTENT, "It is gone")
        .refuses([Error::UnknownConversation])
        .refuses(documented::conversations())
        .refuses(documented::stores())
}

const ID: Field = CONVERSATION_ID.about("The conversation, as its user named it.");

/// `GET /api/agent/conversations?limit=&cursor=`.
pub(super) async fn list_conversations(
    State(edge): State<Shared>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let ConversationListing { limit, cursor } = read_query(query.as_deref())?;
    let after = match &cursor {
        Some(cursor) => Some(read_cursor(cursor).ok_or_else(|| Issues::from(Issue::bad_cursor()))?),
        None => None,
    };
    // One more says whether there is another page.
    let most = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(1);
    let listed = edge.variant.conversations.list(caller.id(), most, after).await.map_err(unavailable)?;
    let is_last = listed.len() <= limit;
    let page: Vec<_> = listed.into_iter().take(limit).collect();
    let next_cursor = page.last().filter(|_| !is_last).map(|last| cursor_behind(last.updated_at, &last.id));
    let page = PageBody { data: page.into_iter().map(SummaryBody::from).collect(), next_cursor };
    Ok(answer::json(StatusCode::OK, &page))
}

/// `GET /api/agent/conversations/{conversationId}`.
pub(super) async fn read_conversation(
    State(edge): State<Shared>,
    caller: Caller,
    id: PathId,
) -> Result<Response, Error> {
    let id = read_id(id)?;
    let kept = edge.variant.conversations.read(caller.id(), &id).await.map_err(unavailable)?;
    // One whose first run has not ended has nothing to be read.
    let kept = kept.filter(|kept| !kept.turns.is_empty()).ok_or(Error::UnknownConversation)?;
    Ok(answer::json(StatusCode::OK, &ConversationBody::from(&kept)))
}

/// `DELETE /api/agent/conversations/{conversationId}`.
pub(super) async fn delete_conversation(
    State(edge): State<Shared>,
    caller: Caller,
    id: PathId,
) -> Result<Response, Error> {
    let id = read_id(id)?;
    match edge.variant.conversations.delete(caller.id(), &id).await.map_err(unavailable)? {
        Deletion::Done => Ok(StatusCode::NO_CONTENT.into_response()),
        Deletion::Busy => Err(busy()),
        Deletion::Unknown => Err(Error::UnknownConversation),
    }
}

/// Somebody else's run is part of it at this moment.
pub fn busy() -> Error {
    InvokeError::Conversation(ConversationRefusal::Busy).into()
}

pub fn unavailable(error: ConversationError) -> Error {
    InvokeError::Conversation(error.into()).into()
}

fn read_id(id: PathId) -> Result<String, Error> {
    check_id(id).filter(|id| is_conversation_id(id)).ok_or(Error::UnknownConversation)
}

fn read_cursor(cursor: &str) -> Option<(SystemTime, &str)> {
    place_behind(cursor).filter(|(_, id)| is_conversation_id(id))
}

/// A page of a list of conversations.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ConversationPage)]
struct PageBody {
    /// The conversations, the one first that was last gone on with.
    data: Vec<SummaryBody>,
    /// What `cursor` has to be for the next page; null when this is the last one.
    #[schema(required = true, example = "1795478400000:trip-to-rome")]
    next_cursor: Option<String>,
}

/// A conversation in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ConversationSummary)]
struct SummaryBody {
    /// Names it.
    #[schema(example = "trip-to-rome")]
    conversation_id: String,
    /// How many turns are kept.
    #[schema(example = 3)]
    turns: u64,
    /// When its first run began.
    #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
    created_at: String,
    /// When it was last gone on with.
    #[schema(format = DateTime, example = "2026-11-21T12:05:00.000Z")]
    updated_at: String,
}

impl From<ConversationSummary> for SummaryBody {
    fn from(kept: ConversationSummary) -> Self {
        Self {
            conversation_id: kept.id,
            turns: kept.turns,
            created_at: iso_8601(kept.created_at),
            updated_at: iso_8601(kept.updated_at),
        }
    }
}

/// A kept conversation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Conversation)]
struct ConversationBody<'a> {
    /// Names it.
    #[schema(example = "trip-to-rome")]
    conversation_id: &'a str,
    /// Whether a run is part of it at this moment: another one is refused meanwhile.
    #[schema(example = false)]
    is_busy: bool,
    /// When its first run began.
    #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
    created_at: String,
    /// When it was last gone on with.
    #[schema(format = DateTime, example = "2026-11-21T12:05:00.000Z")]
    updated_at: String,
    /// What was said, the oldest first. Of a long conversation the oldest turns are not kept.
    turns: Vec<TurnBody<'a>>,
}

/// One run's part of a conversation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ConversationTurn)]
struct TurnBody<'a> {
    /// The run; empty of what a client of OpenAI added without one.
    #[schema(example = "run_019b1c2d")]
    run_id: &'a str,
    /// When it ended.
    #[schema(format = DateTime, example = "2026-11-21T12:05:00.000Z")]
    ended_at: String,
    /// What its caller said, and the transcript of the run.
    messages: Vec<MessageBody<'a>>,
}

impl<'a> From<&'a Conversation> for ConversationBody<'a> {
    fn from(kept: &'a Conversation) -> Self {
        Self {
            conversation_id: &kept.id,
            is_busy: kept.is_busy,
            created_at: iso_8601(kept.created_at),
            updated_at: iso_8601(kept.updated_at),
            turns: kept.turns.iter().map(TurnBody::from).collect(),
        }
    }
}

impl<'a> From<&'a Turn> for TurnBody<'a> {
    fn from(turn: &'a Turn) -> Self {
        Self {
            run_id: &turn.run_id,
            ended_at: iso_8601_of_millis(turn.at),
            messages: turn.messages.iter().filter_map(MessageBody::of).collect(),
        }
    }
}
