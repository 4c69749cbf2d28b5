//! WASI 0.2, closed: no files, no sockets, no environment, no arguments, silent standard streams. The standard
//! libraries of several languages import it always, and get nothing from it but clocks and random numbers.

use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView, WasiView};

use super::{Capability, Imports};
use crate::call::CallState;

pub(super) const CAPABILITY: Capability = Capability {
    imports: Imports::Packages(
        &["wasi:cli", "wasi:clocks", "wasi:filesystem", "wasi:io", "wasi:random", "wasi:sockets"],
        "0.2.",
    ),
    link: |linker| wasmtime_wasi::p2::add_to_linker_async(linker),
    ended: None,
};

/// Most WASI resources (streams, pollables) that one call may hold: a guest must not fill the host's memory
/// with handles.
const RESOURCES: usize = 1_000;

/// Most random bytes of one request for them: they are made on the host's side, where no limit of the guest
/// holds, and asking again is cheap.
const RANDOM_BYTES: u64 = 64 << 10;

/// What a call has of WASI. Made when the guest first asks for something of it, which most never do.
#[derive(Default)]
pub(crate) struct WasiState(Option<Box<(WasiCtx, ResourceTable)>>);

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self.wasi.0.get_or_insert_with(|| {
            let mut closed = WasiCtx::builder();
            closed.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
            closed.max_random_size(RANDOM_BYTES);
            let mut table = ResourceTable::new();
            table.set_max_capacity(RESOURCES);
            Box::new((closed.build(), table))
        });
        WasiCtxView { ctx: &mut wasi.0, table: &mut wasi.1 }
    }
}
