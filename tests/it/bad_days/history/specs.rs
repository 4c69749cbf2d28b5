//! Jobs, conversations and idempotency keys as clients may know them, when one request comes after the other.
//! host/docs/interface/decisions-runs.md#durability

use stateright::semantics::SequentialSpec;

/// What a client asks of a job that waits for a decision.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum JobOp {
    Read,
    Decide(Choice),
    Cancel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Approve,
    Reject,
}

/// What the client was told.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum JobAnswer {
    /// Not ended; perhaps it waits for the decision.
    UnderWay {
        is_parked: bool,
    },
    Ended(End),
    /// The decision or the wish to cancel was taken.
    Taken,
    /// Somebody has decided about the wait before.
    DecidedBefore,
    /// A job that does not wait, or has ended, takes neither.
    Late,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The run did what was decided.
    Completed(Choice),
    Cancelled,
}

/// A job whose only tool call has to be approved: decided once, carried out as decided, and ended once. After
/// a wish to cancel was taken, the job parks no more and takes no decision. The run may end as it was decided
/// before, when the wish comes too late for its worker.
#[derive(Debug, Clone, Default)]
pub(super) struct Job {
    decided: Option<Choice>,
    is_cancelled: bool,
    /// The end that somebody was told of. The worker may have come to it before.
    end: Option<End>,
}

impl Job {
    fn ends_as(&mut self, end: End) -> bool {
        let may_be = match end {
            End::Completed(choice) => self.decided == Some(choice),
            End::Cancelled => self.is_cancelled,
        };
        may_be && *self.end.get_or_insert(end) == end
    }
}

impl SequentialSpec for Job {
    type Op = JobOp;
    type Ret = JobAnswer;

    /// What an unanswered request did, if it came that far.
    fn invoke(&mut self, op: &JobOp) -> JobAnswer {
        let open = self.decided.is_none() && !self.is_cancelled && self.end.is_none();
        match op {
            JobOp::Decide(choice) if open => self.decided = Some(*choice),
            JobOp::Cancel if self.end.is_none() => self.is_cancelled = true,
            JobOp::Read | JobOp::Decide(_) | JobOp::Cancel => return JobAnswer::Late,
        }
        JobAnswer::Taken
    }

    /// What the worker does meanwhile is no request: it may go on at any time.
    fn is_valid_step(&mut self, op: &JobOp, answer: &JobAnswer) -> bool {
        match (op, answer) {
            (JobOp::Read, JobAnswer::UnderWay { is_parked }) => {
                let may_be_parked = self.decided.is_none() && !self.is_cancelled;
                self.end.is_none() && (may_be_parked || !*is_parked)
            }
            (JobOp::Read, JobAnswer::Ended(end)) => self.ends_as(*end),
            (JobOp::Decide(_) | JobOp::Cancel, JobAnswer::Taken) => self.invoke(op) == JobAnswer::Taken,
            (JobOp::Decide(_), JobAnswer::DecidedBefore) => self.decided.is_some(),
            (JobOp::Decide(_), JobAnswer::Late) => self.is_cancelled,
            (JobOp::Cancel, JobAnswer::Late) => self.decided.is_some() || self.is_cancelled,
            _ => false,
        }
    }
}

/// A conversation: what was added to it, in one order, each turn once.
#[derive(Debug, Clone, Default)]
pub(super) struct Conversation(Vec<String>);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConversationOp {
    Add(String),
    Read,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConversationAnswer {
    Added,
    Turns(Vec<String>),
}

impl SequentialSpec for Conversation {
    type Op = ConversationOp;
    type Ret = ConversationAnswer;

    fn invoke(&mut self, op: &ConversationOp) -> ConversationAnswer {
        match op {
            ConversationOp::Read => ConversationAnswer::Turns(self.0.clone()),
            ConversationOp::Add(text) => {
                self.0.push(text.clone());
                ConversationAnswer::Added
            }
        }
    }
}

/// An idempotency key: whoever comes first decides which job it names.
#[derive(Debug, Clone, Default)]
pub(super) struct Key(Option<String>);

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Submit;

impl SequentialSpec for Key {
    type Op = Submit;
    type Ret = String;

