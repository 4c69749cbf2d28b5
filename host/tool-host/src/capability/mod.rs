//! What a guest may import: one file per capability, and the table of them.
//!
//! A capability's file says which imports it answers, keeps its state per call, bounds what the guest may use
//! of it, and tells in the state's `Drop` what the call came to. Linkers and the contract's reader derive
//! from [`ALL`]: what is not in the table is refused when a component is loaded. `state.rs` is what the store
//! of a call carries of all of them.

pub(crate) mod ask;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod imports;
pub(crate) mod key_value;
pub(crate) mod log;
pub(crate) mod nondeterminism;
mod printed;
pub(crate) mod progress;
pub(crate) mod secrets;
pub(crate) mod state;
pub(crate) mod toolbox;
mod types;
pub(crate) mod wasi;
pub(crate) mod wasi_http;
mod wasi_link;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tool_policy::Want;

use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};

use crate::bindings;
use imports::Imports;
use state::CallState;

struct Capability {
    /// The imports it answers.
    imports: Imports,
    /// Answers them.
    link: fn(&mut Linker<CallState>) -> wasmtime::Result<()>,
}

/// One whose file answers an interface with its state, which is a part of that of the call.
macro_rules! answering {
    ($file:ident::$state:ident at $part:ident by $($interface:ident)::+) => {
        Capability {
            imports: $file::IMPORTS,
            link: |linker| {
                let state: fn(&mut CallState) -> &mut $file::$state = |call| &mut call.active().$part;
                bindings::$($interface)::+::add_to_linker::<_, HasSelf<$file::$state>>(linker, state)
            },
        }
    };
}

/// Every capability. The order is that of the bits of a [`CapabilitySet`].
const ALL: &[Capability] = &[
    answering!(context::ContextState at context by agent::tool::context),
    answering!(log::LogState at log by agent::tool::log),
    answering!(clock::ClockState at clock by agent::tool::clock),
    answering!(progress::ProgressState at report by agent::tool::progress),
    Capability { imports: wasi::IMPORTS, link: wasi_link::link },
    answering!(config::ConfigState at config by agent::tool::config),
    answering!(secrets::SecretsState at secrets by agent::tool::secrets),
    Capability { imports: wasi_http::IMPORTS, link: wasi_http::link },
    Capability { imports: types::IMPORTS, link: types::link },
    answering!(key_value::KeyValueState at key_value by agent::tool::key_value),
    answering!(toolbox::ToolboxState at toolbox by agent::tool::toolbox),
    answering!(ask::AskState at ask by since_0_1_2::agent::tool::ask),
];

/// What only the policy gives, by an import that stands for it.
const GRANTED: &[(&str, Want)] = &[
    ("wasi:http/types@0.2.0", Want::Http),
    ("agent:tool/key-value@0.1.1", Want::KeyValue),
    ("agent:tool/toolbox@0.1.1", Want::Toolbox),
    ("agent:tool/ask@0.1.2", Want::Ask),
];

/// True when a capability answers an import. An import without one is an interface of types alone, or
/// refused.
pub(crate) fn answers(import: &str) -> bool {
    ALL.iter().any(|capability| capability.imports.include(import))
}

/// Capabilities that a component wants: a bit for each, in the order of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CapabilitySet(u32);

