//! What the readiness report asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::catalog::Catalog;
use agent_core::health::Fresh;
use agent_core::message::Message;
use agent_core::ports::{Model, ModelError, ModelRequest, Probe, ProbeError};
use async_trait::async_trait;
use backends::sql::{AddressError, SqlPool, SqlProbe};

use crate::config::Database;

/// How long the model may take to answer a health check. Shorter than the whole check may take, so that what
/// went wrong is known, and kept, before nobody waits for it any more.
const MODEL_LIMIT: Duration = Duration::from_secs(4);

/// Most tokens of the answer to a health check. It is thrown away, but some providers refuse to write less.
const CHECK_TOKENS: u32 = 16;

/// Opens the database, if there is one.
pub(crate) fn open(database: Option<&Database>) -> Result<Option<SqlPool>, AddressError> {
    database
        .map(|database| match database {
            Database::Postgres(url) => SqlPool::postgres(url.expose()),
            Database::Sqlite(url) => SqlPool::sqlite(url.expose()),
        })
        .transpose()
}

/// `llm` always, `database` when there is one (decisions, "`/health/ready` checks").
pub(crate) fn all(
    model: Arc<dyn Model>,
    fresh_for: Duration,
    database: Option<SqlPool>,
) -> Vec<Arc<dyn Probe>> {
    let llm = Fresh::new(ModelProbe { model, no_tools: Catalog::default() }, fresh_for);
    let mut probes: Vec<Arc<dyn Probe>> = vec![Arc::new(llm)];
    if let Some(pool) = database {
        probes.push(Arc::new(SqlProbe(pool)));
    }
    probes
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
