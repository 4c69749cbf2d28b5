//! From a file's bytes to a component that can be called: inspected, compiled or found compiled, linked,
//! described.
//!
//! `contract.rs` reads what the bytes import before anything is compiled, `describe.rs` has the component
//! describe itself, `approved.rs` holds it to what was approved. `inspect.rs` says what a component is
//! without loading it.

pub(crate) mod approved;
pub(crate) mod contract;
mod describe;
pub(crate) mod inspect;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use mcp_client::{Server, ToolList};
use tool_policy::{Identity, Want, sha256};
use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component as Code, InstancePre};

use crate::capability::CapabilitySet;
use crate::capability::state::CallState;
use crate::compiler::compiled::{CompiledCache, Output};
use crate::component::Component;
use crate::component::bulkhead::Bulkhead;
use crate::component::call_interface::CallInterface;
use crate::error::{LoadError, detail};
use crate::folder::content_memory::{ContentMemory, ContentPermit};
use crate::folder::memory::Memory;
use crate::folder::{Content, Folder};
use crate::rollout::Rollout;
use crate::runtime::Runtime;
use crate::typed;
use contract::ComponentImports;
use describe::describe;

/// Why tools of the contract keep their names: the component itself is called by them.
const OF_CONTRACT: &str =
    "it names its tools itself (agent:tool/tool): rename them in its sources, or take `rename` out";

/// Where a component's bytes come from.
pub(crate) enum Source {
    /// A file of the tools folder.
    File(Folder, String),
    /// The copy that is kept of what had that digest.
    Original { memory: Memory, name: String, digest: String },
    /// What the store of versions keeps under that digest, or the copy that is kept of it here.
    Kept { rollout: Option<Arc<Rollout>>, memory: Option<Memory>, name: String, digest: String },
    /// What somebody has sent.
    Given(Content),
}

impl Source {
    /// The bytes, their digest and their signature.
    pub(crate) async fn read(&self, runtime: &Arc<Runtime>) -> Result<Content, LoadError> {
        match self {
            Self::File(folder, file) => folder.read(file).await,
            Self::Given(content) => Ok(content.clone()),
            Self::Kept { rollout, memory, name, digest } => {
                if let Some(memory) = memory
                    && let Ok((content, true)) = from_copy(runtime, memory, name, digest).await
                {
                    return Ok(content);
                }
                let kept = match rollout {
                    Some(rollout) => from_store(rollout, name, digest).await,
                    None => Err(LoadError::Gone),
                };
                match (kept, memory) {
                    (Err(error), Some(memory)) => from_memory(memory, name, digest).await.map_err(|_| error),
                    (kept, _) => kept,
                }
            }
            Self::Original { memory, name, digest } => from_memory(memory, name, digest).await,
        }
    }
}

/// Reads a source, which waits while too many bytes of others are held. The list of an MCP server is small,
/// and its server may take its time.
pub(crate) async fn read_counted(
    runtime: &Arc<Runtime>,
    memory: &ContentMemory,
    name: &str,
    source: &Source,
) -> Result<Content, LoadError> {
    if runtime.mcp.server(name).is_some() {
        return source.read(runtime).await;
    }
    let reserved = memory.reserve().await?;
    let content = source.read(runtime).await?;
    let permit = Some(reserved.keep(content.bytes.len()));
    Ok(Content { permit, ..content })
}

/// Reads a source and loads the component in it, as [`load`] does.
pub(crate) async fn load_from(
    runtime: Arc<Runtime>,
    name: &str,
    source: &Source,
) -> Result<Component, LoadError> {
    let content = source.read(&runtime).await?;
    Ok(load(runtime, name, source, content).await?.0)
}

