//! The result cache, with single flight: equal questions get one answer for a while, and those in flight
//! share a run.
//!
//! Two questions are equal only if their callers may use the same tools under the same grants: the digest of
//! the caller's tool set is in the key. A result is shared between users only when no call of its run went to
//! a component that can tell users apart ([`AgentResult::is_per_user`]). Any other result is never stored,
//! not for its own user either: what such a component keeps changes from one call to the next.

mod key;
#[cfg(test)]
mod tests;
mod unwritten;

use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use agent_core::chosen_tools;
use agent_core::ports::{CacheError, CacheUse, Observer, ResultCache as _, Toolbox};
use agent_core::trace::InTrace as _;
use agent_core::words::{AgentResult, CanonicalResult, Principal, StopReason};
use boxed_async::boxed_async;
use bytes::Bytes;
use futures::FutureExt;
use tokio::time::timeout;
use tracing::{Instrument, debug, error, info, warn};

use super::single_flight::SingleFlight;
use super::{Ask, Invoke, InvokeError, JsonAnswer, RunAnswer, wait_tools};
use crate::loop_driver::RunError;
use crate::outage::Outage;
pub use key::Answerer;
pub use unwritten::WriteBehindCache;

/// For how long a result is kept (host/docs/interface/errors-and-limits.md#limits).
pub const TIME_TO_LIVE: Duration = Duration::from_secs(3600);

/// How long an answer may be held up by a cache that does not react. Callers would rather have the agent run.
/// Longer than its store waits for an answer by itself (500 ms on Redis): a query that is dropped before
/// tells it nothing, and each one after it would be held up as long.
const PATIENCE: Duration = Duration::from_millis(600);

/// Answers from the cache, or runs the agent and keeps its result if that completed.
///
/// Identical questions in flight at once are one: the cache is looked at and the agent is run on behalf of
/// all who wait. When one of them goes away the others go on waiting; when all do, the run is dropped.
/// Deadline, admission and circuit belong inside, because they have to act on the one run and not on each of
/// its callers.
///
/// Whoever passes the result on as JSON gets the bytes that are kept, as far as writing the result anew would
/// make the same of them ([`CanonicalResult`]). Anything else that is kept is parsed, and what cannot be is a
/// miss.
///
/// A result is kept after its answer was given: nobody waits for that, and until it is written this process
/// answers from what it remembers.
///
/// A follower whose leader's result is not for it runs for itself: once more together with the equal
/// questions of the same user, and then alone, so that no question waits for more than two runs besides its
/// own.
pub struct Cached<I> {
    shared: Arc<Parts<I>>,
    flights: SingleFlight<Landed>,
}

/// What came of a flight, and for whom it is.
#[derive(Debug, Clone)]
struct Landed {
    outcome: JsonResult,
    /// On whose behalf the run was made.
    leader: Principal,
    /// Digest of the leader's tools when it landed.
    tools: String,
}

/// What a flight needs of the wrapper, which it may outlive.
struct Parts<I> {
    inner: I,
    cache: WriteBehindCache,
    toolbox: Arc<dyn Toolbox>,
    answerer: Answerer,
    observer: Arc<dyn Observer>,
    outage: Outage,
}

type JsonResult = Result<JsonAnswer, InvokeError>;

impl<I: Invoke + 'static> Cached<I> {
    /// Keeps in `cache` what `inner` answers. `answerer` and the tools of `toolbox` are those that runs are
    /// made with: other ones give other answers.
    pub fn new(
        inner: I,
        cache: WriteBehindCache,
        toolbox: Arc<dyn Toolbox>,
        answerer: Answerer,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let shared = Arc::new(Parts { inner, cache, toolbox, answerer, observer, outage: Outage::default() });
        Self { shared, flights: SingleFlight::default() }
    }
}

#[boxed_async]
impl<I: Invoke + 'static> Invoke for Cached<I> {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        self.invoke_for_json(ask).await.and_then(parsed)
    }

    async fn invoke_for_json(&self, ask: Ask) -> JsonResult {
        let ask = match self.share(ask, |question| question.key.clone()).await {
            ControlFlow::Break(outcome) => return outcome,
            ControlFlow::Continue(ask) => ask,
        };
        let Some(user) = ask.principal.user_id.clone() else { return self.shared.alone(ask).await };
        // A key is of fixed length, so that no flight of a user is taken for one that all share.
        match self.share(ask, |question| format!("{} {user}", question.key)).await {
            ControlFlow::Break(outcome) => outcome,
            ControlFlow::Continue(ask) => self.shared.alone(ask).await,
        }
    }
}

