//! Everything an operator can set: a pure function from variables to a [`Config`], or to every problem at
//! once.
//!
//! - [`variables`]: the table of all variables. A new variable begins there.
//! - `service`, `http`, `observe`, `tracing`, `model`, `agent`, `tools`, `stores`: one struct per concern, beside the
//!   parser of its values.
//! - `reader`: how a variable becomes a value or a problem. `problem`: what is said of it.
//! - [`document`]: the table as people read it.
//! - [`Vars`]: where variables come from. Only [`Env`] reads the environment of the process.
//!
//! What does not belong here: opening, connecting or checking anything that a variable names.

mod agent;
pub mod document;
mod http;
mod http_url;
mod model;
mod number;
mod observe;
mod problem;
mod reader;
mod service;
mod stores;
#[cfg(test)]
mod tests;
mod tools;
mod tracing;
mod variable;
pub mod variables;
mod vars;

pub use self::tracing::{Headers, Sampling, Tracing};
pub use agent::Agent;
pub use http::Http;
pub use http_url::HttpUrl;
pub use model::{ModelAccess, ModelId, ModelProvider, Models};
pub use observe::{Log, LogFormat, LogLevel, Observe};
pub use problem::{Problem, Problems};
pub use service::{Environment, Service, Variant};
pub use stores::{Database, KeyValue, Stores};
pub use tools::Tools;
pub use variable::{Fallback, Kind, Need, Unit, Variable};
pub use vars::{Env, Vars};

use agent_core::secret::Secret;
use reader::{Reader, Reported};

/// Everything an operator can set.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which service this is.
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
    /// Present when Variant B is served.
    pub variant_b: Option<VariantB>,
    /// What an operator should know, to be logged at start-up.
    pub warnings: Vec<String>,
}

/// What Variant B cannot do without.
#[derive(Debug, Clone)]
pub struct VariantB {
    /// Signs and verifies bearer tokens (`JWT_SECRET`).
    pub jwt_secret: Secret,
    /// The same as in [`Stores`].
    pub database: Database,
    /// The same as in [`Stores`].
    pub key_value: KeyValue,
}

impl Config {
    /// Reads and checks every variable.
    pub fn from_vars(vars: &impl Vars) -> Result<Self, Problems> {
        reader::collect(vars, Self::read)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let service = Service::read(reader);
        let http = Http::read(reader);
        let observe = Observe::read(reader);
        let models = Models::read(reader);
        let agent = Agent::read(reader);
        let tools = Tools::read(reader);
        let stores = Stores::read(reader);
        let jwt_secret = reader.secret(&variables::JWT_SECRET);
        let (service, stores) = (service?, stores?);
        let (mut models, agent) = (models?, agent?);
        if !reader.is_set(&variables::LLM_TIMEOUT_MS) {
            // Whoever gives runs more time has a slow model.
            models.timeout = models.timeout.max(agent.timeout);
        }
        Ok(Self {
            http: http?,
            observe: observe?,
            models,
            agent,
            tools: tools?,
            variant_b: VariantB::from(service.variant, jwt_secret?, &stores),
            service,
            stores,
            warnings: reader.take_warnings(),
        })
    }
}

impl VariantB {
    /// Reads nothing but `JWT_SECRET`, for the command that signs.
    pub fn jwt_secret(vars: &impl Vars) -> Result<Secret, Problems> {
        reader::collect(vars, |reader| reader.needed(&variables::JWT_SECRET, |text| Some(Secret::new(text))))
    }

    fn from(variant: Variant, jwt_secret: Option<Secret>, stores: &Stores) -> Option<Self> {
        if !variant.serves_b() {
            return None;
        }
        // The table says that Variant B needs all three, so the reader has refused to go without them.
        Some(Self {
            jwt_secret: jwt_secret?,
            database: stores.database.clone()?,
            key_value: stores.key_value.clone()?,
        })
    }
}
