//! What the readiness report asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::ports::{Model, ModelError, ModelRequest, Probe, ProbeError, ToolChoice};
use agent_core::words::{Catalog, Message, ModelReply, NO_RULES};
use backends::mongo::MongoStore;
use backends::sql::{SqlPool, SqlProbe};
use boxed_async::boxed_async;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use run_service::health::{CachedProbe, Checks};

use crate::config::Models;

/// How long one check of a health report may take: half the interval at which orchestrators ask
/// (host/docs/interface/errors-and-limits.md#limits).
pub(crate) const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Most tokens of the answer to a health check: the least there is, because it is thrown away. A provider
/// that refuses to write so little is asked for what it wants.
const CHECK_TOKENS: u32 = 1;

/// How much longer a check may take than the call it makes, so that the call says what went wrong.
const MARGIN: Duration = Duration::from_secs(1);

/// The model's check, made at most once per time to live
/// (host/docs/interface/decisions-http.md#reports-and-metrics), and the task that makes it. It may take as
/// long as any call of the model: one that is busy or slow is not ill.
pub(crate) fn llm(model: Arc<dyn Model>, config: &Models) -> (CachedProbe, Checks<ModelProbe>) {
    let probe = ModelProbe::new(model, config.timeout);
    CachedProbe::new(probe, config.health_ttl, config.timeout + MARGIN)
}

/// How long the result of a store's check is kept
/// (host/docs/interface/decisions-http.md#reports-and-metrics): in Variant A every check is carried out, and
/// callers of the same moment share one; in Variant B it is kept for up to a second.
pub(crate) const KEPT_IN_A: Duration = Duration::ZERO;
pub(crate) const KEPT_IN_B: Duration = Duration::from_secs(1);

/// The tasks that make the checks which callers share, so that however many ask for the service's health, its
/// stores are not asked more often.
#[derive(Default)]
pub(crate) struct SharedChecks(Vec<BoxFuture<'static, ()>>);

impl SharedChecks {
    /// The probe for many callers: never asked twice at once, and not again for as long as its result is
    /// `kept`.
    pub(crate) fn share(&mut self, probe: Arc<dyn Probe>, kept: Duration) -> Arc<dyn Probe> {
        let (shared, checks) = CachedProbe::strict(probe, kept, PROBE_LIMIT);
        self.add(checks);
        Arc::new(shared)
    }

    /// Makes those of another probe as well.
    pub(crate) fn add<P: Probe + 'static>(&mut self, checks: Checks<P>) {
        self.0.push(checks.run().boxed());
    }

    /// Makes checks whenever callers want one, for ever.
    pub(crate) fn run(self) -> BoxFuture<'static, ()> {
        join_all(self.0).map(drop).boxed()
    }
}

/// A model whose replies to runs count as health checks.
pub(crate) struct Heard {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) probe: CachedProbe,
}

#[boxed_async]
impl Model for Heard {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let start = Instant::now();
        let reply = self.model.complete(request).await;
        if reply.is_ok() {
            self.probe.passed(start.elapsed());
        }
        reply
    }
}

/// The database and, where runs are kept in one, the document store: either being down is the database's
/// being down.
pub(crate) fn database(sql: &SqlPool, mongo: Option<&MongoStore>) -> Arc<dyn Probe> {
    match mongo {
        None => Arc::new(SqlProbe(sql.clone())),
        Some(mongo) => Arc::new(BothStores { sql: SqlProbe(sql.clone()), mongo: mongo.probe() }),
    }
}

struct BothStores {
    sql: SqlProbe,
    mongo: Arc<dyn Probe>,
}

#[boxed_async]
impl Probe for BothStores {
    fn name(&self) -> &'static str {
        self.sql.name()
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        let (sql, mongo) = futures::join!(self.sql.check(), self.mongo.check());
        let named = |ProbeError(text)| ProbeError(format!("the document store: {text}"));
        sql.and(mongo.map_err(named))
    }
}

/// A store that lives in this process, as long as which it answers.
pub(crate) struct InProcess;

#[boxed_async]
impl Probe for InProcess {
    fn name(&self) -> &'static str {
        "redis"
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        Ok(None)
    }
}

/// Sends one short user message (host/docs/interface/endpoints.md#variant-b).
pub(crate) struct ModelProbe {
    model: Arc<dyn Model>,
    no_tools: Catalog,
    limit: Duration,
}

impl ModelProbe {
    /// Asks that model, for at most that long.
    pub(super) fn new(model: Arc<dyn Model>, limit: Duration) -> Self {
        Self { model, no_tools: Catalog::default(), limit }
    }
}

#[boxed_async]
impl Probe for ModelProbe {
    fn name(&self) -> &'static str {
        "llm"
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        let messages = [Message::User { content: "ping".into() }];
        let request = ModelRequest {
            request_id: "health",
            messages: &messages,
            tools: &self.no_tools,
            tool_choice: ToolChoice::Auto,
            rules: &NO_RULES,
            max_tokens: CHECK_TOKENS,
            temperature: 0.0,
            deadline: Instant::now() + self.limit,
            deltas: None,
        };
        match self.model.complete(request).await {
            Ok(_) => Ok(None),
            Err(error) => {
                tracing::warn!(%error, "the model's health check failed");
                Err(ProbeError(say_publicly(&error).into()))
            }
        }
    }
}

/// What anyone may read of a failed check: not the provider's address, and not its words.
fn say_publicly(error: &ModelError) -> &'static str {
    match error {
        ModelError::Timeout { .. } => "the model provider did not answer in time",
        ModelError::Unreachable { .. } => "the model provider could not be reached",
        ModelError::Unavailable { .. } => "the model provider is unavailable",
        ModelError::RateLimited { .. } => "the model provider limits our rate",
        ModelError::Refused { .. } | ModelError::TooLong { .. } | ModelError::RefusedFunctions { .. } => {
            "the model provider refused the request"
        }
        ModelError::Malformed { .. } => "the model provider sent a reply that cannot be read",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::{advance, sleep};

    use super::*;

    /// A store whose check takes a moment.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    #[boxed_async]
    impl Probe for Counted {
        fn name(&self) -> &'static str {
            "database"
        }

        async fn check(&self) -> Result<Option<Duration>, ProbeError> {
            sleep(Duration::from_millis(20)).await;
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(None)
        }
    }

    /// However many ask, a store is asked by one of them; in Variant B not again within a second.
    #[tokio::test(start_paused = true)]
    async fn a_check_is_shared_and_kept_as_its_variant_has_it() {
        for (kept, of_later_ones) in [(KEPT_IN_A, [2, 3]), (KEPT_IN_B, [1, 2])] {
            let store = Arc::new(Counted::default());
            let mut checks = SharedChecks::default();
            let shared = checks.share(store.clone(), kept);
            let asking = async {
                let together = join_all((0..50).map(|_| shared.check())).await;
                assert!(together.iter().all(Result::is_ok));
                assert_eq!(store.0.load(Ordering::SeqCst), 1, "kept for {kept:?}");
                for (pause, checks) in
                    [Duration::from_millis(900), Duration::from_millis(101)].into_iter().zip(of_later_ones)
                {
                    advance(pause).await;
                    shared.check().await.unwrap();
                    assert_eq!(store.0.load(Ordering::SeqCst), checks, "kept for {kept:?}, {pause:?} later");
                }
            };
            tokio::select! {
                () = checks.run() => panic!("checks are made for ever"),
                () = asking => {}
            }
            assert_eq!(shared.name(), "database");
        }
    }
}
