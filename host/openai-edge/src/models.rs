//! `GET /v1/models` and `GET /v1/models/{model}`: the agent is the one model that there is.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use http_edge::answer;
use http_edge::openapi::{Operation, tags};
use http_edge::request::path_id::{PathId, check_id, id};
use http_edge::variant_b::error::{Error, Problem};

/// The id of the agent.
pub(super) const AGENT: &str = "agent";

/// What can be asked.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiModel)]
struct Model {
    /// What requests name as their `model`.
    #[schema(example = "agent")]
    id: &'static str,
    /// Always `model`.
    #[schema(example = "model")]
    object: &'static str,
    /// An agent has no date.
    #[schema(example = 0)]
    created: u64,
    /// Who serves it.
    #[schema(example = "agent-host")]
    owned_by: &'static str,
}

/// All of them.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenAiModels)]
struct Models {
    /// Always `list`.
    #[schema(example = "list")]
    object: &'static str,
    /// The agent.
    data: Vec<Model>,
}

const MODEL: Model = Model { id: AGENT, object: "model", created: 0, owned_by: "agent-host" };

pub(super) fn describe_list() -> Operation {
    Operation::new("listOpenAiModels", tags::OPENAI, "List the models: the agent is one")
        .answers::<Models>(StatusCode::OK, "The models")
}

pub(super) fn describe_one() -> Operation {
    Operation::new("readOpenAiModel", tags::OPENAI, "Read a model")
        .path(id("model", "The model's id.", || json!(AGENT)))
        .answers::<Model>(StatusCode::OK, "The model")
        .refuses([Problem::unknown_model("gpt-5")])
}

pub(super) async fn list() -> Response {
    answer::json(StatusCode::OK, &Models { object: "list", data: vec![MODEL] })
}

pub(super) async fn read(model: PathId) -> Result<Response, Error> {
    match check_id(model) {
        Some(id) if id == AGENT => Ok(answer::json(StatusCode::OK, &MODEL)),
        id => Err(Problem::unknown_model(&id.unwrap_or_default()).into()),
    }
}
