//! What the provider is to do with a request. It stands in the text that the user says, which the service
//! passes on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// No tool says this in its description.
const MARK: &str = "bench-script ";

/// Stands for a stream that is held until it is released.
const HELD: u64 = u64::MAX;

/// The text of every delta but the first.
pub(crate) const WORD: &str = "word ";

/// How long the text of the first delta is: the time at which it was sent.
pub(crate) const STAMP: usize = 21;

/// A reply that is streamed: one delta at once, a pause, the other deltas one by one, the end.
#[derive(Clone, Copy)]
pub(crate) struct Script {
    pub(crate) deltas: usize,
    /// How long the pause is; none when it lasts until the provider is told to go on.
    pub(crate) pause: Option<Duration>,
}

impl Script {
    /// As a text that nobody has said before: an answer that is kept for a question would not be streamed.
    pub(crate) fn text(self) -> String {
        static SAID: AtomicU64 = AtomicU64::new(0);
        let number = SAID.fetch_add(1, Ordering::Relaxed);
        let pause = self.pause.map_or(HELD, |pause| u64::try_from(pause.as_micros()).unwrap());
        format!("{MARK}{} {pause} {number}", self.deltas)
    }

    /// Finds it in the body of a request.
    pub(crate) fn find(body: &str) -> Option<Self> {
        let (_, text) = body.split_once(MARK)?;
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u64>);
        let (deltas, pause) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let pause = (pause != HELD).then_some(Duration::from_micros(pause));
        Some(Self { deltas: usize::try_from(deltas).ok()?, pause })
    }

    /// How long the text of all deltas is.
    pub(crate) fn text_length(self) -> usize {
        STAMP + (self.deltas - 1) * WORD.len()
    }
}