/// Loads a component from what was read of `source`, and hands that back. What takes long happens on threads
/// for blocking work, in a compiler process, or where guests run: never where requests are served. Dropping
/// the future ends the compiler.
pub(crate) async fn load(
    runtime: Arc<Runtime>,
    name: &str,
    source: &Source,
    content: Content,
) -> Result<(Component, Content), LoadError> {
    let name: Arc<str> = name.into();
    if let Some(server) = runtime.mcp.server(&name) {
        return load_tools_of(runtime, name, server, source, content).await;
    }
    let is_kept = matches!(source, Source::Kept { .. } | Source::Original { .. });
    if is_kept && runtime.grants.current().mcp(&name).is_none() && ToolList::is_one(&content.bytes) {
        return Err(LoadError::McpServerGone);
    }
    let (wants, signer, found) = blocking({
        let (runtime, name, content) = (runtime.clone(), name.clone(), content.clone());
        move || {
            let wants = contract::inspect(&content.bytes)?;
            let signer = runtime.grants.signer(&name, &content.bytes, content.signature.as_deref());
            let identity = Identity { name: &name, digest: &content.digest, signer: signer.as_ref() };
            runtime.grants.check(identity, &wants.capabilities.granted_by_policy())?;
            let found = runtime.cache.find(runtime.sandbox.engine(), &content.digest);
            Ok((wants, signer, found))
        }
    })
    .await?;
    let (code, content) = match found {
        Some(code) => (code, content),
        None => compile(&runtime, &name, source, content).await?,
    };
    let (capabilities, imports) = (wants.capabilities, wants.imports.clone());
    let (call_interface, tells_users_apart) = blocking({
        let (runtime, bytes) = (runtime.clone(), content.bytes.clone());
        let policy = runtime.grants.current();
        let entry = policy.find(Identity { name: &name, digest: &content.digest, signer: signer.as_ref() });
        let rename = entry.map(|entry| entry.rename.clone()).unwrap_or_default();
        move || make_callable(&runtime, &code, &bytes, &wants, &rename)
    })
    .await?;
    let granted_by_policy = capabilities.granted_by_policy();
    let tools = describe(&runtime, &call_interface, &name, &granted_by_policy).await?;
    let component = Component {
        id: format!("{name}@{}", content.digest),
        bulkhead: Bulkhead::new(runtime.sandbox.limits()),
        facts_digest: OnceLock::new(),
        digest: content.digest.clone(),
        signature: content.signature.clone(),
        tells_users_apart,
        wants: granted_by_policy,
        imports,
        bytes: content.bytes.len() as u64,
        computes_only: capabilities.are_within(&["agent:tool/log@0.1.1"]),
        name,
        signer,
        call_interface,
        tools,
    };
    Ok((component, content))
}

/// Loads the list of an MCP server's tools. Only the server itself proposes one.
async fn load_tools_of(
    runtime: Arc<Runtime>,
    name: Arc<str>,
    server: Arc<Server>,
    source: &Source,
    content: Content,
) -> Result<(Component, Content), LoadError> {
    if matches!(source, Source::Given(_)) {
        let problem = "the policy says that the server itself lists them; give the component another name";
        return Err(LoadError::McpTools(problem.into()));
    }
    let (wants, most_calls) = (server.wants(), server.most_calls());
    let rule =
        runtime.grants.current().mcp(&name).and_then(|entry| entry.mcp.clone()).ok_or(LoadError::Gone)?;
    let concurrency = rule.concurrency.or(most_calls);
    let tools = ToolList::read(&content.bytes, &name, &rule.allow).map_err(LoadError::McpTools)?;
    blocking({
        let (runtime, name, digest) = (runtime.clone(), name.clone(), content.digest.clone());
        let wants = wants.clone();
        move || {
            let identity = Identity { name: &name, digest: &digest, signer: None };
            Ok(runtime.grants.check_server(identity, &wants)?)
        }
    })
    .await?;
    let call_interface = CallInterface::Mcp { server, tools };
    // Whatever it is, it reaches out of the service.
    let tools = describe(&runtime, &call_interface, &name, &[Want::Http]).await?;
    let mut limits = runtime.sandbox.limits().clone();
    limits.component_concurrency = concurrency.unwrap_or(limits.component_concurrency);
    let component = Component {
        id: format!("{name}@{}", content.digest),
        bulkhead: Bulkhead::new(&limits),
        facts_digest: OnceLock::new(),
        digest: content.digest.clone(),
        signature: None,
        tells_users_apart: false,
        wants,
        imports: vec![],
        bytes: content.bytes.len() as u64,
        computes_only: false,
        name,
        signer: None,
        call_interface,
        tools,
    };
    Ok((component, content))
}

