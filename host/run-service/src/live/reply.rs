//! The reply that the model of a watched run is writing. It stands in one place for all readers, and each
//! takes what is new to it, all at once: who comes late reads fewer and longer pieces and misses nothing,
//! however quickly the model writes.

use std::sync::Arc;

use tokio::sync::watch;

/// What was written of the latest reply.
#[derive(Debug, Default)]
pub(super) struct ReplyText {
    /// The number that the reply's event will have.
    number: u64,
    /// How often it was begun anew.
    attempt: u32,
    text: String,
    /// Whether the beginning is there as well: nobody may have watched the run then.
    is_whole: bool,
    /// Whether words of it were written that nobody here was told of: readers may have had them before.
    has_gap: bool,
    /// Number and attempt of the reply that stood here before.
    before: Option<(u64, u32)>,
}

impl ReplyText {
    /// More text, which stands at that byte of the reply.
    pub(super) fn write(&mut self, number: u64, at: usize, text: &str) {
        if self.number != number || self.text.is_empty() {
            let attempt = if self.number == number { self.attempt } else { 0 };
            let (has_gap, before) = (self.has_gap(number, at), self.before(number));
            *self = Self { number, attempt, text: String::new(), is_whole: at == 0, has_gap, before };
        }
        self.text.push_str(text);
    }

    /// The text so far, which had so many bytes, does not count.
    pub(super) fn reset(&mut self, number: u64, had: usize) {
        let attempt = if self.number == number { self.attempt.wrapping_add(1) } else { 0 };
        let (has_gap, before) = (self.has_gap(number, had), self.before(number));
        *self = Self { number, attempt, text: String::new(), is_whole: true, has_gap, before };
    }

    /// Whether words of the reply with that number are missing, of which so many bytes were written.
    fn has_gap(&self, number: u64, written: usize) -> bool {
        if self.number == number { self.has_gap } else { written > 0 }
    }

    /// What stands before the reply with that number, which is this one or the next.
    fn before(&self, number: u64) -> Option<(u64, u32)> {
        if self.number == number { self.before } else { Some((self.number, self.attempt)) }
    }
}

/// What is new of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewText {
    /// The number that the reply's event will have.
    pub number: u64,
    /// Whether what was given of it before does not count: all of it follows.
    pub is_anew: bool,
    /// More text; empty when it begins anew and nothing was written yet.
    pub text: Arc<str>,
}

/// One watcher's way through the replies.
#[derive(Debug)]
pub(super) struct ReplyReader {
    reply: watch::Receiver<ReplyText>,
    number: u64,
    attempt: u32,
    /// How many bytes it has taken of this attempt, from the beginning of the reply on.
    taken: usize,
    /// Whether it does not know what was written before, or has taken what no longer counts.
    is_anew: bool,
}

impl ReplyReader {
    /// Begins with all that there is of the reply that is being written.
    pub(super) fn new(sender: &watch::Sender<ReplyText>) -> Self {
        let mut reply = sender.subscribe();
        reply.mark_changed();
        let ReplyText { number, attempt, text, has_gap, .. } = &*sender.borrow();
        let (number, attempt) = (*number, *attempt);
        Self { reply, number, attempt, taken: 0, is_anew: *has_gap || !text.is_empty() }
    }

    /// What was written since this was asked last. Cancellation-safe. Never resolves when nobody writes any
    /// more.
    pub(super) async fn next(&mut self) -> NewText {
        loop {
            if self.reply.changed().await.is_err() {
                return std::future::pending().await;
            }
            if let Some(new) = self.take() {
                return new;
            }
        }
    }

    /// What there is to take now. Nothing of a reply whose beginning is not there: its event has all of it.
    pub(super) fn take(&mut self) -> Option<NewText> {
        let reply = self.reply.borrow_and_update();
        if reply.number != self.number {
            (self.number, self.attempt, self.taken) = (reply.number, reply.attempt, 0);
            self.is_anew = reply.has_gap;
        }
        if reply.attempt != self.attempt {
            self.is_anew |= self.taken > 0;
            (self.attempt, self.taken) = (reply.attempt, 0);
        }
        if !reply.is_whole {
            return None;
        }
        let new = reply.text.get(self.taken..).unwrap_or_default();
        if new.is_empty() && !self.is_anew {
            return None;
        }
        self.taken += new.len();
        Some(NewText { number: reply.number, is_anew: std::mem::take(&mut self.is_anew), text: new.into() })
    }

    /// What was not taken of the reply with that number, whose whole text is known now. Nothing of one that
    /// was not written while this watched.
    pub(super) fn rest(&mut self, number: u64, content: &str) -> Option<NewText> {
        let (latest, before) = {
            let reply = self.reply.borrow();
            (reply.number, reply.before)
        };
        if latest == number {
            return self.take();
        }
        // The next reply stands in its place.
        let is_begun = self.number == number && self.taken > 0 && !self.is_anew;
        // The reply was begun anew since this was asked last: what was taken is none of it.
        if is_begun && before != Some((number, self.attempt)) {
            return Some(NewText { number, is_anew: true, text: content.into() });
        }
        let text = if is_begun { content.get(self.taken..)? } else { "" };
        (!text.is_empty()).then(|| NewText { number, is_anew: false, text: text.into() })
    }
}
