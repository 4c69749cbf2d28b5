//! Follows a job's stream as a client does that resumes (host/docs/api/streams.md): what has an id is kept,
//! over the death of the process that it is read from, and compared with the journal and with what a reader
//! is told that comes when all is over.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use acceptance::{Events, Sent, User};
use agent_core::words::Event;
use tokio::time::sleep;

use super::plan::{PlannedKill, Versions};

/// How soon a reader comes again whose connection has ended.
const COMES_AGAIN: Duration = Duration::from_millis(50);

/// The reader of one job's stream.
#[derive(Debug)]
pub(super) struct Reader {
    /// `jobs/{id}`, as paths have it.
    what: String,
    /// Whether the job is followed while it is worked on. The worker then has the model stream its replies
    /// and may write the start of the run by itself, so one job in three is left alone.
    is_followed: bool,
    told: Vec<Sent>,
    is_over: bool,
    /// Whether the connection broke off in the middle of the stream with the process that died.
    pub(super) is_resumed: bool,
    /// What a reader was told that came when all was over.
    late: Vec<Sent>,
}

impl Reader {
    /// A reader that has read nothing yet. Another version may not have all that ours shows.
    pub(super) fn of(kill: &PlannedKill, job: &str) -> Self {
        Self::new(format!("jobs/{job}"), kill.versions == Versions::Same && !kill.number.is_multiple_of(3))
    }

    fn new(what: String, is_followed: bool) -> Self {
        Self { what, is_followed, told: Vec::new(), is_over: false, is_resumed: false, late: Vec::new() }
    }

    /// Reads at a process that is going to die.
    pub(super) async fn read_until_dropped(&mut self, user: &User) -> Infallible {
        self.read(user).await;
        pending().await
    }

    /// The process that was read from is dead.
    pub(super) fn note_death(&mut self) {
        self.is_resumed = !self.told.is_empty() && !self.is_over;
    }

    /// Reads to the end of the run, over as many connections as that takes.
    pub(super) async fn read(&mut self, user: &User) {
        while self.is_followed && !self.is_over {
            let last = self.told.last().and_then(|event| event.id.as_deref());
            if let Ok(answer) = user.following(&self.what, last).send().await {
                match answer.status().as_u16() {
                    200 => Box::pin(self.take(Events::of(answer))).await,
                    // Nothing follows, and the end was not told: that is for the judge.
                    204 => self.is_over = true,
                    _ => {}
                }
            }
            if !self.is_over {
                sleep(COMES_AGAIN).await;
            }
        }
    }

    /// Takes what comes over one connection. Parts of replies have no id, and what the run waits for is told
    /// again to a reader that comes again.
    async fn take(&mut self, mut events: Events) {
        while let Some(event) = events.next().await {
            let is_again = event.name == "run.waiting" && self.told.contains(&event);
            if event.id.is_some() && !is_again {
                self.is_over |= event.name == "run.ended" || event.name == "run.failed";
                self.told.push(event);
            }
        }
    }

    /// Has another reader read all of it when nothing can happen any more.
    pub(super) async fn look_back(&mut self, user: &User) {
        let mut other = Self::new(self.what.clone(), true);
        other.read(user).await;
        self.late = other.told;
    }

    /// Judges what was told beside the journal at the very end. An error says what is wrong. A reader who was
    /// there when the process died may lack the last reply: it may have been stored long after the queue was
    /// told of the end (`LAST_EVENTS_WITHIN`).
    pub(super) fn judge(&self, journal: &[Event]) -> Result<(), String> {
        let told = if self.is_followed { &self.told } else { &self.late };
        let name = |event: &Sent| format!("{} {}", event.id.as_deref().unwrap_or_default(), event.name);
        let names = |told: &[Sent]| told.iter().map(name).collect::<Vec<_>>();
        let lacks_reply = self.is_followed
            && matches!(journal, [rest @ .., Event::ModelReplied { reply, .. }]
                if reply.tool_calls.is_empty() && names(told) == due(rest));
        let (names, due) = (names(if lacks_reply { &self.late } else { told }), due(journal));
        if names != due {
            return Err(format!("a reader was told {names:?} of {due:?}"));
        }
        let compared = if lacks_reply { told.len() - 1 } else { told.len().max(self.late.len()) };
        let other = (0..compared).find(|at| told.get(*at) != self.late.get(*at));
        other.map_or(Ok(()), |at| {
            Err(format!("a reader was told {:?}, and a later one {:?}", told.get(at), self.late.get(at)))
        })
    }
}

