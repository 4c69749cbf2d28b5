//! Calls a component's `describe` and prepares the tools it describes.
//!
//! Both run a stranger's programs, the guest and its schemas. So they run on a blocking thread of the guest
//! runtime, each with a time limit that counts from when it begins, and with slots of their own: a host that
//! is full of calls can still load a component.

use std::sync::Arc;
use std::time::{Duration, Instant};

use json_schema::SchemaBudget;
use tokio::runtime::Handle;
use tool_policy::Want;
use wasmtime::Trap;

use crate::bindings::AnyToolPre;
use crate::bindings::exports::agent::tool::tool::ToolDef;
use crate::capability::ask::AskState;
use crate::capability::context::CallIds;
use crate::capability::key_value::KeyValueState;
use crate::capability::nondeterminism::Nondeterminism;
use crate::capability::state::{CallState, Caller};
use crate::capability::toolbox::ToolboxState;
use crate::component::call_interface::CallInterface;
use crate::component::define;
use crate::component::definition::Definition;
use crate::error::{LoadError, detail};
use crate::limits::Transfer;
use crate::limits::progress::Progress;
use crate::runtime::Runtime;

/// Longest a component may take to describe itself. Those that carry an interpreter start it first.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest its schemas may take to be prepared.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(2);

/// Words of wasmtime where an exported function has other types than the contract's. Its error has no type
/// of its own; a test fails when the words change.
const MISFIT: &str = "failed to convert function to given type";

/// The tools of a component as it describes them.
pub(crate) async fn describe(
    runtime: &Arc<Runtime>,
    call_interface: &CallInterface,
    name: &Arc<str>,
    wants: &[Want],
) -> Result<Vec<Arc<Definition>>, LoadError> {
    let slot = runtime.slots.describe().await;
    let work = {
        let (runtime, name, wants) = (runtime.clone(), name.clone(), wants.to_owned());
        let described = call_interface.described().map_err(AnyToolPre::clone);
        move || {
            let described = match described {
                Ok(described) => described,
                Err(pre) => Handle::current().block_on(ask(&runtime, &pre, name))?,
            };
            drop(slot);
            define(described, &wants, &mut SchemaBudget::until(Instant::now() + PREPARE_TIMEOUT))
        }
    };
    let tools = runtime
        .guest_runtime
        .run_blocking(work)
        .await
        .map_err(|error| LoadError::Host(error.to_string()))??;
    for tool in &tools {
        for oddity in &tool.oddities {
            tracing::warn!(
                component = &**name,
                tool = tool.spec.name,
                oddity,
                "a tool describes itself oddly"
            );
        }
    }
    Ok(tools)
}

/// Calls `describe` under the limits of any call, with clocks that stand still and the same random numbers
/// every time: the description that is approved is then the one that every later load finds.
async fn ask(
    runtime: &Runtime,
    pre: &AnyToolPre<CallState>,
    name: Arc<str>,
) -> Result<Vec<ToolDef>, LoadError> {
    let start = Instant::now();
    let deadline = start + DESCRIBE_TIMEOUT;
    let caller = Caller {
        ids: CallIds::new("", "", ""),
        attempt: 1,
        user: None,
        trace: None,
        component: name,
        tool: "describe".into(),
        deadline,
        progress: Arc::new(Progress::new(start, false)),
        log_rate: Arc::default(),
        limits: runtime.sandbox.limits().clone(),
        granted: None,
        requests: None,
        key_value: KeyValueState::default(),
        toolbox: ToolboxState::default(),
        ask: AskState::default(),
        nondeterminism: Nondeterminism::Fixed,
        reports: None,
    };
    let call = async {
        let mut store = runtime.sandbox.store(caller, Transfer::Text)?;
        let instance = match pre.instantiate_async(&mut store).await {
            Ok(instance) => instance,
            Err(error) if detail(&error).contains(MISFIT) => {
                return Ok(Err(LoadError::Signature(detail(&error))));
            }
            Err(error) => return Err(error),
        };
        instance.agent_tool_tool().call_describe(&mut store).await.map(Ok)
    };
    let late = || {
        LoadError::Describe(format!(
            "it did not return within {} ms: leave work to the call",
            DESCRIBE_TIMEOUT.as_millis()
        ))
    };
    match tokio::time::timeout_at(deadline.into(), call).await {
        Ok(Ok(described)) => described,
        // The epoch clock that interrupts the guest and the timer above race for the same deadline.
        Ok(Err(error)) if error.downcast_ref() == Some(&Trap::Interrupt) => Err(late()),
        Err(_elapsed) => Err(late()),
        Ok(Err(error)) if error.is::<wasmtime::PoolConcurrencyLimitError>() => {
            Err(LoadError::Host(detail(&error)))
        }
        Ok(Err(error)) => Err(LoadError::Describe(detail(&error))),
    }
}
