//! The language models: the first, and the second that stands in for it.

use std::sync::Arc;

use agent_core::ports::Model;
use model_client::{DemoModel, Fallback, HttpModel, ProviderSettings, Retry, RetryPolicy};

use super::error::WireError;
use crate::config::{ModelAccess, ModelProvider, Models};
use crate::metrics::{Metrics, ProviderState};

/// The models, twice: as runs ask them and as the health check does.
pub(crate) struct Connected {
    /// With retries, and the second model when they are used up.
    pub(crate) chat: Arc<dyn Model>,
    /// Without retries: a check that retries would say what was true some seconds ago.
    pub(crate) checked: Arc<dyn Model>,
}

/// Sets the models up. Nothing is sent yet.
pub(crate) fn connect(config: &Models, metrics: &Metrics) -> Result<Connected, WireError> {
    let policy = RetryPolicy { retries: config.retries, ..RetryPolicy::default() };
    let patient =
        |model: &Arc<dyn Model>| Retry::with_policy(model.clone(), policy).observed_by(metrics.service());
    let mut states = Vec::new();
    // Metered inside the retries and for the health check too: every call that is made may be billed.
    let mut connect = |access, variable| -> Result<Arc<dyn Model>, WireError> {
        let model: Arc<dyn Model> = match connect_one(config, access, variable)? {
            None => Arc::new(DemoModel),
            Some(model) => {
                let model = Arc::new(model);
                let counted = Arc::clone(&model);
                let refused_tools = Box::new(move || counted.refused_tools());
                states.push(ProviderState { model: model.name().to_owned(), refused_tools, circuit: None });
                model
            }
        };
        Ok(Arc::new(metrics.metered_model(model)))
    };
    let first = connect(&config.first, "LLM_MODEL")?;
    let second = config.second.as_ref().map(|second| connect(second, "ALT_LLM_MODEL")).transpose()?;
    let connected = match second {
        None => Connected { chat: Arc::new(patient(&first)), checked: first },
        Some(second) => {
            let chat = Fallback::new(patient(&first), patient(&second));
            if let Some(state) = states.first_mut().filter(|state| state.model == first.name()) {
                state.circuit = Some(chat.circuit());
            }
            Connected { chat: Arc::new(chat), checked: Arc::new(Fallback::new(first, second)) }
        }
    };
    // Two keys for one model are one model to whoever counts.
    states.dedup_by(|one, other| one.model == other.model);
    metrics.show_providers(states).map_err(WireError::Metrics)?;
    Ok(connected)
}

/// A client of a provider; none for the demo model, which has none.
pub(super) fn connect_one(
    config: &Models,
    access: &ModelAccess,
    variable: &'static str,
) -> Result<Option<HttpModel>, WireError> {
    let provider = match access.id.provider {
        ModelProvider::Demo => {
            tracing::warn!("this is the demo model: it answers by rules and is no language model");
            return Ok(None);
        }
        ModelProvider::Remote(provider) => provider,
    };
    let settings = ProviderSettings {
        provider,
        model: access.id.name.clone(),
        api_key: access.api_key.clone(),
        base_url: access.base_url.as_ref().map(|url| url.as_url().clone()),
        timeout: config.timeout,
    };
    let model = model_client::connect(settings).map_err(|error| WireError::Model { variable, error })?;
    Ok(Some(model))
}
