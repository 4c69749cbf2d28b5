//! What requests share: all of the service ([`EgressShared`]), and those of one call ([`CallState`]).

use std::sync::Arc;

use outbound::Dialer;
use tokio::runtime::{self, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::allowed_hosts::Grant;
use crate::answers::HttpMode;
use crate::answers::recording::CallName;
use crate::body::RequestBody;
use crate::budget::CallBudget;
use crate::error::EgressError;
use crate::receipt::Ledger;

#[derive(Debug)]
pub(super) struct EgressShared {
    /// Does the I/O of requests that are made where guests compute.
    pub(super) runtime: Handle,
    /// Where guests compute, if that is known.
    pub(super) guests: Option<runtime::Id>,
    pub(super) dialer: Dialer<RequestBody>,
    pub(super) exchanges: Arc<Semaphore>,
    pub(super) http: HttpMode,
}

/// What the requests of one call share.
#[derive(Debug)]
pub(super) struct CallState {
    pub(super) egress: Arc<EgressShared>,
    pub(super) name: Arc<CallName>,
    pub(super) grant: Arc<Grant>,
    pub(super) budget: Arc<CallBudget>,
    pub(super) ledger: Arc<Ledger>,
    /// Fails when the call has ended.
    pub(super) ended: watch::Receiver<()>,
}

impl EgressShared {
    /// Whether an exchange is carried on where its request is made: on a thread that no guest computes on for
    /// long.
    pub(super) fn exchanges_here(&self) -> bool {
        let here = Handle::current().id();
        here == self.runtime.id() || self.guests.is_some_and(|guests| guests != here)
    }
}

/// The call's own, and that of the service.
pub(super) type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl CallState {
    /// Waits for the right to one more request.
    pub(super) async fn permits(&self, host: &str) -> Result<Permits, EgressError> {
        let own = self.budget.concurrency_permit(host).await?;
        let of_service = self.egress.exchanges.clone().acquire_owned();
        match tokio::time::timeout_at(self.budget.deadline(), of_service).await {
            Ok(Ok(of_service)) => Ok((own, of_service)),
            Ok(Err(_closed)) => Err(EgressError::CallEnded),
            Err(_elapsed) => Err(EgressError::Deadline(host.to_owned())),
        }
    }
}
