//! The result cache, with single flight: equal questions get one answer for a while, and those in flight share a run.

mod key;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use tokio::time::timeout;
use tracing::{Instrument, info, warn};

use super::single_flight::SingleFlight;
use super::{Answer, Ask, Invoke, InvokeError};
use crate::driver::RunError;
use crate::observe::{CacheUse, Observer};
use crate::outage::Outage;
use crate::ports::{CacheError, ResultCache, Toolbox};
use crate::words::StopReason;

/// For how long a result is kept (interface, Limits, "Cache time-to-live").
pub const TIME_TO_LIVE: Duration = Duration::from_secs(3600);

/// How long an answer may be held up by a cache that does not react: once to look, once to keep the result.
/// Callers would rather have the agent run.
const PATIENCE: Duration = Duration::from_millis(250);

/// Answers from the cache, or runs the agent and keeps its result if that completed.
///
/// Identical questions in flight at once are one: the cache is looked at and the agent is run on behalf of
/// all who wait. When one of them goes away the others go on waiting; when all do, the run is dropped. Deadline,
/// admission and circuit belong inside, because they have to act on the one run and not on each of its callers.
#[derive(Debug)]
pub struct Cached<I> {
    shared: Arc<Parts<I>>,
    flights: SingleFlight<Outcome>,
}

/// What a flight needs of the wrapper, which it may outlive.
struct Parts<I> {
    inner: I,
    cache: Arc<dyn ResultCache>,
    toolbox: Arc<dyn Toolbox>,
    model: String,
    observer: Arc<dyn Observer>,
    outage: Outage,
}

type Outcome = Result<Answer, InvokeError>;

impl<I: Invoke + 'static> Cached<I> {
    /// Keeps in `cache` what `inner` answers. `model` is the model's name and `toolbox` has the tools that
    /// runs are made with: other ones give other answers.
    pub fn new(
        inner: I,
        cache: Arc<dyn ResultCache>,
        toolbox: Arc<dyn Toolbox>,
        model: String,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let outage = Outage::default();
        let shared = Arc::new(Parts { inner, cache, toolbox, model, observer, outage });
        Self { shared, flights: SingleFlight::default() }
    }
}

#[async_trait]
impl<I: Invoke + 'static> Invoke for Cached<I> {
    async fn invoke(&self, ask: Ask) -> Outcome {
        let tools = self.shared.tools();
        let key = key::of(&ask.input, &ask.options, &self.shared.model, &tools, &ask.grants.digest());
        let (flight, joined) = self.flights.join_or_begin(&key, || {
            let (parts, key) = (self.shared.clone(), key.clone());
            // Any of the callers may poll it; its log lines are those of the request that began it.
            async move {
                // A panic becomes an error, or it would be repeated in every waiter.
                let answer = AssertUnwindSafe(parts.answer(&key, &tools, ask)).catch_unwind().await;
                answer.unwrap_or(Err(RunError::Panicked.into()))
            }
            .in_current_span()
            .boxed()
        });
        let outcome = flight.await;
        if joined {
            self.shared.observer.cache_used(CacheUse::Shared);
        }
        outcome
    }
}

impl<I: Invoke> Parts<I> {
    /// Digest of the tools of this moment.
    fn tools(&self) -> String {
        self.toolbox.current().catalog().digest().to_owned()
    }

    async fn answer(&self, key: &str, tools: &str, ask: Ask) -> Outcome {
        // Looking comes before running but within the flight: a caller whose look just missed must not begin
        // a second run when the first one has ended meanwhile.
        if let Some(Some(result)) = self.bounded(self.cache.get(key)).await {
            self.observer.cache_used(CacheUse::Hit);
            return Ok(Answer { result, cached: Some(true) });
        }
        self.observer.cache_used(CacheUse::Miss);
        let Answer { result, .. } = self.inner.invoke(ask).await?;
        // Tools that were swapped meanwhile may be those that ran, and the key names the ones before.
        if result.stop_reason == StopReason::Completed && self.tools() == tools {
            self.bounded(self.cache.put(key, &result, TIME_TO_LIVE)).await;
        }
        Ok(Answer { result, cached: Some(false) })
    }

    /// What the cache says, or nothing when it fails or is too slow.
    async fn bounded<T>(&self, call: impl Future<Output = Result<T, CacheError>>) -> Option<T> {
        let error = match timeout(PATIENCE, call).await {
            Ok(Ok(value)) => {
                if let Some(lasted) = self.outage.ends() {
                    info!(outage_ms = lasted.as_millis(), "the result cache works again");
                }
                return Some(value);
            }
            Ok(Err(error)) => error,
            Err(_elapsed) => CacheError(format!("no answer within {} ms", PATIENCE.as_millis())),
        };
        self.observer.cache_used(CacheUse::Failed);
        if self.outage.begins() {
            warn!(%error, "the agent runs without its cache");
        }
        None
    }
}

impl<I> std::fmt::Debug for Parts<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("model", &self.model).finish_non_exhaustive()
    }
}
