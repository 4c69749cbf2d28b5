//! Compiles a component that its author works on, before a host sees it: the code lies in the compile cache
//! when the component is swapped in, and functions that are as they were in the version before are not
//! compiled again. Of a component that carries an interpreter, that is nearly all of them.
//!
//! Cranelift runs in the caller's process: only for components that its user has just built. Hosts compile in
//! a child process (`compiler/`).

use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tool_policy::sha256;

use wasmtime::{CacheStore, Engine};

use crate::compiler::compiled::CompiledCache;
use crate::compiler::engine;
use crate::error::{LoadError, detail};

/// Most bytes of functions that are kept: a Python interpreter has thirty million of them, a JavaScript
/// engine seventy.
const MOST_BYTES: u64 = 512 << 20;

/// Compiles versions of a component one after the other.
pub struct Precompiler {
    engine: Engine,
    cache: CompiledCache,
    functions: Arc<Functions>,
}

impl Precompiler {
    /// Compiles for hosts that keep compiled components in `cache` and count instructions or not.
    ///
    /// # Errors
    /// When wasmtime cannot compile on this machine.
    pub fn new(cache: PathBuf, metering: bool) -> Result<Self, LoadError> {
        let functions = Arc::<Functions>::default();
        let engine = engine::for_compiling_again(metering, functions.clone())
            .map_err(|error| LoadError::CompilerUnavailable(detail(&error)))?;
        let cache = CompiledCache::open(Some(cache), engine::fingerprint(&engine));
        Ok(Self { engine, cache, functions })
    }

    /// Compiles a component unless it is found compiled.
    ///
    /// # Errors
    /// When it does not compile, or the code cannot be written.
    pub fn compile(&self, component: &[u8]) -> Result<(), LoadError> {
        let digest = sha256(component);
        if self.cache.find(&self.engine, &digest).is_some() {
            return Ok(());
        }
        let unavailable = |error: io::Error| LoadError::CompilerUnavailable(error.to_string());
        self.functions.begin();
        let code = self.engine.precompile_component(component);
        let code = code.map_err(|error| LoadError::Compile(detail(&error)))?;
        self.functions.forget_unused();
        let output = self.cache.output().map_err(unavailable)?;
        output.file().and_then(|mut file| file.write_all(&code)).map_err(unavailable)?;
        self.cache.keep(&self.engine, output, &digest)?;
        Ok(())
    }
}

/// Compiled functions, by a hash of what they are compiled from.
#[derive(Debug, Default)]
struct Functions {
    kept: Mutex<HashMap<Vec<u8>, Function>>,
    /// Of all of them.
    bytes: AtomicU64,
    /// The number of the compilation under way.
    round: AtomicU64,
}

#[derive(Debug)]
struct Function {
    code: Vec<u8>,
    used_in: u64,
}

impl Functions {
    fn begin(&self) {
        self.round.fetch_add(1, Ordering::Relaxed);
    }

    /// Drops functions of earlier versions, which the compilation that has ended did not need.
    fn forget_unused(&self) {
        let round = self.round.load(Ordering::Relaxed);
        let mut kept = self.kept.lock();
        kept.retain(|_, function| function.used_in == round);
        let bytes = kept.values().map(|function| function.code.len() as u64).sum();
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

impl CacheStore for Functions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let mut kept = self.kept.lock();
        let function = kept.get_mut(key)?;
        function.used_in = self.round.load(Ordering::Relaxed);
        Some(Cow::Owned(function.code.clone()))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let mut kept = self.kept.lock();
        let used_in = self.round.load(Ordering::Relaxed);
        let bytes = value.len() as u64;
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST_BYTES {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        kept.insert(key.to_vec(), Function { code: value, used_in });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ToolLimits;

    /// A component with two functions, one of which adds this number.
    fn adding(number: u32) -> Vec<u8> {
        wat::parse_str(format!(
            r#"(component (core module $m
                (func (export "same") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 3)))
                (func (export "edited") (param i32) (result i32) (i32.add (local.get 0) (i32.const {number})))))"#
        ))
        .unwrap()
    }

    #[test]
    fn a_host_finds_the_component_compiled() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        for metering in [false, true] {
            Precompiler::new(cache.clone(), metering).unwrap().compile(&adding(1)).unwrap();
            let (engine, _) = engine::build(&ToolLimits::default(), metering).unwrap();
            let of_host = CompiledCache::open(Some(cache.clone()), engine::fingerprint(&engine));
            assert!(of_host.find(&engine, &sha256(adding(1))).is_some(), "{metering}");
            assert!(of_host.find(&engine, &sha256(adding(2))).is_none());
        }
    }

    #[test]
    fn functions_that_did_not_change_are_not_compiled_again() {
        let folder = tempfile::tempdir().unwrap();
        let precompiler = Precompiler::new(folder.path().join("cache"), false).unwrap();
        let keys = || {
            let kept = precompiler.functions.kept.lock();
            kept.keys().cloned().collect::<std::collections::BTreeSet<_>>()
        };
        precompiler.compile(&adding(1)).unwrap();
        let first = keys();
        precompiler.compile(&adding(2)).unwrap();
        let second = keys();
        assert_eq!(first.len(), second.len(), "what is not needed any more is dropped");
        assert_eq!(first.difference(&second).count(), 1, "the function that was edited");
    }

    #[test]
    fn what_does_not_compile_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let precompiler = Precompiler::new(folder.path().join("cache"), false).unwrap();
        assert!(matches!(precompiler.compile(b"\0asm"), Err(LoadError::Compile(_))));
    }
}
