//! Running the guest: a fresh store, an instance, the call, and what its end means.

use wasmtime::Store;

use super::admitted::Admitted;
use super::fault::Fault;
use super::{CallState, Caller, Progress, Tool};
use crate::bindings::exports::agent::tool::tool::{Failure, Output};
use crate::component::detail;

impl Admitted {
    /// Runs the guest and checks what it returned.
    pub(super) async fn run(self, caller: Caller, arguments: String) -> Result<String, Fault> {
        let value = self.run_guest(caller, &arguments).await?;
        self.check_output(value).await
    }

    /// The tool's own failure, as the model may read it.
    fn refused(&self, mut failure: Failure) -> Fault {
        failure.code = self.without_secrets(failure.code);
        failure.message = self.without_secrets(failure.message);
        Fault::refused(&failure)
    }

    /// With the values of secrets replaced: a server may have told the guest its own credential.
    fn without_secrets(&self, text: String) -> String {
        match &self.granted {
            Some(granted) => granted.scanner().scan_text(&text).into_owned(),
            None => text,
        }
    }

    /// The store is gone when this returns.
    async fn run_guest(&self, caller: Caller, arguments: &str) -> Result<String, Fault> {
        let sandbox = &self.runtime.sandbox;
        let progress = caller.progress.clone();
        progress.begin();
        let mut store = sandbox.store(caller).map_err(|error| Fault::host(detail(&error)))?;
        let ran = instantiate_and_call(&mut store, &self.tool, arguments, &progress).await;
        progress.ended();
        if let Some(used) = sandbox.fuel_used(&store) {
            progress.set_fuel(used);
        }
        let output = match ran {
            Ok(returned) => returned.map_err(|failure| self.refused(failure))?,
            Err(error) => {
                return Err(Fault::interrupted(&self.limits, store.data(), &error, self.allowed));
            }
        };
        if output.value.len() > self.limits.output_bytes {
            return Err(Fault::too_much(&self.limits));
        }
        Ok(self.without_secrets(output.value))
    }
}

/// The outer error is wasmtime's, the inner one the tool's own failure.
async fn instantiate_and_call(
    store: &mut Store<CallState>,
    tool: &Tool,
    arguments: &str,
    progress: &Progress,
) -> wasmtime::Result<Result<Output, Failure>> {
    let instance = tool.component.pre.instantiate_async(&mut *store).await?;
    progress.instantiated();
    let returned = instance.agent_tool_tool().call_call(store, &tool.name, arguments).await?;
    Ok(returned)
}
