//! What a service depends on, to be asked by itself: for `agent-host doctor`, which serves nothing.

use std::sync::Arc;

use agent_core::ports::Probe;
use backends::redis::{Redis, RedisProbe};
use backends::sql::SqlProbe;
use tokio::runtime::Handle;

use super::error::WireError;
use super::{models, probes, stores};
use crate::config::{Config, KeyValue};
use crate::metrics::Metrics;

/// The stores and the model of a configuration. Nothing is connected yet.
pub(crate) struct Dependencies {
    pub(crate) stores: Vec<Arc<dyn Probe>>,
    /// Asks the provider each time.
    pub(crate) model: Arc<dyn Probe>,
}

/// What a service of this configuration depends on.
pub(crate) async fn dependencies(config: &Config) -> Result<Dependencies, WireError> {
    // Nobody reads them.
    let metrics =
        Metrics::new(config.service.environment, "", &Handle::current()).map_err(WireError::Metrics)?;
    let models = models::connect(&config.models, &metrics)?;
    let opened = stores::open(&config.stores).await?;
    let mut found: Vec<Arc<dyn Probe>> = Vec::new();
    if let Some(database) = opened.database {
        found.push(Arc::new(SqlProbe(database)));
    }
    if let Some(mongo) = opened.mongo {
        found.push(Arc::new(mongo.probe()));
    }
    if let Some(KeyValue::Redis(url)) = &config.stores.key_value {
        found.push(Arc::new(RedisProbe(Redis::open(url.expose()).map_err(WireError::Redis)?)));
    }
    let model = Arc::new(probes::ModelProbe::new(models.checked, config.models.timeout));
    Ok(Dependencies { stores: found, model })
}
