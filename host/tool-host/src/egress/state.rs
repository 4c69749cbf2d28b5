//! What requests share: all of the service ([`Shared`]), and those of one call ([`CallState`]).

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use super::budget::CallBudget;
use super::connect::Tls;
use super::grant::Grant;
use super::pool::Pool;
use super::receipt::Ledger;
use super::resolve::Lookups;
use super::task::IoRuntime;

/// What all calls share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) runtime: IoRuntime,
    pub(super) tls: Tls,
    pub(super) lookups: Lookups,
    pub(super) pool: Arc<Pool>,
    pub(super) exchanges: Arc<Semaphore>,
}

/// What the requests of one call share.
#[derive(Debug)]
pub(super) struct CallState {
    pub(super) egress: Arc<Shared>,
    pub(super) grant: Arc<Grant>,
    pub(super) budget: Arc<CallBudget>,
    pub(super) ledger: Arc<Ledger>,
    /// Fails when the call has ended.
    pub(super) ended: watch::Receiver<()>,
}
