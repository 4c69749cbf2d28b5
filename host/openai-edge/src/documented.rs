//! The errors of these routes for the document, in OpenAI's form.

use http::StatusCode;
use http::header::ETAG;

use http_edge::openapi::{Operation, Refused, RefusedBody};
use http_edge::variant_b::documented;
use http_edge::variant_b::error::{Error, Problem, openai_problem as problem};

/// What is refused for its token.
pub(super) fn tokens() -> [Refused; 2] {
    documented::tokens().map(|error| {
        let headers = error.refused().headers;
        let (status, body) = error.openai(true);
        Refused { status, body: RefusedBody::OpenAi(body), headers }
    })
}

/// A route that asks the agent by the model's name, with what it refuses.
pub(super) fn asking_model(operation: Operation) -> Operation {
    asking(operation.refuses([
        Problem::missing("model"),
        Problem::unknown_model("gpt-5"),
        Problem::unsupported_parameter("audio", "The agent does not speak."),
    ]))
}

/// A route that asks the agent, with what it refuses.
pub(super) fn asking(operation: Operation) -> Operation {
    operation
        .refuses(documented::bodies().map(in_form))
        .refuses(documented::runs().map(in_form))
        .refuses([in_form(Error::TooManyStreams)])
}

/// A row of the error table as these routes answer it.
pub(super) fn in_form(refused: impl Into<Refused>) -> Refused {
    let Refused { status, body, mut headers } = refused.into();
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
