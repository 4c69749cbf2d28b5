//! From a request to what the agent is asked: the same for every protocol of this variant.

use agent_core::words::Options;
use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;
use run_service::held_lease::LeaseWatch;
use run_service::layers::{Ask, InvokeError, RateCheck};

use super::auth::Caller;
use super::error::Error;
use crate::middleware::idempotency::OnceId;
use crate::middleware::request_id::RequestId;

/// Who asks the agent, and what the middlewares know of the request. Handlers take it as an argument.
pub struct Asking {
    pub caller: Caller,
    pub request_id: RequestId,
    pub headers: HeaderMap,
    pub rate_check: Option<RateCheck>,
    once: Option<OnceId>,
    lease: Option<LeaseWatch>,
}

impl Asking {
    /// What comes over a connection whose own request was answered, and is counted already.
    pub fn on_connection(caller: Caller, request_id: RequestId, headers: HeaderMap) -> Self {
        Self { caller, request_id, headers, rate_check: None, once: None, lease: None }
    }

    /// What the agent is asked on behalf of the caller.
    pub fn ask(&self, input: String, options: Options) -> Ask {
        let mut ask = Ask::new(self.request_id.to_string(), input);
        ask.principal = self.caller.principal();
        ask.options = options;
        ask.rate_check = self.rate_check.clone();
        ask.acts_under(self.lease.clone());
        ask
    }

    /// Waits for the check of the caller's rate limits, where nothing behind it does.
    pub async fn check_limits(&self) -> Result<(), InvokeError> {
        match &self.rate_check {
            Some(check) if !check.clone().passes().await => Err(InvokeError::OverLimit),
            _ => Ok(()),
        }
    }

    /// The turn that the run makes of a conversation, if the request has a key: carried out again under it,
    /// perhaps by another process, it is the same turn.
    pub fn turn_id(&self) -> Option<String> {
        self.once.as_ref().map(|OnceId(id)| id.to_string())
    }
}

impl<S: Sync> FromRequestParts<S> for Asking {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let Ok(request_id) = RequestId::from_request_parts(parts, state).await;
        Ok(Self {
            caller: Caller::from_request_parts(parts, state).await?,
            request_id,
            headers: parts.headers.clone(),
            rate_check: parts.extensions.get().cloned(),
            once: parts.extensions.get().cloned(),
            lease: parts.extensions.get().cloned(),
        })
    }
}