/// The copy that is kept here under a digest, with the signature of a name.
async fn from_memory(memory: &Memory, name: &str, digest: &str) -> Result<Content, LoadError> {
    let (memory, name, digest) = (memory.clone(), name.to_owned(), digest.to_owned());
    blocking(move || memory.original(&name, &digest).map_err(LoadError::Forgotten)).await
}

/// The copy that is kept here under a digest, and whether it suffices. The store is asked where the policy
/// trusts signers for the name and none of them signed the copy: a signature may have been added since.
async fn from_copy(
    runtime: &Arc<Runtime>,
    memory: &Memory,
    name: &str,
    digest: &str,
) -> Result<(Content, bool), LoadError> {
    let content = from_memory(memory, name, digest).await?;
    let (runtime, name) = (runtime.clone(), name.to_owned());
    blocking(move || {
        let trusts_some = runtime.grants.current().signers(&name).next().is_some();
        let signature = content.signature.as_deref();
        let is_signed = || runtime.grants.signer(&name, &content.bytes, signature).is_some();
        let suffices = !trusts_some || is_signed();
        Ok((content, suffices))
    })
    .await
}

/// What the store keeps under a digest, which is checked, with the signature of a name.
async fn from_store(rollout: &Rollout, name: &str, digest: &str) -> Result<Content, LoadError> {
    let kept = rollout.store().component(name, digest).await;
    let kept = kept.map_err(|error| LoadError::NotWrittenDown(error.to_string()))?.ok_or(LoadError::Gone)?;
    let expected = digest.to_owned();
    blocking(move || {
        let digest = sha256(&kept.bytes);
        if digest != expected {
            return Err(LoadError::Gone);
        }
        let signature = kept.signature.map(|signature| signature.to_vec());
        // The only owner of the bytes gives them without a copy.
        Ok(Content { bytes: Arc::new(kept.bytes.into()), digest, signature, permit: None })
    })
    .await
}

/// Whether the policy names a component's digest, or somebody whose signature lies beside it.
pub(crate) async fn is_in_policy(
    runtime: &Arc<Runtime>,
    name: &str,
    content: &Content,
) -> Result<bool, LoadError> {
    let (runtime, name, content) = (runtime.clone(), name.to_owned(), content.clone());
    blocking(move || {
        let signer = runtime.grants.signer(&name, &content.bytes, content.signature.as_deref());
        Ok(runtime.grants.names(Identity { name: &name, digest: &content.digest, signer: signer.as_ref() }))
    })
    .await
}

/// Whether the component imports `user` of the contract's `context`.
fn is_told_the_user(engine: &Engine, code: &Code) -> bool {
    let imports = code.component_type();
    imports.imports(engine).any(|(name, import)| match import.ty {
        ComponentItem::ComponentInstance(instance) if name.starts_with("agent:tool/context@") => {
            instance.get_export(engine, "user").is_some()
        }
        _ => false,
    })
}

