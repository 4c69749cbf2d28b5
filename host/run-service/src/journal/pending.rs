//! A journal whose last events are not in the store yet.

use agent_core::words::Event;

/// The events of a run from number `from` on: those that a store gave, and of `waiting`, the first of which
/// has the number `first`, those that come behind them.
pub(super) fn followed_by(mut stored: Vec<Event>, from: u64, first: u64, waiting: Vec<Event>) -> Vec<Event> {
    let next = from + stored.len() as u64;
    // Events that were written meanwhile are among the stored ones. A journal with a gap ends before it.
    if let Some(written) = next.checked_sub(first) {
        let written = usize::try_from(written).unwrap_or(usize::MAX);
        stored.extend(waiting.into_iter().skip(written));
    }
    stored
}
