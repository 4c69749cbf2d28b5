//! Webhooks of jobs: from the setting to what callers do and what delivers.

use std::sync::Arc;

use agent_core::ports::{WebhookOutbox, WebhookSender};
use backends::sql::{SqlPool, SqlWebhooks};
use run_service::jobs::Jobs;
use run_service::waits::Waits;
use run_service::webhooks::{Dispatcher, DispatcherContext, Webhooks};

use super::error::WireError;
use crate::config;
use crate::webhooks::HttpWebhooks;

/// The outbox of webhooks in a database, for a process that sends none itself.
pub(crate) fn outbox(database: &SqlPool) -> Arc<dyn WebhookOutbox> {
    Arc::new(SqlWebhooks::new(database.clone()))
}

/// Nothing without a secret.
pub(super) fn open(
    config: &config::Webhooks,
    pool: &SqlPool,
    jobs: &Jobs,
    waits: &Waits,
) -> Result<Option<(Webhooks, Dispatcher)>, WireError> {
    let Some(secret) = &config.secret else { return Ok(None) };
    let sender: Arc<dyn WebhookSender> =
        Arc::new(HttpWebhooks::new(secret, config.private_hosts.clone()).map_err(WireError::Webhooks)?);
    let outbox = outbox(pool);
    let webhooks = Webhooks::new(outbox.clone(), sender.clone());
    let render = http_edge::webhook_message;
    let dispatcher = Dispatcher::new(DispatcherContext {
        outbox,
        jobs: jobs.clone(),
        waits: waits.clone(),
        sender,
        render,
    });
    Ok(Some((webhooks, dispatcher)))
}
