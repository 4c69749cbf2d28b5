//! Running the guest: a fresh store, an instance, the call, and what its end means.

use super::admitted::Admitted;
use super::fault::Fault;
use crate::bindings::exports::agent::tool::tool::Failure;
use crate::capability::state::Caller;
use crate::component::call_interface::{CallInterface, Returned};
use crate::error::detail;

impl Admitted {
    /// Runs the guest and checks what it returned.
    pub(super) async fn run(self, caller: Caller, arguments: String) -> Result<String, Fault> {
        let value = match &self.tool.component.call_interface {
            CallInterface::Mcp { server, tools } => {
                Box::pin(self.ask_server(server, tools, &caller, &arguments)).await?
            }
            CallInterface::Contract(_) | CallInterface::Typed { .. } => {
                self.run_guest(caller, &arguments).await?
            }
        };
        self.check_output(value).await
    }

    /// The tool's own failure, as the model may read it.
    pub(super) fn refused(&self, mut failure: Failure) -> Fault {
        failure.code = self.without_secrets(failure.code);
        failure.message = self.without_secrets(failure.message);
        Fault::refused(&failure)
    }

    /// With the values of secrets replaced: a server may have told the guest its own credential.
    pub(super) fn without_secrets(&self, text: String) -> String {
        match &self.granted {
            Some(granted) => granted.scanner().scan_text(&text).into_owned(),
            None => text,
        }
    }

    /// The store is gone when this returns.
    async fn run_guest(&self, caller: Caller, arguments: &str) -> Result<String, Fault> {
        let sandbox = &self.runtime.sandbox;
        let (progress, fuel) = (caller.progress.clone(), caller.fuel());
        let (call_interface, tool) = (&self.tool.component.call_interface, &self.tool.name);
        let prepared = call_interface
            .prepare(tool, arguments)
            .ok_or_else(|| Fault::host("it has no such tool".into()))?;
        let prepared = prepared.map_err(|mismatch| Fault::arguments(&mismatch.to_string()))?;
        progress.begin();
        let mut store = sandbox
            .store(caller, call_interface.transfer(tool))
            .map_err(|error| Fault::host(detail(&error)))?;
        let ran = prepared.call(&mut store, &progress).await;
        progress.ended();
        if let Some(used) = sandbox.fuel_used(&store, fuel) {
            progress.set_fuel(used);
        }
        let value = match ran {
            Ok(Returned::Value(value)) => value,
            Ok(Returned::Failure(failure)) => return Err(self.refused(failure)),
            Ok(Returned::Mismatch(mismatch)) => return Err(Fault::output(mismatch.to_string())),
            Err(error) => {
                return Err(Fault::interrupted(&self.limits, store.data(), &error, self.allowed));
            }
        };
        if value.len() > self.limits.output_bytes {
            return Err(Fault::too_much(&self.limits));
        }
        Ok(self.without_secrets(value))
    }
}
