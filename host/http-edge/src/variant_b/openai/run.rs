//! From a request to what the agent is asked.

use agent_core::layers::{Ask, RateCheck};
use agent_core::words::{ClientFunction, Options};
use axum::Extension;

use super::super::auth::Caller;
use super::super::error::Error;
use super::conversation::RunInput;
use super::functions;
use crate::dependencies::VariantB;
use crate::middleware::request_id::RequestId;

/// A request that has been read.
pub(super) struct Request<'a> {
    pub(super) asked: RunInput,
    pub(super) options: Options,
    pub(super) request_id: &'a RequestId,
    pub(super) caller: &'a Caller,
    pub(super) rate_check: Option<Extension<RateCheck>>,
}

/// Refuses functions that have the name of a tool which the caller's runs have.
pub(super) async fn check_functions(
    variant: &VariantB,
    caller: &Caller,
    functions: &[ClientFunction],
) -> Result<(), Error> {
    if functions.is_empty() {
        return Ok(());
    }
    variant.tool_calls.prepared().await?;
    let tools = variant.toolbox.current_for(&caller.principal());
    Ok(functions::check_names(functions, |name| tools.catalog().get(name).is_some())?)
}

/// What the agent is asked on behalf of the caller.
pub(super) fn ask(request: Request<'_>) -> Ask {
    let Request { asked: RunInput { input, history }, options, request_id, caller, rate_check } = request;
    Ask {
        principal: caller.principal(),
        options: Options { history, ..options },
        rate_check: rate_check.map(|Extension(check)| check),
        ..Ask::new(request_id.to_string(), input)
    }
}