/// [`Cached`] for runs that share none with others: those that are streamed, each of which has a life and
/// readers of its own. What is kept is looked at before such a run, and its result is kept.
pub struct Unshared<I>(Arc<Parts<I>>);

impl<I> Cached<I> {
    /// Without single flight.
    pub fn unshared(self) -> Unshared<I> {
        Unshared(self.shared)
    }
}

#[boxed_async]
impl<I: Invoke + 'static> Invoke for Unshared<I> {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        self.0.alone(ask).await.and_then(parsed)
    }
}

/// Conversations are outside of the cache.
fn answer_with(result: Arc<AgentResult>, is_from_cache: bool) -> RunAnswer {
    RunAnswer { result, cached: Some(is_from_cache), is_turn_lost: false }
}

/// For callers who read the result.
fn parsed(answer: JsonAnswer) -> Result<RunAnswer, InvokeError> {
    let json = match answer {
        JsonAnswer::Parsed(answer) => return Ok(answer),
        JsonAnswer::Written(json) => json,
    };
    match json.parse() {
        Ok(result) => Ok(answer_with(Arc::new(result), true)),
        // A bug: those bytes were checked.
        Err(error) => {
            error!(%error, "a kept result cannot be parsed although it is canonical");
            Err(RunError::Panicked.into())
        }
    }
}

impl<I: Invoke + 'static> Cached<I> {
    /// Joins the flight of that name, or begins it. Goes on with the ask when what comes of the flight is not
    /// for its caller.
    async fn share(&self, ask: Ask, name: impl FnOnce(&Question) -> String) -> ControlFlow<JsonResult, Ask> {
        let question = match self.shared.question(&ask) {
            Ok(question) => question,
            Err(error) => return ControlFlow::Break(Err(error)),
        };
        let (flight, follower) = self.flights.join_or_begin(&name(&question), ask, |ask| {
            let parts = self.shared.clone();
            // Any of the callers may poll it; its log lines are those of the request that began it.
            async move {
                let (leader, chosen) = (ask.principal.clone(), ask.options.tools.clone());
                let run_id = ask.run_id.clone();
                let began_with = parts.tools_of_run(&leader, &run_id, chosen.as_deref());
                // A panic becomes an error, or it would be repeated in every waiter.
                let answer = AssertUnwindSafe(parts.answer(&question, ask)).catch_unwind().await;
                let outcome = answer.unwrap_or(Err(RunError::Panicked.into()));
                let ended_with = parts.tools_of_run(&leader, &run_id, chosen.as_deref());
                // What is nobody's digest is for nobody else.
                let tools = if began_with == ended_with { ended_with } else { String::new() };
                Landed { outcome, leader, tools }
            }
            .in_current_span()
            .in_current_trace()
            .boxed()
        });
        let landed = flight.await;
        let Some(ask) = follower else { return ControlFlow::Break(landed.outcome) };
        if !landed.is_for(&ask.principal, &self.shared.tools(&ask.principal, ask.options.tools.as_deref())) {
            return ControlFlow::Continue(ask);
        }
        self.shared.observer.cache_used(CacheUse::Shared);
        ControlFlow::Break(landed.outcome)
    }
}

impl Landed {
    /// Whether a follower with tools of this digest may have it.
    fn is_for(&self, caller: &Principal, tools: &str) -> bool {
        match &self.outcome {
            // The digests were equal when both came. If they are not any more, the policy was changed
            // meanwhile and the run may have been made with tools that this caller may not use.
            Ok(answer) => self.tools == tools && (!is_per_user(answer) || self.leader.is_same_user(caller)),
            // The places are those of the leader's list, which may have another order, and the limits and the
            // job the leader's.
            Err(InvokeError::UnknownTools { .. } | InvokeError::OverLimit | InvokeError::Waits { .. }) => {
                false
            }
            Err(_) => true,
        }
    }
}

fn is_per_user(answer: &JsonAnswer) -> bool {
    match answer {
        JsonAnswer::Parsed(answer) => answer.result.is_per_user(),
        JsonAnswer::Written(_for_everybody) => false,
    }
}

/// What is asked, and of which tools.
struct Question {
    key: String,
    /// Digest of the caller's tools that were chosen.
    tools: String,
}

