//! The errors of these routes for the document, in OpenAI's form.

use http::StatusCode;
use http::header::ETAG;

use super::super::documented;
use super::super::error::Error;
use super::problem::{self, Problem};
use crate::openapi::{Refused, RefusedBody};
use crate::tokens::TokenError;

/// What is refused of a body or a path.
pub(super) fn problems<const N: usize>(problems: [Problem; N]) -> impl Iterator<Item = Refused> {
    problems.into_iter().map(|problem| Refused {
        status: problem.status(),
        body: RefusedBody::OpenAi(problem.body()),
        headers: vec![],
    })
}

/// What is refused for its token.
pub(super) fn tokens() -> impl Iterator<Item = Refused> {
    [Error::NoToken, Error::Token(TokenError::Expired)].into_iter().map(|error| {
        let headers = error.refused().headers;
        let (status, body) = error.openai(true);
        Refused { status, body: RefusedBody::OpenAi(body), headers }
    })
}

/// What the routes that ask the agent refuse.
pub(super) fn asking() -> impl Iterator<Item = Refused> {
    let problems = problems([
        Problem::missing("model"),
        Problem::unknown_model("gpt-5"),
        Problem::unsupported_parameter("audio", "The agent does not speak."),
    ]);
    let streams = documented::rows([Error::TooManyStreams]);
    problems.chain(documented::bodies().chain(documented::runs()).chain(streams).map(in_form))
}

/// A row of the error table as these routes answer it.
pub(super) fn in_form(refused: Refused) -> Refused {
    let Refused { status, body, mut headers } = refused;
    let text = match body {
        RefusedBody::OpenAi(body) => {
            return Refused { status, body: RefusedBody::OpenAi(body), headers };
        }
        RefusedBody::Text(text) => text,
        RefusedBody::Page(text) => text.to_owned(),
        RefusedBody::Issues(_) => "Invalid input".to_owned(),
        RefusedBody::Empty => reason(status).to_owned(),
    };
    headers.retain(|name| *name != ETAG);
    let body = problem::body(status, &text, None, problem::code_of(status));
    Refused { status, body: RefusedBody::OpenAi(body), headers }
}

fn reason(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or_default()
}
