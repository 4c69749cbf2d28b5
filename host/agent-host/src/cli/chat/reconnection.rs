//! When the stream of a run is connected again, and which of its events were read before.
//!
//! A service says with `retry:` how long a reader stays away: a minute while the run waits for somebody. It
//! then answers the event that says so once more, which is neither news nor a reason to come sooner.

use std::time::Duration;

use agent_core::backoff::Backoff;
use sse_stream::Sse;

/// Pauses before connections that are made one after another.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause that a service may ask for.
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// The state of a stream over its connections.
#[derive(Debug)]
pub(super) struct Reconnection {
    /// The id of the last event that has one.
    pub(super) last_id: Option<String>,
    /// Connections that were made since the last event.
    pub(super) attempts: u32,
    pauses: Backoff,
    /// The least pause, as the service asked for it.
    retry: Duration,
    is_cancelled: bool,
    /// Whether an event of that name is the last one of its run.
    is_last: fn(&str) -> bool,
}

impl Reconnection {
    /// Of a stream of which nothing was read yet.
    pub(super) fn new(is_last: fn(&str) -> bool) -> Self {
        Self {
            last_id: None,
            attempts: 0,
            pauses: Backoff::new(FIRST_PAUSE, LAST_PAUSE),
            retry: Duration::ZERO,
            is_cancelled: false,
            is_last,
        }
    }

    /// Notes what was read. True for an event that was not read before.
    pub(super) fn note(&mut self, sse: &Sse) -> bool {
        if let Some(retry) = sse.retry {
            self.retry = LONGEST_RETRY.min(Duration::from_millis(retry));
        }
        let Some(name) = &sse.event else { return false };
        self.attempts = 0;
        let at = sse.id.as_deref().and_then(position);
        let is_known = at.is_some() && at <= self.last_id.as_deref().and_then(position);
        if is_known && !(self.is_last)(name) {
            return false;
        }
        if sse.id.is_some() {
            self.last_id.clone_from(&sse.id);
        }
        self.pauses.reset();
        true
    }

    /// How long to stay away before the next connection.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.pauses.next();
        if self.is_cancelled { pause } else { pause.max(self.retry) }
    }

    /// The run was cancelled: its last event is looked for at once, whatever the service has asked for.
    pub(super) fn expect_end(&mut self) {
        self.is_cancelled = true;
        self.pauses.reset();
    }
}

/// The position of an event in its run: `n`, or `n.p` where an entry of the journal is several events.
fn position(id: &str) -> Option<(u64, u64)> {
    let (number, part) = id.split_once('.').unwrap_or((id, "0"));
    Some((number.parse().ok()?, part.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, id: &str) -> Sse {
        Sse::default().event(name).id(id).data("{}")
    }

    #[test]
    fn a_run_that_waits_is_looked_at_once_a_minute_and_what_it_waits_for_is_news_once() {
        let minute = Duration::from_secs(60);
        let mut reconnection = Reconnection::new(|name| name == "run.ended");
        assert!(reconnection.note(&event("tool.started", "2.1")));
        assert!(reconnection.note(&event("run.waiting", "3")));
        assert!(!reconnection.note(&Sse::default().retry(60_000)));
        for _ in 0..10 {
            assert_eq!(reconnection.pause(), minute);
            reconnection.attempts += 1;
            assert!(!reconnection.note(&event("run.waiting", "3")));
            assert_eq!((reconnection.attempts, reconnection.last_id.as_deref()), (0, Some("3")));
        }
        reconnection.expect_end();
        assert_eq!(reconnection.pause(), FIRST_PAUSE);
    }

    #[test]
    fn what_is_said_again_from_before_the_last_event_takes_no_reader_back() {
        let mut reconnection = Reconnection::new(|name| name == "run.ended");
        assert!(reconnection.note(&event("run.waiting", "3")));
        assert!(reconnection.note(&event("tool.returned", "4")));
        assert!(!reconnection.note(&event("run.waiting", "3")));
        assert_eq!(reconnection.last_id.as_deref(), Some("4"));
        assert!(reconnection.note(&Sse::default().event("model.delta").data("{}")));
        assert!(reconnection.note(&event("model.replied", "10")), "by number, not by letter");
        assert!(reconnection.note(&event("run.ended", "10")), "an end is never left out");
    }

    #[test]
    fn pauses_grow_while_nothing_new_comes_and_are_bounded() {
        let mut reconnection = Reconnection::new(|name| name == "run.ended");
        assert!(reconnection.note(&event("run.waiting", "3")));
        for expected in [200, 400, 800] {
            assert!(!reconnection.note(&event("run.waiting", "3")));
            assert_eq!(reconnection.pause(), Duration::from_millis(expected));
        }
        assert!(reconnection.note(&event("run.decided", "4")));
        assert_eq!(reconnection.pause(), FIRST_PAUSE);
        assert!(!reconnection.note(&Sse::default().retry(u64::MAX)));
        assert_eq!(reconnection.pause(), LONGEST_RETRY);
    }
}
