//! What is recorded of a call that may come to something that waits, so that it can be made again: a call
//! that waits in its middle ends, and the next attempt is given the same answers in the same order.
//!
//! Nested calls and questions of one call are numbered together. An answer that is recorded is never asked
//! for again; of a call that was begun and may not be made twice nothing but its name is known.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{OpenWait, Run, UnexpectedEvent, Waiting};
use crate::words::{CallPlace, RecordedAnswer, ToolReceipt};

/// What is known of a call from the times that it was made before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// The time that its guest is told at first, in milliseconds since 1970.
    pub at: u64,
    /// What its guest's random numbers are made from.
    pub seed: String,
    /// Nested calls and questions of the call, by number. Shared: a run is asked for its open calls often.
    pub steps: BTreeMap<u32, Arc<RecordedStep>>,
    /// What of them waited for somebody.
    pub waits: BTreeMap<u32, OpenWait>,
    /// How often each was shown to somebody.
    pub shown: BTreeMap<u32, u32>,
    /// How many there were, which count already among those of the run.
    pub count: u32,
}

/// A nested call or question of an earlier attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordedStep {
    /// A call that must not be made twice was begun, and whether it had an effect is not known.
    Begun { name: String },
    /// The call has an answer, which its tool was given.
    Answered { receipt: ToolReceipt, answer: RecordedAnswer },
}

impl Run {
    /// Bytes of answers that are recorded, in the whole run.
    pub fn recorded_bytes(&self) -> usize {
        self.recorded_bytes
    }

    pub(super) fn on_recording(
        &mut self,
        index: usize,
        at: u64,
        seed: String,
    ) -> Result<(), UnexpectedEvent> {
        let Waiting::Tools(calls) = &self.waiting else { return Err(self.unexpected("waits for no tools")) };
        if !matches!(calls.get(index), Some((_, None))) {
            return Err(self.unexpected("waits for other tools"));
        }
        self.recordings.entry(index).or_insert(Recording { at, seed, ..Recording::default() });
        Ok(())
    }

    /// Takes note of a nested call or question. Of a call that is recorded it is kept; an answer takes the
    /// place of the beginning.
    pub(super) fn on_step(
        &mut self,
        index: usize,
        number: u32,
        step: RecordedStep,
    ) -> Result<(), UnexpectedEvent> {
        self.on_nested(index, number)?;
        if let Some(recording) = self.recordings.get_mut(&index) {
            recording.steps.insert(number, Arc::new(step));
        }
        Ok(())
    }

    pub(super) fn on_nested_return(
        &mut self,
        index: usize,
        number: u32,
        receipt: ToolReceipt,
        recorded: Option<Box<RecordedAnswer>>,
    ) -> Result<(), UnexpectedEvent> {
        let Some(answer) = recorded else { return self.on_nested(index, number) };
        self.recorded_bytes = self.recorded_bytes.saturating_add(answer.bytes());
        self.on_step(index, number, RecordedStep::Answered { receipt, answer: *answer })
    }

    /// A call made another one, of that number among its own: those before it were made as well.
    fn on_nested(&mut self, index: usize, number: u32) -> Result<(), UnexpectedEvent> {
        let Waiting::Tools(calls) = &self.waiting else { return Err(self.unexpected("waits for no tools")) };
        if !matches!(calls.get(index), Some((_, None))) {
            return Err(self.unexpected("waits for other tools"));
        }
        let known = self.nested.entry(index).or_default();
        let made = number.saturating_add(1).max(*known);
        self.nested_calls = self.nested_calls.saturating_add(made - *known);
        *known = made;
        Ok(())
    }

    /// What is recorded of a call, with what was decided about its nested calls and questions.
    pub(super) fn recording(&self, index: usize) -> Option<Recording> {
        let mut recording = self.recordings.get(&index)?.clone();
        let of_call = |place: &CallPlace| place.nested.filter(|_| place.index == index);
        let waits = self.waits.iter().filter_map(|(place, open)| Some((of_call(place)?, open.clone())));
        recording.waits = waits.collect();
        let shown = self.shown.iter().filter_map(|(place, times)| Some((of_call(place)?, *times)));
        recording.shown = shown.collect();
        recording.count = self.nested.get(&index).copied().unwrap_or_default();
        Some(recording)
    }
}
