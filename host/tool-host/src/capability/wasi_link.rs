//! How WASI is linked: the library's functions, with timers of our own.

use wasmtime::StoreContextMut;
use wasmtime::component::Linker;
use wasmtime_wasi::clocks::WasiClocksView as _;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::Host as _;

use crate::capability::state::CallState;

/// As the library links it.
const MONOTONIC_CLOCK: &str = "wasi:clocks/monotonic-clock@0.2.12";

pub(super) fn link(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    let linked = link_timers(linker);
    linker.allow_shadowing(false);
    linked
}

/// Puts timers in the place of the library's, which are those of the machine whatever clock a guest sees:
/// with a clock that stands still they are over at once.
fn link_timers(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    let mut clock = linker.instance(MONOTONIC_CLOCK)?;
    clock.func_wrap(
        "subscribe-duration",
        |mut store: StoreContextMut<'_, CallState>, (duration,): (u64,)| {
            let state = store.data_mut();
            let duration = state.wasi.timer(duration);
            Ok((state.clocks().subscribe_duration(duration)?,))
        },
    )?;
    clock.func_wrap("subscribe-instant", |mut store: StoreContextMut<'_, CallState>, (when,): (u64,)| {
        let state = store.data_mut();
        let when = state.wasi.timer(when);
        Ok((state.clocks().subscribe_instant(when)?,))
    })
}
