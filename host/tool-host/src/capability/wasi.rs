//! WASI 0.2, closed: no files, no sockets, no environment, no arguments, no standard input. The standard libraries of
//! several languages import it always, and get nothing from it but clocks and random numbers. What a guest prints goes to
//! its log (`printed.rs`).

use wasmtime::StoreContextMut;
use wasmtime::component::Linker;
use wasmtime_wasi::clocks::WasiClocksView as _;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::Host as _;
use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView};

use super::imports::Imports;
use super::log::LogState;
use super::nondeterminism::Nondeterminism;
use super::printed::PrintedLines;
use crate::call::state::CallState;

pub(super) const IMPORTS: Imports = Imports::Packages(
    &["wasi:cli", "wasi:clocks", "wasi:filesystem", "wasi:io", "wasi:random", "wasi:sockets"],
    "0.2.",
);

/// Most WASI resources (streams, pollables, requests) that one call may hold: a guest must not fill the host's memory with
/// handles. A request keeps up to 80 KiB: its path has up to 64 KiB, its headers up to 16 KiB.
const RESOURCES: usize = 100;

/// Most random bytes of one request for them: they are made on the host's side, where no limit of the guest
/// holds, and asking again is cheap.
const RANDOM_BYTES: u64 = 64 << 10;

/// What a call has of it. Made when the guest first asks for something of WASI, which most never do.
pub(crate) struct WasiState {
    log: LogState,
    nondeterminism: Nondeterminism,
    made: Option<Box<(WasiCtx, ResourceTable)>>,
}

/// As the library links it.
const MONOTONIC_CLOCK: &str = "wasi:clocks/monotonic-clock@0.2.12";

pub(super) fn link(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    let linked = link_timers(linker);
    linker.allow_shadowing(false);
    linked
}

/// Puts timers in the place of the library's, which are those of the machine whatever clock a guest sees: with a
/// clock that stands still they are over at once.
fn link_timers(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    let mut clock = linker.instance(MONOTONIC_CLOCK)?;
    clock.func_wrap(
        "subscribe-duration",
        |mut store: StoreContextMut<'_, CallState>, (duration,): (u64,)| {
            let state = store.data_mut();
            let duration = state.wasi.nondeterminism.timer(duration);
            Ok((state.clocks().subscribe_duration(duration)?,))
        },
    )?;
    clock.func_wrap("subscribe-instant", |mut store: StoreContextMut<'_, CallState>, (when,): (u64,)| {
        let state = store.data_mut();
        let when = state.wasi.nondeterminism.timer(when);
        Ok((state.clocks().subscribe_instant(when)?,))
    })
}

impl WasiState {
    /// Nothing is made until it is asked for. What the guest prints goes to `log`.
    pub(crate) fn new(log: LogState, nondeterminism: Nondeterminism) -> Self {
        Self { log, nondeterminism, made: None }
    }

    pub(crate) fn view(&mut self) -> WasiCtxView<'_> {
        let (log, nondeterminism) = (&self.log, self.nondeterminism);
        let wasi = self.made.get_or_insert_with(|| {
            let mut closed = WasiCtx::builder();
            closed.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
            closed.max_random_size(RANDOM_BYTES);
            closed.stdout(PrintedLines::new(log.clone(), "info", "stdout"));
            closed.stderr(PrintedLines::new(log.clone(), "warn", "stderr"));
            nondeterminism.give_to(&mut closed);
            let mut table = ResourceTable::new();
            table.set_max_capacity(RESOURCES);
            Box::new((closed.build(), table))
        });
        WasiCtxView { ctx: &mut wasi.0, table: &mut wasi.1 }
    }
}
