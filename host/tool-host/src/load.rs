//! From a file's bytes to a component that can be called: inspected, compiled or found compiled, linked, described.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use wasmtime::component::Component as Code;

use crate::bindings::SandboxedToolPre;
use crate::bulkhead::Bulkhead;
use crate::call::CallState;
use crate::capability::CapabilitySet;
use crate::component::{Component, detail};
use crate::contract;
use crate::describe::describe;
use crate::error::LoadError;
use crate::folder::Folder;
use crate::inventory::Memory;
use crate::runtime::Runtime;

/// Where a component's bytes come from.
pub(crate) enum Source {
    /// A file of the tools folder.
    File(Folder, String),
    /// The copy that is kept of what had that digest.
    Original(Memory, String),
}

impl Source {
    /// The bytes and their digest.
    pub(crate) async fn read(&self) -> Result<(Vec<u8>, String), LoadError> {
        match self {
            Self::File(folder, file) => folder.read(file).await,
            Self::Original(memory, digest) => {
                let (memory, digest) = (memory.clone(), digest.clone());
                blocking(move || {
                    let bytes = memory.original(&digest).map_err(LoadError::Forgotten)?;
                    Ok((bytes, digest))
                })
                .await
            }
        }
    }
}

/// Loads a component from the bytes that were read of `source`, and hands them back. What takes long happens on threads
/// for blocking work, in a compiler process, or where guests run: never where requests are served. Dropping the
/// future ends the compiler.
pub(crate) async fn load(
    runtime: Arc<Runtime>,
    name: &str,
    source: &Source,
    bytes: Vec<u8>,
    digest: String,
) -> Result<(Component, Arc<Vec<u8>>), LoadError> {
    let name: Arc<str> = name.into();
    let bytes = Arc::new(bytes);
    let (capabilities, found) = blocking({
        let (runtime, name, bytes, digest) = (runtime.clone(), name.clone(), bytes.clone(), digest.clone());
        move || {
            let wants = contract::inspect(&bytes)?;
            runtime.grants.check(&name, &digest, &wants.imports)?;
            Ok((wants.capabilities, runtime.cache.find(runtime.sandbox.engine(), &digest)))
        }
    })
    .await?;
    let (code, bytes) = match found {
        Some(code) => (code, bytes),
        None => compile(&runtime, &name, source, bytes, &digest).await?,
    };
    let pre = link(&runtime, &code, capabilities)?;
    let tools = describe(&runtime, &pre, &name).await?;
    let id = format!("{name}@{digest}");
    let bulkhead = Bulkhead::new(runtime.sandbox.limits());
    let wants_http = capabilities.want_http();
    Ok((Component { name, digest, id, pre, tools, wants_http, bulkhead }, bytes))
}

async fn compile(
    runtime: &Arc<Runtime>,
    name: &str,
    source: &Source,
    bytes: Arc<Vec<u8>>,
    digest: &str,
) -> Result<(Code, Arc<Vec<u8>>), LoadError> {
    let unavailable = |error: io::Error| LoadError::CompilerUnavailable(error.to_string());
    let (_permit, bytes) = match runtime.compilers.try_permit() {
        Some(permit) => (permit, bytes),
        None => {
            // Files that wait for a compiler are dropped and read again, so that a folder of large ones does not fill
            // the memory.
            drop(bytes);
            let permit = runtime.compilers.permit().await?;
            let (bytes, now) = source.read().await?;
            if now != digest {
                return Err(LoadError::Unreadable(io::Error::other("it changed meanwhile")));
            }
            (permit, Arc::new(bytes))
        }
    };
    let file = format!("{name}.wasm");
    tracing::info!(file, bytes = bytes.len(), "compiling");
    let begun = Instant::now();
    let output = blocking({
        let runtime = runtime.clone();
        move || runtime.cache.output().map_err(unavailable)
    })
    .await?;
    runtime.compilers.compile(&bytes, output.file().map_err(unavailable)?).await?;
    let code = blocking({
        let (runtime, digest) = (runtime.clone(), digest.to_owned());
        move || runtime.cache.keep(runtime.sandbox.engine(), output, &digest)
    })
    .await?;
    tracing::info!(file, seconds = begun.elapsed().as_secs_f64(), "compiled");
    Ok((code, bytes))
}

fn link(
    runtime: &Runtime,
    code: &Code,
    capabilities: CapabilitySet,
) -> Result<SandboxedToolPre<CallState>, LoadError> {
    let pre = runtime.sandbox.linker(capabilities).and_then(|linker| linker.instantiate_pre(code));
    pre.and_then(SandboxedToolPre::new).map_err(|error| LoadError::Link(detail(&error)))
}

/// Runs work that may wait for a disk on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(LoadError::Unreadable(io::Error::other(error))))
}
