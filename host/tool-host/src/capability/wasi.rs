//! WASI 0.2, closed: no files, no sockets, no environment, no arguments, no standard input. The standard
//! libraries of several languages import it always, and get nothing from it but clocks and random numbers.
//! What a guest prints goes to its log (`printed.rs`).

use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView};

use super::imports::Imports;
use super::log::LogState;
use super::nondeterminism::Nondeterminism;
use super::printed::PrintedLines;

pub(super) const IMPORTS: Imports = Imports::Packages(
    &["wasi:cli", "wasi:clocks", "wasi:filesystem", "wasi:io", "wasi:random", "wasi:sockets"],
    "0.2.",
);

/// Most WASI resources (streams, pollables, requests) that one call may hold: a guest must not fill the
/// host's memory with handles. A request keeps up to 80 KiB: its path has up to 64 KiB, its headers up to 16
/// KiB.
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

impl WasiState {
    /// Nothing is made until it is asked for. What the guest prints goes to `log`.
    pub(crate) fn new(log: LogState, nondeterminism: Nondeterminism) -> Self {
        Self { log, nondeterminism, made: None }
    }

    /// How long a timer takes that the guest asked for, or when it ends: with a clock that stands still it is
    /// over.
    pub(super) fn timer(&self, asked: u64) -> u64 {
        self.nondeterminism.timer(asked)
    }

    pub(crate) fn view(&mut self) -> WasiCtxView<'_> {
        let (log, nondeterminism) = (&self.log, &self.nondeterminism);
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