impl CapabilitySet {
    /// Capabilities that answer these imports, and the imports that none does.
    pub(crate) fn answering<'a>(imports: &[&'a str]) -> (Self, Vec<&'a str>) {
        let mut set = Self::default();
        let mut unanswered = Vec::new();
        for import in imports {
            match ALL.iter().position(|capability| capability.imports.include(import)) {
                Some(at) => set.0 |= 1 << at,
                None => unanswered.push(*import),
            }
        }
        (set, unanswered)
    }

    /// What the set's capabilities want that only the policy gives.
    pub(crate) fn granted_by_policy(self) -> Vec<Want> {
        let is_wanted = |(import, _): &&(&str, Want)| self.iter().any(|it| it.imports.include(import));
        GRANTED.iter().filter(is_wanted).map(|(_, want)| *want).collect()
    }

    /// Whether there are none but those that answer these imports.
    pub(crate) fn are_within(self, imports: &[&str]) -> bool {
        self.iter().all(|capability| imports.iter().any(|import| capability.imports.include(import)))
    }

    fn iter(self) -> impl Iterator<Item = &'static Capability> {
        ALL.iter()
            .enumerate()
            .filter(move |(at, _)| self.0 & (1 << at) != 0)
            .map(|(_, capability)| capability)
    }
}

/// One linker for each set of capabilities that was asked for.
pub(crate) struct Linkers {
    engine: Engine,
    made: Mutex<BTreeMap<CapabilitySet, Arc<Linker<CallState>>>>,
}

impl Linkers {
    pub(crate) fn new(engine: &Engine) -> Self {
        Self { engine: engine.clone(), made: Mutex::default() }
    }

    /// The linker that answers these and nothing else.
    pub(crate) fn of(&self, set: CapabilitySet) -> wasmtime::Result<Arc<Linker<CallState>>> {
        let mut made = self.made.lock();
        if let Some(linker) = made.get(&set) {
            return Ok(linker.clone());
        }
        let mut linker = Linker::new(&self.engine);
        for capability in set.iter() {
            (capability.link)(&mut linker)?;
        }
        let linker = Arc::new(linker);
        made.insert(set, linker.clone());
        Ok(linker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<'a>(imports: &[&'a str]) -> Result<CapabilitySet, Vec<&'a str>> {
        let (set, unanswered) = CapabilitySet::answering(imports);
        if unanswered.is_empty() { Ok(set) } else { Err(unanswered) }
    }

    #[test]
    fn every_import_has_one_capability_or_is_refused() {
        assert_eq!(set(&[]), Ok(CapabilitySet(0)));
        let rows = [
            ("agent:tool/context@0.1.0", 0b0001),
            ("agent:tool/log@0.1.0", 0b0010),
            ("agent:tool/context@0.1.1", 0b0001),
            ("agent:tool/clock@0.1.0", 0b0100),
            ("agent:tool/progress@0.1.1", 0b1000),
            ("agent:tool/ask@0.1.2", 0b1000_0000_0000),
            ("wasi:cli/environment@0.2.3", 0b1_0000),
            ("wasi:sockets/tcp@0.2.0", 0b1_0000),
        ];
        for (import, bit) in rows {
            assert_eq!(set(&[import]), Ok(CapabilitySet(bit)), "{import}");
            let of_import = ALL.iter().filter(|capability| capability.imports.include(import));
            assert_eq!(of_import.count(), 1, "{import}");
        }
        assert_eq!(set(&[rows[0].0, rows[4].0]), Ok(CapabilitySet(0b1001)));
        for refused in [
            "wasi:cli/environment@0.3.0",
            "wasi:http/types@0.3.0",
            "agent:tool/toolbox@0.2.0",
            "agent:tool/toolbox@0.1.2",
            "agent:tool/ask@0.1.1",
            "agent:tool/log@0.2.0",
            "agent:tool/log",
            "other:tool/log@0.1.0",
            "env",
        ] {
            assert_eq!(set(&["agent:tool/log@0.1.0", refused]), Err(vec![refused]));
        }
    }

    #[test]
    fn a_linker_is_made_once_for_each_set_and_all_capabilities_go_together() {
        let linkers = Linkers::new(&Engine::default());
        let all = linkers.of(CapabilitySet(0b1111)).unwrap();
        assert!(Arc::ptr_eq(&all, &linkers.of(CapabilitySet(0b1111)).unwrap()));
        assert!(!Arc::ptr_eq(&all, &linkers.of(CapabilitySet(0b0001)).unwrap()));
    }
}
