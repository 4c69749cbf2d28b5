//! Everything an operator can set: a pure function from variables to a [`Config`], or to every problem at
//! once.
//!
//! What settings are declared and read with, and the concerns that commands have as well (tools, stores,
//! log), are `host_setup::settings`. Here:
//!
//! 1. `service`, `http`, `variant_b`, `observe`, `tracing`, `model`, `agent`, `retention`, `webhooks`: one
//!    file per concern, which declares its settings and reads them into its struct. A default that another
//!    crate owns is that crate's constant.
//! 2. [`all_settings`]: all settings. [`settings_reference`]: the table as people read it. [`Config`]: all
//!    concerns.
//!
//! What does not belong here: opening, connecting or checking anything that a variable names.

/// Reads all fields before the first of them that has a problem ends it: every problem is to be reported.
macro_rules! read_all {
    ($whole:ident { $($field:ident: $read:expr,)* }) => {{
        $(let $field = $read;)*
        Ok($whole { $($field: $field?,)* })
    }};
}

mod agent;
pub mod all_settings;
mod http;
mod model;
mod observe;
mod retention;
mod service;
pub mod settings_reference;
#[cfg(test)]
mod tests;
mod tracing;
mod unknown;
mod variant_b;
mod webhooks;

use host_setup::settings::{
    context, http_url, log, problem, process_env, reader, setting, stores, token_budget, tools, value_type,
};

pub use self::tracing::{Headers, Sampling, Tracing};
pub use agent::Agent;
pub use context::{Environment, Variant};
pub use http::Http;
pub use http_url::HttpUrl;
pub use log::{Log, LogFormat, LogLevel};
pub use model::{ModelAccess, ModelId, ModelProvider, Models};
pub use observe::Observe;
pub use problem::{Problem, Problems};
pub use process_env::{EnvVars, ProcessEnv};
pub use retention::Retention;
pub use service::Service;
pub use setting::{DefaultValue, Need, Setting};
pub use stores::{Database, KeyValue, RedisAddress, Stores};
pub use tools::Tools;
pub use value_type::{Kind, Unit};
pub use variant_b::VariantB;
pub use webhooks::Webhooks;

use std::collections::{BTreeMap, BTreeSet};

use reader::{Reader, Reported};

/// Everything an operator can set.
#[derive(Debug, Clone)]
pub struct Config {
    pub service: Service,
    /// How it is reached.
    pub http: Http,
    /// What an operator sees of it.
    pub observe: Observe,
    /// The language models.
    pub models: Models,
    /// What the agent may use up.
    pub agent: Agent,
    /// Where the tools are, and what they may use up.
    pub tools: Tools,
    /// Where things are kept.
    pub stores: Stores,
    /// How long what has ended is kept.
    pub retention: Retention,
    /// Where the ends of jobs may be sent.
    pub webhooks: Webhooks,
    /// Present when Variant B is served.
    pub variant_b: Option<VariantB>,
    /// What an operator should know, to be logged at start-up.
    pub warnings: Vec<String>,
    /// Warnings of variables that look like settings and are none, by their names.
    pub unknown: BTreeMap<String, String>,
}

impl Config {
    /// Reads and checks every variable.
    pub fn from_vars(vars: &impl EnvVars) -> Result<Self, Problems> {
        reader::collect(vars, &all_settings::all().collect::<Vec<_>>(), Self::read)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let service = Service::read(reader);
        let http = Http::read(reader);
        let observe = Observe::read(reader);
        let models = Models::read(reader);
        let agent = Agent::read(reader);
        let tools = Tools::read(reader);
        let stores = Stores::read(reader);
        let retention = Retention::read(reader);
        let webhooks = Webhooks::read(reader);
        let (jwt_secret, openai) = (VariantB::read_secret(reader), VariantB::read_openai(reader));
        if let (Ok(tools), Ok(stores)) = (&tools, &stores) {
            tools.report_missing(stores, reader);
        }
        let (service, stores) = (service?, stores?);
        let (mut models, agent, http) = (models?, agent?, http?);
        http.warn_of_refused_runs(agent.timeout, reader);
        if !reader.is_set(&model::LLM_TIMEOUT_MS) {
            // Whoever gives runs more time has a slow model.
            models.timeout = models.timeout.max(agent.timeout);
        }
        Ok(Self {
            http,
            observe: observe?,
            models,
            agent,
            tools: tools?,
            variant_b: VariantB::from(service.variant, jwt_secret?, openai?, &stores),
            service,
            stores,
            retention: retention?,
            webhooks: webhooks?,
            warnings: reader.take_warnings(),
            unknown: unknown::warnings(&reader.names()),
        })
    }

    /// All that an operator should know. Variables that the policy of tools reads secrets from may be named
    /// as the operator likes. Blocks: it reads the policy.
    pub fn all_warnings(&self) -> Vec<&str> {
        let of_policy = if self.unknown.is_empty() { BTreeSet::new() } else { self.tools.policy.variables() };
        let unknown = self.unknown.iter().filter(|(name, _)| !of_policy.contains(*name));
        self.warnings.iter().chain(unknown.map(|(_, warning)| warning)).map(String::as_str).collect()
    }
}
