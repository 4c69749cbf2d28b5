//! A journal as text while the run goes on.

use agent_core::words::{Event, RunRecord};

use super::timeline::{body, foot};

/// Writes out the lines of events as they come, in the form of [`timeline`](super::timeline()).
#[derive(Debug, Default)]
pub struct TimelineTail {
    events: Vec<Event>,
    /// How much of the text was given out, in bytes.
    given: usize,
}

impl TimelineTail {
    /// The lines of further events.
    pub fn go_on(&mut self, further: Vec<Event>) -> String {
        self.events.extend(further);
        // A run has some dozens of events: all of them are written again, because lines depend on the events
        // before.
        let mut text = body(&self.events);
        let new = text.split_off(self.given.min(text.len()));
        self.given += new.len();
        new
    }

    /// What the run came to.
    pub fn end(&self, record: Option<&RunRecord>) -> String {
        foot(&self.events, record)
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::{asks_for, says};

    use super::*;
    use crate::runs::timeline;

    #[test]
    fn a_tail_says_what_the_whole_says() {
        let events = [
            Event::from(asks_for(&[("c1", "calculator", serde_json::json!({}))])),
            Event::TakenUp { by: "w".into() },
            Event::from(says("4")),
            Event::Cancelled,
        ];
        let mut tail = TimelineTail::default();
        let mut text = String::new();
        for event in &events {
            let further = tail.go_on(vec![event.clone()]);
            assert!(!further.is_empty());
            text.push_str(&further);
        }
        assert_eq!(tail.go_on(vec![]), "");
        text.push_str(&tail.end(None));
        assert_eq!(text, timeline(&events, None));
    }
}