    /// Of an unanswered request nobody knows the job: whoever is answered next was told of that one.
    fn invoke(&mut self, _: &Submit) -> String {
        self.0.clone().unwrap_or_default()
    }

    fn is_valid_step(&mut self, _: &Submit, job: &String) -> bool {
        self.0.get_or_insert_with(|| job.clone()) == job
    }
}

#[cfg(test)]
mod tests {
    use stateright::semantics::{ConsistencyTester as _, LinearizabilityTester};

    use super::*;

    /// Each client's request after the answer of the one before it.
    fn holds<S>(spec: S, steps: &[(S::Op, S::Ret)]) -> bool
    where
        S: SequentialSpec + Clone,
        S::Op: Clone + std::fmt::Debug,
        S::Ret: Clone + std::fmt::Debug,
    {
        let mut tester = LinearizabilityTester::new(spec);
        for (client, (op, answer)) in steps.iter().enumerate() {
            tester.on_invret(client, op.clone(), answer.clone()).unwrap();
        }
        tester.is_consistent()
    }

    #[test]
    fn a_job_is_decided_and_ended_once() {
        let approve = JobOp::Decide(Choice::Approve);
        let reject = JobOp::Decide(Choice::Reject);
        let done = |choice| (JobOp::Read, JobAnswer::Ended(End::Completed(choice)));
        let parked = (JobOp::Read, JobAnswer::UnderWay { is_parked: true });
        let taken = (approve.clone(), JobAnswer::Taken);
        let before = (reject.clone(), JobAnswer::DecidedBefore);
        let all = [parked.clone(), taken.clone(), before.clone(), done(Choice::Approve)];
        assert!(holds(Job::default(), &all));
        let cancel = (JobOp::Cancel, JobAnswer::Taken);
        let cancelled = (JobOp::Read, JobAnswer::Ended(End::Cancelled));
        let under_way = (JobOp::Read, JobAnswer::UnderWay { is_parked: false });
        let late = (approve, JobAnswer::Late);
        for right in [
            vec![taken.clone(), cancel.clone(), under_way.clone(), done(Choice::Approve)],
            vec![taken.clone(), cancel.clone(), under_way.clone(), cancelled.clone()],
            vec![parked.clone(), cancel.clone(), late, under_way, cancelled.clone()],
        ] {
            assert!(holds(Job::default(), &right), "{right:?}");
        }
        let wrong = [
            vec![cancel.clone(), parked.clone()],
            vec![cancel.clone(), taken.clone()],
            vec![cancel.clone(), parked.clone(), taken.clone(), done(Choice::Approve)],
            vec![cancel, taken.clone(), done(Choice::Approve)],
            vec![taken.clone(), (reject, JobAnswer::Taken)],
            vec![before, taken.clone()],
            vec![taken.clone(), parked],
            vec![taken.clone(), done(Choice::Reject)],
            vec![done(Choice::Approve), taken.clone()],
            vec![taken.clone(), done(Choice::Approve), (JobOp::Cancel, JobAnswer::Taken)],
            vec![taken, cancelled],
        ];
        for steps in wrong {
            assert!(!holds(Job::default(), &steps), "{steps:?}");
        }
    }

    #[test]
    fn a_conversation_has_each_turn_once_and_loses_none() {
        let add = |text: &str| (ConversationOp::Add(text.to_owned()), ConversationAnswer::Added);
        let turns = |texts: &[&str]| {
            let texts = texts.iter().map(|text| (*text).to_owned()).collect();
            (ConversationOp::Read, ConversationAnswer::Turns(texts))
        };
        assert!(holds(Conversation::default(), &[add("a"), turns(&["a"]), add("b"), turns(&["a", "b"])]));
        for last in [&["a"][..], &["b", "a"], &["a", "b", "b"], &[]] {
            assert!(!holds(Conversation::default(), &[add("a"), add("b"), turns(last)]), "{last:?}");
        }
    }

    #[test]
    fn a_key_names_one_job() {
        let [one, other] = ["1", "2"].map(|job| (Submit, job.to_owned()));
        assert!(holds(Key::default(), &[one.clone(), one.clone()]));
        assert!(!holds(Key::default(), &[one, other]));
    }
}