impl<I: Invoke + 'static> Parts<I> {
    /// Fails when tools were chosen that the caller does not have.
    fn question(&self, ask: &Ask) -> Result<Question, InvokeError> {
        let chosen = ask.options.tools.as_deref();
        let set = self.toolbox.current_for(&ask.principal);
        wait_tools::check(set.catalog(), chosen, self.answerer.has_wait_tools)?;
        let tools = chosen_tools::digest(set.catalog(), chosen);
        let key = key::of(&ask.input, &ask.options, &self.answerer, &tools, &ask.grants.digest());
        Ok(Question { key, tools })
    }

    /// Digest of the tools that a caller has of those that were chosen, at this moment.
    fn tools(&self, caller: &Principal, chosen: Option<&[String]>) -> String {
        chosen_tools::digest(self.toolbox.current_for(caller).catalog(), chosen)
    }

    /// Digest of the chosen tools that a run of the caller has.
    fn tools_of_run(&self, caller: &Principal, run_id: &str, chosen: Option<&[String]>) -> String {
        chosen_tools::digest(self.toolbox.for_run(caller, run_id).catalog(), chosen)
    }

    /// The answer to a question that nobody shares.
    async fn alone(self: &Arc<Self>, ask: Ask) -> JsonResult {
        let question = self.question(&ask)?;
        self.answer(&question, ask).await
    }

    async fn answer(self: &Arc<Self>, Question { key, tools }: &Question, ask: Ask) -> JsonResult {
        // Looking comes before running but within the flight: a caller whose look just missed must not begin
        // a second run when the first one has ended meanwhile.
        let kept = match self.cache.unwritten.get(key) {
            Some(result) => Some(JsonAnswer::Parsed(answer_with(result, true))),
            None => self.bounded(self.cache.get(key)).await.flatten().and_then(|json| read(key, json)),
        };
        if let Some(answer) = kept {
            self.observer.cache_used(CacheUse::Hit);
            return Ok(answer);
        }
        self.observer.cache_used(CacheUse::Miss);
        let (caller, chosen) = (ask.principal.clone(), ask.options.tools.clone());
        let run_id = ask.run_id.clone();
        // Asked before and after: a trial of a version may end while the run goes on.
        let began_with = self.tools_of_run(&caller, &run_id, chosen.as_deref());
        let RunAnswer { result, .. } = self.inner.invoke(ask).await?;
        let is_for_all = result.stop_reason == StopReason::Completed && !result.is_per_user();
        // Tools that were swapped meanwhile may be those that ran, and the key names the ones before. A run
        // that tried a new version of a component had tools of another digest too.
        let ended_with = || self.tools_of_run(&caller, &run_id, chosen.as_deref());
        if is_for_all && began_with == *tools && ended_with() == *tools {
            self.keep(key.clone(), result.clone()).await;
        }
        Ok(JsonAnswer::Parsed(answer_with(result, false)))
    }

    /// Keeps a result behind its answer; while too many are on their way already, before it.
    async fn keep(self: &Arc<Self>, key: String, result: Arc<AgentResult>) {
        let Some(on_its_way) = self.cache.unwritten.add(&key, &result) else {
            self.bounded(self.put(&key, &result)).await;
            return;
        };
        let parts = self.clone();
        let write = async move {
            parts.bounded(parts.put(&key, &result)).await;
            drop(on_its_way);
        };
        self.cache.spawn.spawn("cache-write", write.in_current_span().in_current_trace().boxed());
    }

    async fn put(&self, key: &str, result: &AgentResult) -> Result<(), CacheError> {
        let json = serde_json::to_vec(result).map_err(|error| CacheError(error.to_string()))?;
        self.cache.put(key, json.into(), TIME_TO_LIVE).await
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

/// What was kept. What cannot be read, by an older version of this program or by nobody, is as good as
/// absent.
fn read(key: &str, json: Bytes) -> Option<JsonAnswer> {
    let json = match CanonicalResult::check(json) {
        Ok(canonical) => return Some(JsonAnswer::Written(canonical)),
        Err(json) => json,
    };
    let result: serde_json::Result<AgentResult> = serde_json::from_slice(&json);
    let result = result.inspect_err(|error| debug!(key, %error, "a kept result cannot be read")).ok()?;
    Some(JsonAnswer::Parsed(answer_with(Arc::new(result), true)))
}
