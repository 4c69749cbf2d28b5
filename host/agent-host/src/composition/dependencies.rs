//! What a service depends on, to be asked by itself: for `agent-host doctor`, which serves nothing.

use std::sync::Arc;

use agent_core::ports::{Model, Probe, StoreCheck};
use backends::sql::{SqlPool, SqlProbe};
use model_client::DemoModel;
use redis_stores::redis::{Redis, RedisProbe};

use super::error::WireError;
use super::models::connect_one;
use super::{probes, stores};
use crate::config::{KeyValue, ModelId, Models, Stores};

/// A provider of models.
pub(crate) struct Provider {
    /// The setting that names its model.
    pub(crate) variable: &'static str,
    pub(crate) model: ModelId,
    /// Asks it each time.
    pub(crate) probe: Arc<dyn Probe>,
}

/// The stores, as far as they can be set up.
#[derive(Default)]
pub(crate) struct StoreProbes {
    /// Whether they answer.
    pub(crate) probes: Vec<Arc<dyn Probe>>,
    /// Whether their servers are set up well.
    pub(crate) checks: Vec<Arc<dyn StoreCheck>>,
    /// The relational database, to be asked whose tables it has.
    pub(crate) database: Option<SqlPool>,
    /// What is wrong with the others.
    pub(crate) problems: Vec<WireError>,
}

/// The stores of a configuration, none of which is connected yet. `has_queue` says whether jobs lie in Redis,
/// if there is one.
pub(crate) async fn store_probes(config: &Stores, has_queue: bool) -> StoreProbes {
    let mut found = StoreProbes::default();
    match stores::open(config).await {
        Ok(opened) => {
            // silent-ok: what can be wrong is the address of Redis, which is reported below.
            found.checks = stores::checks(config, &opened, has_queue).unwrap_or_default();
            found.database.clone_from(&opened.database);
            if let Some(database) = opened.database {
                found.probes.push(Arc::new(SqlProbe(database)));
            }
            if let Some(mongo) = opened.mongo {
                found.probes.push(mongo.probe());
            }
        }
        Err(error) => found.problems.push(error.into()),
    }
    if let Some(KeyValue::Redis(url)) = &config.key_value {
        match Redis::open(url.expose()) {
            Ok(redis) => found.probes.push(Arc::new(RedisProbe(redis))),
            Err(error) => found.problems.push(WireError::Redis(error)),
        }
    }
    found
}

/// The providers, each to be asked by itself: where runs fall back to the second one, it hides that the first
/// one fails.
pub(crate) fn providers(config: &Models) -> Result<Vec<Provider>, WireError> {
    let second = config.second.iter().map(|second| ("ALT_LLM_MODEL", second));
    let all = [("LLM_MODEL", &config.first)].into_iter().chain(second);
    all.map(|(variable, access)| {
        let model: Arc<dyn Model> = match connect_one(config, access, variable)? {
            Some(model) => Arc::new(model),
            None => Arc::new(DemoModel),
        };
        let probe = Arc::new(probes::ModelProbe::new(model, config.timeout));
        Ok(Provider { variable, model: access.id.clone(), probe })
    })
    .collect()
}
