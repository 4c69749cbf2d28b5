//! Requests that no route answers.

use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};

use crate::answer;

/// host/docs/interface/decisions-http.md#paths-and-methods.
pub(crate) async fn answer_unknown_path() -> Response {
    answer::refuse(StatusCode::NOT_FOUND, "Not found")
}

/// The path exists, the method does not. The router adds `Allow`, which is also all that `OPTIONS` asks for.
pub(crate) async fn answer_wrong_method(method: Method) -> Response {
    if method == Method::OPTIONS {
        return StatusCode::OK.into_response();
    }
    answer::refuse(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed")
}
