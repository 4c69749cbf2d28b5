//! Epoch interruption: what stops a guest that computes past its deadline. A clock increments the engine's
//! epoch every tick; compiled code looks at it in loops and calls, lets others run, and traps once its
//! deadline has passed.

use std::thread;
use std::time::{Duration, Instant};

use wasmtime::{EngineWeak, Store, StoreContextMut, UpdateDeadline};

/// How often a running guest can be interrupted or made to let others run.
const TICK: Duration = Duration::from_millis(10);

/// Ticks until the engine is gone. Only a weak engine is held: the clock must not keep it alive.
pub(crate) fn start_epoch_clock(engine: EngineWeak) -> wasmtime::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "this thread is the clock: sleeping is its work")]
    let tick = move || {
        loop {
            thread::sleep(TICK);
            let Some(engine) = engine.upgrade() else { return };
            engine.increment_epoch();
        }
    };
    thread::Builder::new().name("tool-clock".into()).spawn(tick)?;
    Ok(())
}

/// Has guests of a store interrupted at the deadline that `tick` says; it is called at every tick.
pub(crate) fn interrupt_at_deadline<T: 'static>(
    store: &mut Store<T>,
    tick: impl Fn(StoreContextMut<'_, T>) -> Instant + Send + Sync + 'static,
) {
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |store| {
        let is_over = Instant::now() >= tick(store);
        Ok(if is_over { UpdateDeadline::Interrupt } else { UpdateDeadline::Yield(1) })
    });
}