/// Ids and names of the events that a journal stands for, with the end of the run behind them. Where the only
/// events of a run were lost with the process that had told the queue of its end, the result is shown as one
/// that was kept.
fn due(journal: &[Event]) -> Vec<String> {
    if journal.is_empty() {
        return vec!["0 run.started".to_owned(), "1 run.ended".to_owned()];
    }
    let mut due = Vec::new();
    for (number, event) in journal.iter().enumerate() {
        let (name, calls) = match event {
            Event::Started { .. } => ("run.started", 0),
            Event::ModelReplied { reply, .. } => ("model.replied", reply.tool_calls.len()),
            Event::ToolReturned { .. } => ("tool.returned", 0),
            Event::Waiting { waits, .. } if !waits.is_empty() => ("run.waiting", 0),
            Event::Decided { .. } => ("run.decided", 0),
            _ => continue,
        };
        due.push(format!("{number} {name}"));
        due.extend((1..=calls).map(|call| format!("{number}.{call} tool.started")));
    }
    due.push(format!("{} run.ended", journal.len()));
    due
}

#[cfg(test)]
mod tests {
    use agent_core::testing::{asks_for, says, task};
    use agent_core::words::{ToolOutcome, ToolReceipt, ToolReturn};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stream_with_a_gap_a_repetition_another_event_or_no_end_is_found() {
        let answer = ToolReturn { content: "4".into(), receipt: ToolReceipt::new("look", ToolOutcome::Ok) };
        let journal = [
            Event::Started { task: task("hi"), tools: String::new() },
            Event::from(asks_for(&[("1", "look", json!({})), ("2", "look", json!({}))])),
            Event::TakenUp { by: "a".into() },
            Event::ToolReturned { index: 1, answer: answer.clone() },
            Event::ToolReturned { index: 0, answer },
            Event::from(says("done")),
        ];
        let due = due(&journal);
        assert_eq!(due[2..5], ["1.1 tool.started", "1.2 tool.started", "3 tool.returned"]);
        assert_eq!(due.last().unwrap(), "6 run.ended");
        let sent = |due: &String| {
            let (id, name) = due.split_once(' ').unwrap();
            Sent { id: Some(id.to_owned()), name: name.to_owned(), data: json!({ "told": due }) }
        };
        let whole: Vec<_> = due.iter().map(sent).collect();
        let judged = |is_followed: bool, told: Vec<Sent>, late: &[Sent]| {
            let reader = Reader { told, late: late.to_vec(), ..Reader::new(String::new(), is_followed) };
            reader.judge(&journal).is_ok()
        };
        assert!(judged(true, whole.clone(), &whole) && judged(false, vec![], &whole));
        assert!(!judged(true, vec![], &whole), "a job that is followed is read while it is worked on");
        // The last reply was stored too late for the reader, and not for the later one.
        let cut: Vec<_> = super::due(&journal[..5]).iter().map(sent).collect();
        assert!(judged(true, cut.clone(), &whole));
        assert!(!judged(true, cut.clone(), &cut) && !judged(false, vec![], &cut), "nothing is stored later");
        for at in 0..whole.len() {
            let with = |change: fn(&mut Vec<Sent>, usize)| {
                let mut told = whole.clone();
                change(&mut told, at);
                told
            };
            let missing = with(|told, at| drop(told.remove(at)));
            let twice = with(|told, at| told.insert(at, told[at].clone()));
            let other = with(|told, at| told[at].data = json!("other"));
            let renamed = with(|told, at| told[at].name = "run.failed".to_owned());
            for told in [missing, twice, other, renamed] {
                assert!(!judged(true, told.clone(), &whole), "{told:?}");
                assert!(!judged(true, whole.clone(), &told), "a later reader: {told:?}");
            }
        }
    }
}
