//! What all components of a tool host share, part by part.
//!
//! `sandbox.rs` makes the stores that guests run in, `pure_answers.rs` keeps answers that depend on arguments
//! alone, `user_names.rs` makes the names that components know users by.

pub(crate) mod pure_answers;
mod sandbox;
mod user_names;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use agent_core::ports::KeyValueStore;
use agent_core::words::Principal;
use mcp_client::{Farewells, Hosting, McpServers};
use tool_egress::HttpMode;
use tool_grants::{ComponentGrants, Granted};
use tool_policy::model::Scope;

use crate::capability::key_value::{KeyValueState, OwnSpace, Owner};
use crate::compiler::Compilers;
use crate::compiler::compiled::CompiledCache;
use crate::compiler::engine;
use crate::component::bulkhead::Slots;
use crate::config::Config;
use crate::folder::content_memory::ContentMemory;
use crate::observer::Observer;
use crate::rollout::{Overlay, RecentUsers, Shadows};
use crate::threads::guest_runtime::GuestRuntime;
use crate::threads::host_work_pool::HostWork;
use pure_answers::PureAnswers;
use sandbox::Sandbox;
use user_names::UserNames;

/// What all components share.
pub(crate) struct Runtime {
    /// Makes the stores that guests run in.
    pub(crate) sandbox: Sandbox,
    /// Components that were compiled before.
    pub(crate) cache: CompiledCache,
    /// Memory for what is read to be loaded, and for what is read to be proposed: a store that does not
    /// answer holds up proposals, and no loads.
    pub(crate) loaded_content: ContentMemory,
    pub(crate) proposed_content: ContentMemory,
    /// Compiles those that were not.
    pub(crate) compilers: Compilers,
    /// Admits calls.
    pub(crate) slots: Slots,
    /// Where guests run that take long.
    pub(crate) guest_runtime: GuestRuntime,
    /// Where the host works for guests.
    pub(crate) host_work: HostWork,
    pub(crate) grants: Arc<ComponentGrants>,
    /// The servers whose tools are served beside those of components.
    pub(crate) mcp: Arc<McpServers>,
    /// Where components keep values.
    key_value: Option<Arc<dyn KeyValueStore>>,
    /// What components know users by.
    pub(crate) users: UserNames,
    /// Answers that are given again.
    pub(crate) pure_answers: PureAnswers,
    /// Whether components serve only once they are approved.
    pub(crate) needs_approval: bool,
    /// Whether restarts are to find what served.
    pub(crate) remembers: bool,
    /// The calls that are made beside those of versions that serve.
    pub(crate) shadows: Shadows,
    /// The users that called tools lately.
    pub(crate) recent_users: RecentUsers,
    /// Who is told of calls and swaps.
    pub(crate) observer: Arc<dyn Observer>,
}

/// A call that may keep values.
pub(crate) struct KeepingCall<'a> {
    pub(crate) component: &'a Arc<str>,
    /// What a shadow keeps is thrown away.
    pub(crate) is_shadow: bool,
    pub(crate) caller: &'a Principal,
    pub(crate) deadline: Instant,
    /// Where its operations are counted.
    pub(crate) operations: &'a dyn Fn() -> Arc<AtomicU32>,
}

impl Runtime {
    pub(crate) fn new(config: Config, grants: ComponentGrants) -> wasmtime::Result<Self> {
        let (slots, grants) = (Slots::new(&config.limits), Arc::new(grants));
        // Where something else answers than the network, as in tests of one component, no server is asked
        // either.
        let is_on = matches!(config.http, HttpMode::Network { .. });
        // Before the servers: it opens a file of `/proc/self` that may belong to root after them.
        let sandbox = Sandbox::new(config.limits, config.metering)?;
        let hosting = Hosting {
            grants: grants.clone(),
            launcher: config.launcher,
            look_limit: config.mcp_look_limit,
            farewells: Farewells::default(),
        };
        let mcp = Arc::new(McpServers::new(hosting, is_on));
        Ok(Self {
            cache: CompiledCache::open(config.cache, engine::fingerprint(sandbox.engine())),
            loaded_content: ContentMemory::new(),
            proposed_content: ContentMemory::new(),
            compilers: Compilers::new(config.compiler, config.metering),
            slots,
            host_work: HostWork::new(config.guest_runtime.clone()),
            guest_runtime: GuestRuntime::new(config.guest_runtime),
            grants,
            mcp,
            key_value: config.key_value,
            users: UserNames::new(config.user_names_key.as_ref()),
            pure_answers: PureAnswers::new(),
            needs_approval: config.needs_approval,
            remembers: config.remembers,
            shadows: Shadows::new(),
            recent_users: RecentUsers::default(),
            observer: config.observer,
            sandbox,
        })
    }

    pub(crate) fn key_value_of(&self, call: &KeepingCall<'_>, granted: Option<&Granted>) -> KeyValueState {
        let KeepingCall { component, is_shadow, caller, deadline, operations } = *call;
        let own = || {
            let rule = granted?.key_value()?;
            let owner = match (rule.scope, &caller.user_id) {
                (Scope::Component, _) => Owner::Shared,
                (Scope::User, Some(user)) => Owner::User(user.clone()),
                (Scope::User, None) => Owner::Anonymous,
            };
            let (store, component) = (self.key_value.clone()?, component.clone());
            let store = if is_shadow { Arc::new(Overlay::new(store)) } else { store };
            Some(OwnSpace { store, component, owner, quota: rule.bytes, deadline, operations: operations() })
        };
        KeyValueState(own())
    }
}
