//! Every setting: the one table that the messages, the documentation and the order of both are made from. The
//! settings themselves are declared by their concerns.

use super::setting::Setting;
use super::{
    agent, http, log, model, observe, retention, service, stores, token_budget, tools, tracing, variant_b,
    webhooks,
};

pub use super::tools::PLATFORM_FOLDERS;

/// The concerns, in the order in which they are documented and reported.
static CONCERNS: [&[&Setting]; 13] = [
    service::SETTINGS,
    http::SETTINGS,
    variant_b::SETTINGS,
    log::SETTINGS,
    observe::SETTINGS,
    tracing::SETTINGS,
    model::SETTINGS,
    agent::SETTINGS,
    token_budget::SETTINGS,
    tools::SETTINGS,
    stores::SETTINGS,
    retention::SETTINGS,
    webhooks::SETTINGS,
];

pub fn all() -> impl Iterator<Item = &'static Setting> + Clone {
    CONCERNS.iter().flat_map(|settings| settings.iter().copied())
}
