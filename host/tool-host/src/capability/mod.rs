//! What a guest may import: one file per capability, and the table of them.
//!
//! A capability's file says which imports it answers, links them, keeps its state per call, and bounds what the guest
//! may use of it. Linkers and the reader of the contract derive from [`ALL`]: what is not in the table is refused when
//! a component is loaded.

mod clock;
mod context;
mod log;
mod wasi;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::call::CallState;
use crate::contract::SERVED;

pub(crate) use log::{LogBudget, LogRate};
pub(crate) use wasi::WasiState;

/// Every capability, in the order they are linked in.
const ALL: &[Capability] = &[context::CAPABILITY, log::CAPABILITY, clock::CAPABILITY, wasi::CAPABILITY];

/// One capability.
pub(crate) struct Capability {
    /// The imports it answers.
    imports: Imports,
    /// Answers them.
    link: fn(&mut Linker<CallState>) -> wasmtime::Result<()>,
    /// What it has to say when a call has ended, however it did.
    ended: Option<fn(&CallState)>,
}

/// Which imports.
enum Imports {
    /// This interface of the contract, in every version that is served.
    Contract(&'static str),
    /// All interfaces of these packages, in the compatible versions that begin so.
    Packages(&'static [&'static str], &'static str),
}

impl Imports {
    fn include(&self, import: &str) -> bool {
        let Some((path, version)) = import.split_once('@') else { return false };
        let Some((package, interface)) = path.split_once('/') else { return false };
        match self {
            Self::Contract(own) => package == "agent:tool" && interface == *own && SERVED.contains(&version),
            Self::Packages(packages, compatible) => {
                packages.contains(&package) && version.starts_with(compatible)
            }
        }
    }
}

/// Capabilities that a component wants: a bit for each, in the order of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CapabilitySet(u32);

impl CapabilitySet {
    /// Those that answer these imports, or the imports that none does.
    pub(crate) fn answering(imports: &[String]) -> Result<Self, Vec<String>> {
        let mut set = Self::default();
        let mut refused = Vec::new();
        for import in imports {
            match ALL.iter().position(|capability| capability.imports.include(import)) {
                Some(at) => set.0 |= 1 << at,
                None => refused.push(import.clone()),
            }
        }
        if refused.is_empty() { Ok(set) } else { Err(refused) }
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
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Has every capability say what it has to say of a call that ended.
pub(crate) fn ended(call: &CallState) {
    for ended in ALL.iter().filter_map(|capability| capability.ended) {
        ended(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(imports: &[&str]) -> Result<CapabilitySet, Vec<String>> {
        CapabilitySet::answering(&imports.iter().map(|import| (*import).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn every_import_has_one_capability_or_is_refused() {
        assert_eq!(set(&[]), Ok(CapabilitySet(0)));
        let rows = [
            ("agent:tool/context@0.1.0", 0b0001),
            ("agent:tool/log@0.1.0", 0b0010),
            ("agent:tool/clock@0.1.0", 0b0100),
            ("wasi:cli/environment@0.2.3", 0b1000),
            ("wasi:sockets/tcp@0.2.0", 0b1000),
        ];
        for (import, bit) in rows {
            assert_eq!(set(&[import]), Ok(CapabilitySet(bit)), "{import}");
            let of_import = ALL.iter().filter(|capability| capability.imports.include(import));
            assert_eq!(of_import.count(), 1, "{import}");
        }
        assert_eq!(set(&[rows[0].0, rows[3].0]), Ok(CapabilitySet(0b1001)));
        for refused in [
            "wasi:cli/environment@0.3.0",
            "wasi:http/types@0.2.0",
            "agent:tool/secrets@0.1.0",
            "agent:tool/log@0.2.0",
            "agent:tool/log",
            "other:tool/log@0.1.0",
            "env",
        ] {
            assert_eq!(set(&["agent:tool/log@0.1.0", refused]), Err(vec![refused.to_owned()]));
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
