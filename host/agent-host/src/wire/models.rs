//! The language models: the first, and the second that stands in for it.

use std::sync::Arc;

use agent_core::ports::Model;
use model_client::{ApiKey, DemoModel, Fallback, Provider, ProviderSettings, Retry, Schedule};

use super::WireError;
use crate::config::{self, ModelAccess, Models};
use crate::metrics::Metrics;

/// The models, twice: as runs ask them and as the health check does.
pub(crate) struct Connected {
    /// With retries, and the second model when they are used up.
    pub(crate) chat: Arc<dyn Model>,
    /// Without retries: a check that retries would say what was true some seconds ago.
    pub(crate) checked: Arc<dyn Model>,
}

/// Sets the models up. Nothing is sent yet.
pub(crate) fn connect(config: &Models, metrics: &Metrics) -> Result<Connected, WireError> {
    let schedule = Schedule { retries: config.retries, ..Schedule::default() };
    let patient = |model: &Arc<dyn Model>| Retry::with_schedule(model.clone(), schedule);
    // Metered inside the retries and for the health check too: every call that is made may be billed.
    let connect = |access, variable| -> Result<Arc<dyn Model>, WireError> {
        Ok(Arc::new(metrics.metered_model(connect_one(config, access, variable)?)))
    };
    let first = connect(&config.first, "LLM_MODEL")?;
    let Some(second) = &config.second else {
        return Ok(Connected { chat: Arc::new(patient(&first)), checked: first });
    };
    let second = connect(second, "ALT_LLM_MODEL")?;
    Ok(Connected {
        chat: Arc::new(Fallback::new(patient(&first), patient(&second))),
        checked: Arc::new(Fallback::new(first, second)),
    })
}

fn connect_one(
    config: &Models,
    access: &ModelAccess,
    variable: &'static str,
) -> Result<Arc<dyn Model>, WireError> {
    let provider = match access.id.provider {
        config::Provider::Demo => {
            tracing::warn!("this is the demo model: it answers by rules and is no language model");
            return Ok(Arc::new(DemoModel));
        }
        config::Provider::OpenAi => Provider::OpenAi,
        config::Provider::Anthropic => Provider::Anthropic,
    };
    let settings = ProviderSettings {
        provider,
        model: access.id.name.clone(),
        api_key: ApiKey::new(access.api_key.expose()),
        base_url: access.base_url.as_ref().map(|url| url.as_url().clone()),
        timeout: config.timeout,
    };
    let model = model_client::connect(settings).map_err(|error| WireError::Model { variable, error })?;
    Ok(Arc::new(model))
}