async fn compile(
    runtime: &Arc<Runtime>,
    name: &str,
    source: &Source,
    content: Content,
) -> Result<(Code, Content), LoadError> {
    // What is compiled is bounded by the permits of compilers. It gives back what it was read with, so that
    // files that were compiled before need not wait for it.
    let memory = content.permit.as_ref().map(ContentPermit::memory);
    let mut content = Content { permit: None, ..content };
    let bytes = content.bytes.len();
    let permit = match runtime.compilers.try_permit(bytes) {
        Some(permit) => permit,
        None => {
            // Files that wait for a compiler are dropped and read again, so that a folder of large ones does
            // not fill the memory.
            let known = without_bytes(content);
            let permit = runtime.compilers.permit(bytes).await?;
            content = unchanged(source.read(runtime).await?, &known)?;
            permit
        }
    };
    let file = format!("{name}.wasm");
    tracing::info!(file, bytes, "compiling");
    let begun = Instant::now();
    let compiled = compile_to(runtime, &content, CompiledCache::output).await;
    let code = match compiled {
        // A disk that is full keeps no tool from serving, as one that may only be read does not. A compiler
        // that did not even begin is not told apart from that, and fails once more.
        Err(LoadError::CompilerUnavailable(problem)) if runtime.cache.folder().is_some() => {
            tracing::warn!(file, problem, "it is compiled in memory, and not into TOOLS_CACHE_DIR");
            compile_to(runtime, &content, |_| Output::in_memory()).await?
        }
        compiled => compiled?,
    };
    drop(permit);
    if let Some(memory) = memory {
        // What comes next may take as long as a store or the guest takes, and it is counted again.
        let known = without_bytes(content);
        content = unchanged(read_counted(runtime, &memory, name, source).await?, &known)?;
    }
    tracing::info!(file, seconds = begun.elapsed().as_secs_f64(), "compiled");
    Ok((code, content))
}

/// Compiles into the file that `open` gives.
async fn compile_to(
    runtime: &Arc<Runtime>,
    content: &Content,
    open: fn(&CompiledCache) -> io::Result<Output>,
) -> Result<Code, LoadError> {
    let unavailable = |error: io::Error| LoadError::CompilerUnavailable(error.to_string());
    let output = blocking({
        let runtime = runtime.clone();
        move || open(&runtime.cache).map_err(unavailable)
    })
    .await?;
    runtime.compilers.compile(&content.bytes, output.file().map_err(unavailable)?).await?;
    let (runtime, digest) = (runtime.clone(), content.digest.clone());
    blocking(move || runtime.cache.keep(runtime.sandbox.engine(), output, &digest)).await
}

/// Drops the bytes, and keeps what tells others from them.
fn without_bytes(content: Content) -> (String, Option<Vec<u8>>) {
    let Content { digest, signature, .. } = content;
    (digest, signature)
}

/// What was read again, if it is what it was.
fn unchanged(now: Content, known: &(String, Option<Vec<u8>>)) -> Result<Content, LoadError> {
    if (&now.digest, &now.signature) == (&known.0, &known.1) {
        return Ok(now);
    }
    Err(LoadError::Unreadable(io::Error::other("it changed meanwhile")))
}

/// Links what was compiled, and says whether it is told the user.
fn make_callable(
    runtime: &Runtime,
    code: &Code,
    bytes: &[u8],
    wants: &ComponentImports,
    rename: &BTreeMap<String, String>,
) -> Result<(CallInterface, bool), LoadError> {
    let engine = runtime.sandbox.engine();
    if !wants.is_of_contract {
        contract::refuse_unanswered(bytes, || typed::imports_of_types(&code.component_type(), engine))?;
    }
    let pre = link(runtime, code, wants.capabilities)?;
    let call_interface = match wants.is_of_contract {
        true if rename.is_empty() => CallInterface::contract(pre)?,
        true => return Err(LoadError::Renamed(OF_CONTRACT.into())),
        false => CallInterface::typed(engine, code, bytes, pre, rename)?,
    };
    let tells_users_apart = is_told_the_user(engine, code);
    if tells_users_apart {
        runtime.users.prepare();
    }
    Ok((call_interface, tells_users_apart))
}

fn link(
    runtime: &Runtime,
    code: &Code,
    capabilities: CapabilitySet,
) -> Result<InstancePre<CallState>, LoadError> {
    let pre = runtime.sandbox.linker(capabilities).and_then(|linker| linker.instantiate_pre(code));
    pre.map_err(|error| LoadError::Link(detail(&error)))
}

/// Runs work that may wait for a disk on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(LoadError::Unreadable(io::Error::other(error))))
}
