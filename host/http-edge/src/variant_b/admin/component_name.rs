//! Which component a path names.

use agent_core::words::is_component_name;
use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

use super::super::error::{AdminRefusal, Error};

/// The name of a component, fit to be that of a file: handlers take it as an argument.
#[derive(Debug)]
pub(super) struct ComponentName(String);

impl ComponentName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ComponentName {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        // A path that is no text has no name in it. What was encoded in it is decoded by now.
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(name)) if is_component_name(&name) => Ok(Self(name)),
            Ok(_) | Err(_) => Err(AdminRefusal::Name.into()),
        }
    }
}
