//! `agent:tool/types`: shapes that other interfaces use. There is nothing to answer.

use wasmtime::component::Linker;

use super::imports::Imports;
use crate::capability::state::CallState;

pub(super) const IMPORTS: Imports = Imports::Contract("types");

pub(super) fn link(_linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    Ok(())
}
