//! Requests of one call of a tool: `prepare` makes them ready where they are made, `exchange` carries them
//! out on the service's runtime.
//!
//! [`Egress`] is what the service has, and [`Call`] what a call of a tool holds. Redirects are responses like
//! any other: whoever follows one makes a request that is checked like any other.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use outbound::{ConnectError, Dialer, LookupBounds, PoolBounds, Resolve, Tls};
use tokio::runtime::{self, Handle};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::allowed_hosts::{Grant, Times};
use crate::answers::recording::CallName;
use crate::answers::{CallKey, HttpMode};
use crate::body::ResponseBody;
use crate::budget::CallBudget;
use crate::error::EgressError;
use crate::exchange;
use crate::exchange::answered;
use crate::receipt::Receipt;
use crate::request::prepare;
#[cfg(test)]
use crate::secret_scan::Scanner;
use crate::state::{CallState, EgressShared};

/// The way out of the host for all calls: one for the service.
#[derive(Debug)]
pub struct Egress(Arc<EgressShared>);

/// What all calls together may use.
#[derive(Debug, Clone, Copy)]
pub struct EgressBounds {
    /// Requests under way at once. Others wait, within their call's deadline.
    pub exchanges: usize,
    pub(crate) lookups: LookupBounds,
    pub pool: PoolBounds,
}

/// The requests of one call of a tool. Dropping it ends those under way and closes their connections.
#[derive(Debug)]
pub struct Call {
    state: Arc<CallState>,
    /// Never sent to: that it is dropped is the end.
    _running: watch::Sender<()>,
}

impl Default for EgressBounds {
    fn default() -> Self {
        Self { exchanges: 256, lookups: LookupBounds::default(), pool: PoolBounds::default() }
    }
}

impl Egress {
    /// Network I/O is done on `runtime`: the service's own, never the guests'. Without `tls`, every HTTPS
    /// request fails and says so.
    pub fn new(
        runtime: Handle,
        resolver: Arc<dyn Resolve>,
        tls: impl Into<Option<Tls>>,
        bounds: EgressBounds,
        http: HttpMode,
    ) -> Self {
        let dialer = Dialer::new(resolver, tls.into(), bounds.lookups, bounds.pool);
        let exchanges = Arc::new(Semaphore::new(bounds.exchanges));
        Self(Arc::new(EgressShared { runtime, guests: None, dialer, exchanges, http }))
    }

    /// Requests that are made on any other runtime than the guests' do their I/O there: no thread has to be
    /// woken for them.
    #[must_use]
    pub fn keeping_off(mut self, guests: runtime::Id) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.guests = Some(guests);
        }
        self
    }

    /// The requests of one call, under a grant, until a deadline.
    pub fn call_of(&self, key: CallKey<'_>, grant: Arc<Grant>, deadline: Instant) -> Call {
        let budget = Arc::new(CallBudget::new(grant.limits, deadline));
        let (running, ended) = watch::channel(());
        let name = Arc::new(CallName::new(key));
        let state = CallState { egress: self.0.clone(), name, grant, budget, ledger: Arc::default(), ended };
        Call { state: Arc::new(state), _running: running }
    }

    /// The requests of a call that is of no run.
    #[cfg(test)]
    pub fn call(&self, grant: Arc<Grant>, deadline: Instant) -> Call {
        self.call_of(CallKey { run_id: "run", call_id: "call" }, grant, deadline)
    }

    /// How many connections wait to be used again.
    #[cfg(test)]
    pub(super) fn idle_connections(&self) -> usize {
        self.0.dialer.waiting().0
    }

    /// How many of them the server has not closed.
    #[cfg(test)]
    pub(super) fn open_idle_connections(&self) -> usize {
        self.0.dialer.waiting().1
    }
}

impl Call {
    /// Sends a request and waits for the head of its response. The future may be awaited on any runtime;
    /// dropping it closes the connection, and so does dropping the response's body before its end.
    ///
    /// `times` are at most those of the grant: see [`Call::times`] and [`Times::shortened`].
    pub fn send<B>(
        &self,
        request: Request<B>,
        times: Times,
    ) -> impl Future<Output = Result<Response<ResponseBody>, EgressError>> + Send + use<B>
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let state = self.state.clone();
        let prepared = prepare(&state, request, times);
        async move {
            let mut ended = state.ended.clone();
            let exchange = async {
                let prepared = prepared.inspect_err(|refusal| state.ledger.refused(refusal))?;
                let sent = match &state.egress.http {
                    HttpMode::Network { .. } => exchange::send(&state, prepared).await,
                    HttpMode::Answers(answers) => answered::send(&state, &**answers, prepared).await,
                };
                sent.inspect_err(|error| {
                    if let EgressError::Unreachable { host, why: ConnectError::Forbidden(_) } = error {
                        state.grant.rules.forbidden(host);
                    }
                })
            };
            tokio::select! {
                biased;
                _dropped = ended.changed() => Err(EgressError::CallEnded),
                response = exchange => response,
            }
        }
    }

    /// The longest times of a request.
    pub fn times(&self) -> Times {
        self.state.grant.limits.times
    }

    /// What was reached so far.
    pub fn receipt(&self) -> Receipt {
        self.state.ledger.receipt()
    }

    /// For outputs, errors and log lines of the call.
    #[cfg(test)]
    pub fn scanner(&self) -> &Scanner {
        self.state.grant.scanner()
    }
}
