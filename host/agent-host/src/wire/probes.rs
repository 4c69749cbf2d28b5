//! What the readiness report asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::catalog::Catalog;
use agent_core::health::Fresh;
use agent_core::message::Message;
use agent_core::ports::{Model, ModelError, ModelRequest, Probe, ProbeError, ToolChoice};
use async_trait::async_trait;
use backends::mongo::{MongoProbe, MongoStore};
use backends::sql::{SqlPool, SqlProbe};

/// How long the model may take to answer a health check. Shorter than the whole check may take, so that what
/// went wrong is known, and kept, before nobody waits for it any more.
const MODEL_LIMIT: Duration = Duration::from_secs(4);

/// Most tokens of the answer to a health check. It is thrown away, but some providers refuse to write less.
const CHECK_TOKENS: u32 = 16;

/// The model's check, made at most once per `fresh_for` (decisions, "Model health check").
pub(crate) fn llm(model: Arc<dyn Model>, fresh_for: Duration) -> Arc<dyn Probe> {
    Arc::new(Fresh::new(ModelProbe { model, no_tools: Catalog::default() }, fresh_for))
}

/// The database and, where runs are kept in one, the document store: either being down is the database's being down.
pub(crate) fn database(sql: &SqlPool, mongo: Option<&MongoStore>) -> Arc<dyn Probe> {
    match mongo {
        None => Arc::new(SqlProbe(sql.clone())),
        Some(mongo) => Arc::new(BothStores { sql: SqlProbe(sql.clone()), mongo: mongo.probe() }),
    }
}

struct BothStores {
    sql: SqlProbe,
    mongo: MongoProbe,
}

#[async_trait]
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

#[async_trait]
impl Probe for InProcess {
    fn name(&self) -> &'static str {
        "redis"
    }

    async fn check(&self) -> Result<Option<Duration>, ProbeError> {
        Ok(None)
    }
}

/// Sends one short user message (interface, Variant B, rule 1).
struct ModelProbe {
    model: Arc<dyn Model>,
    no_tools: Catalog,
}

#[async_trait]
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
            max_tokens: CHECK_TOKENS,
            temperature: 0.0,
            deadline: Instant::now() + MODEL_LIMIT,
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
        ModelError::Refused { .. } => "the model provider refused the request",
        ModelError::Malformed { .. } => "the model provider sent a reply that cannot be read",
    }
}
