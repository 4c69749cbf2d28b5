//! Claim, lease, epoch, park and decide as a model: two workers and two deciders around one job, whose only
//! call has to be approved and must not be repeated. `stateright` goes through every order of their steps,
//! with deaths and a lease that runs out, and asks the rules that the simulator asks.

use std::fmt::Debug;

use agent_core::ports::Epoch;
use agent_core::testing::{asks_for, says, shown, task};
use agent_core::words::{
    Deciders, Decision, Event, ToolOutcome, ToolReceipt, ToolReturn, Verdict, Wait, WaitKind,
};
use run_service::invariants;
use serde_json::json;
use stateright::{Checker as _, HasDiscoveries, Model, Property};

/// What the journal and the queue compare. Without one of these the model has to break a rule.
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// An append under an earlier epoch than the last one is refused.
    compares_epochs: bool,
    /// An append is refused where there is an event already.
    compares_places: bool,
    /// The job is told to go on soon before the decision is written.
    arms: bool,
    /// A call is in the journal before it is made.
    announces: bool,
    /// A job that was claimed too early is looked at again.
    looks_again: bool,
}

const HOUSE: Rules =
    Rules { compares_epochs: true, compares_places: true, arms: true, announces: true, looks_again: true };

/// How many states are gone through to find what is wrong.
const MOST_STATES: usize = 400_000;

/// More claims than these are not looked at.
const MOST_CLAIMS: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Note {
    Asked,
    /// Under the epoch that a decision has to name.
    Waiting(u64),
    Decided(usize),
    TakenUp,
    Started,
    Returned,
    Answered,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Job {
    /// Claimed by whichever worker is first.
    #[default]
    Waiting,
    /// By that worker under that epoch.
    Held(usize, u64),
    /// Whether it is armed: then it may be claimed after a while.
    Parked(bool),
    Completed,
}

/// Where a worker is, with the epoch of its claim, and behind how many events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Worker {
    #[default]
    Idle,
    /// With the job, or taking itself for whoever has it.
    Holds(u64, usize),
    /// About to make the call.
    Calls(u64, usize),
    /// Behind the call, which has acted.
    Called(u64, usize),
    /// About to park the job, to be looked at again or not.
    Parks(u64, usize, bool),
    /// At the end of its attempt; the job waits.
    Looks(usize),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Decider {
    #[default]
    Idle,
    Found(Append),
    /// The job goes on soon.
    Armed(Append),
    /// The decision is in the journal, by it or another one.
    Wrote,
    Gone,
}

/// A decision on its way to the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Append {
    place: usize,
    epoch: u64,
    by: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct State {
    job: Job,
    claims: u64,
    journal: Vec<(u64, Note)>,
    workers: [Worker; 2],
    deciders: [Decider; 2],
    /// Decisions that the store carries out when whoever sent them has died.
    late: Vec<Append>,
    acted: u32,
    deaths: u32,
    expiries: u32,
    arrived_late: bool,
    was_fenced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Claim(usize),
    Work(usize),
    Decide(usize),
    KillWorker(usize),
    KillDecider(usize),
    LeaseExpires,
    Arrives(usize),
}

impl State {
    fn has(&self, wanted: impl Fn(&Note) -> bool) -> bool {
        self.journal.iter().any(|(_, note)| wanted(note))
    }

    fn is_decided(&self) -> bool {
        self.has(|note| matches!(note, Note::Decided(_)))
    }

    fn append(&mut self, rules: Rules, place: usize, epoch: u64, note: Note) -> bool {
        let last = self.journal.last().map_or(0, |(epoch, _)| *epoch);
        let is_fenced = rules.compares_epochs && epoch < last;
        self.was_fenced |= is_fenced;
        let is_taken = is_fenced || (rules.compares_places && place != self.journal.len());
        if !is_taken {
            self.journal.push((epoch, note));
        }
        !is_taken
    }

    fn settle(&mut self, worker: usize, epoch: u64, to: Job) -> bool {
        let is_held = self.job == Job::Held(worker, epoch);
        if is_held {
            self.job = to;
        }
        is_held
    }

    fn resume(&mut self, at_once: bool) -> bool {
        let is_parked = matches!(self.job, Job::Parked(..));
        if is_parked {
            self.job = if at_once { Job::Waiting } else { Job::Parked(true) };
        }
        is_parked
    }

    /// The next step of a worker that holds the job, or thinks so.
    fn work(&mut self, rules: Rules, who: usize) {
        self.workers[who] = match self.workers[who] {
            Worker::Idle => Worker::Idle,
            Worker::Holds(epoch, read) => self.go_on(rules, who, epoch, read),
            Worker::Calls(epoch, read) => {
                self.acted += 1;
                Worker::Called(epoch, read)
            }
            Worker::Called(epoch, read) => self.write(rules, epoch, read, Note::Returned),
            Worker::Parks(epoch, read, again) => {
                let is_parked = self.settle(who, epoch, Job::Parked(again && rules.looks_again));
                if is_parked { Worker::Looks(read) } else { Worker::Idle }
            }
            Worker::Looks(read) => {
                if self.journal.len() > read {
                    self.resume(true);
                }
                Worker::Idle
            }
        };
    }

    fn write(&mut self, rules: Rules, epoch: u64, read: usize, note: Note) -> Worker {
        let is_written = self.append(rules, read, epoch, note);
        if is_written { Worker::Holds(epoch, read + 1) } else { Worker::Idle }
    }

    fn go_on(&mut self, rules: Rules, who: usize, epoch: u64, read: usize) -> Worker {
        let journal = self.journal.get(..read).unwrap_or_default().to_vec();
        let has = |wanted: fn(&Note) -> bool| journal.iter().any(|(_, note)| wanted(note));
        let is_taken_up = journal.iter().any(|(by, note)| *by == epoch && *note == Note::TakenUp);
        if has(|note| *note == Note::Answered) {
            self.settle(who, epoch, Job::Completed);
            return Worker::Idle;
        }
        if journal.is_empty() {
            return self.write(rules, epoch, read, Note::Asked);
        }
        if !has(|note| matches!(note, Note::Decided(_))) {
            return match journal.last() {
                Some((_, Note::Waiting(of))) => Worker::Parks(epoch, read, *of != epoch),
                _ => self.write(rules, epoch, read, Note::Waiting(epoch)),
            };
        }
        if !is_taken_up {
            return self.write(rules, epoch, read, Note::TakenUp);
        }
        if has(|note| *note == Note::Returned) {
            return self.write(rules, epoch, read, Note::Answered);
        }
        match journal.iter().rfind(|(_, note)| *note == Note::Started) {
            // The model is told that nobody knows what became of it.
            Some((by, _)) if *by != epoch => self.write(rules, epoch, read, Note::Returned),
            Some(_) => Worker::Calls(epoch, read),
            None if rules.announces => self.write(rules, epoch, read, Note::Started),
            None => Worker::Calls(epoch, read),
        }
    }

    fn decide(&mut self, rules: Rules, who: usize) {
        self.deciders[who] = match self.deciders[who] {
            Decider::Idle => match (self.job, self.journal.last()) {
                // Whoever was first may have died before the job was told.
                (Job::Parked(..), Some((_, Note::Decided(_)))) => Decider::Wrote,
                (Job::Parked(..), Some((_, Note::Waiting(epoch)))) => {
                    let append = Append { place: self.journal.len(), epoch: *epoch, by: who };
                    if rules.arms { Decider::Found(append) } else { Decider::Armed(append) }
                }
                _ if self.is_decided() => Decider::Gone,
                _ => Decider::Idle,
            },
            Decider::Found(append) => match self.resume(false) {
                true => Decider::Armed(append),
                false => Decider::Idle,
            },
            Decider::Armed(Append { place, epoch, by }) => {
                match self.append(rules, place, epoch, Note::Decided(by)) {
                    true => Decider::Wrote,
                    false => Decider::Idle,
                }
            }
            // The job may be held by whoever claimed it too early, and is told again then.
            Decider::Wrote if matches!(self.job, Job::Held(..)) => Decider::Wrote,
            Decider::Wrote => {
                self.resume(true);
                Decider::Gone
            }
            Decider::Gone => Decider::Gone,
        };
    }

    /// The journal as the service writes it.
    fn events(&self) -> Vec<Event> {
        let event = |(number, (_, note)): (usize, &(u64, Note))| match note {
            Note::Asked => Event::from(asks_for(&[("1", "pay", json!({}))])),
            Note::Waiting(epoch) => Event::Waiting { waits: vec![wait()], epoch: *epoch },
            Note::Decided(by) => {
                let (by, shown) = (Some(by.to_string()), wait().shown.digest());
                let (at, verdict, nonce) = (number as u64, Verdict::Approve, String::new());
                let decision = Decision { by, at, shown, verdict, nonce };
                Event::Decided { wait: wait().id, decision }
            }
            Note::TakenUp => Event::TakenUp { by: "a".into() },
            Note::Started => Event::ToolsStarted { indexes: vec![0] },
            Note::Returned => {
                let receipt = ToolReceipt::new("pay", ToolOutcome::Ok);
                Event::ToolReturned { index: 0, answer: ToolReturn { content: String::new(), receipt } }
            }
            Note::Answered => Event::from(says("paid")),
        };
        let started = Event::Started { task: task("pay"), tools: "sha256:test".into() };
        std::iter::once(started).chain(self.journal.iter().enumerate().map(event)).collect()
    }
}

fn wait() -> Wait {
    Wait {
        deciders: Deciders { count: 1, own: true, ..Deciders::default() },
        expires_at: u64::MAX,
        ..agent_core::testing::wait("1:1.0", WaitKind::Approval, shown(json!({})))
    }
}

impl Model for Rules {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let may_be_claimed = matches!(state.job, Job::Waiting | Job::Parked(true));
        for who in 0..2 {
            let worker = state.workers[who];
            match worker {
                Worker::Idle if may_be_claimed => actions.push(Action::Claim(who)),
                Worker::Idle => {}
                _ => actions.push(Action::Work(who)),
            }
            if worker != Worker::Idle && state.deaths == 0 {
                actions.push(Action::KillWorker(who));
            }
            let decider = state.deciders[who];
            if decider != Decider::Gone {
                actions.push(Action::Decide(who));
                // Nobody has to decide.
                if state.deaths == 0 || decider == Decider::Idle {
                    actions.push(Action::KillDecider(who));
                }
            }
        }
        // Of a worker that died, or has not renewed it.
        if let Job::Held(by, _) = state.job
            && (state.expiries == 0 || state.workers[by] == Worker::Idle)
        {
            actions.push(Action::LeaseExpires);
        }
        actions.extend((0..state.late.len()).map(Action::Arrives));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Claim(who) => {
                state.claims += 1;
                let (epoch, read) = (state.claims, state.journal.len());
                state.job = Job::Held(who, epoch);
                state.workers[who] = Worker::Holds(epoch, read);
            }
            Action::Work(who) => state.work(*self, who),
            Action::Decide(who) => state.decide(*self, who),
            Action::KillWorker(who) => {
                state.deaths += 1;
                state.workers[who] = Worker::Idle;
            }
            Action::KillDecider(who) => {
                state.deaths += u32::from(state.deciders[who] != Decider::Idle);
                if let Decider::Armed(append) = state.deciders[who] {
                    state.late.push(append);
                }
                state.deciders[who] = Decider::Gone;
            }
            Action::LeaseExpires => {
                let Job::Held(by, _) = state.job else { return None };
                state.expiries += u32::from(state.workers[by] != Worker::Idle);
                state.job = Job::Waiting;
            }
            Action::Arrives(which) => {
                let Append { place, epoch, by } = state.late.remove(which);
                state.arrived_late |= state.append(*self, place, epoch, Note::Decided(by));
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(invariants::FENCED, |_, state: &State| {
                invariants::fencing(state.journal.iter().map(|(epoch, _)| Epoch(*epoch))).is_ok()
            }),
            Property::always(invariants::ONE_DECISION, |_, state: &State| {
                invariants::journal(&state.events()).is_ok()
            }),
            Property::always(invariants::ACTS_ONCE, |_, state: &State| {
                invariants::acted("1.0", state.acted, true).is_ok()
            }),
            Property::always("a job that is decided goes on", |model: &Self, state: &State| {
                let mut actions = vec![];
                model.actions(state, &mut actions);
                actions.retain(|action| model.next_state(state, *action).is_some());
                !actions.is_empty() || !state.is_decided() || state.job == Job::Completed
            }),
            Property::sometimes("a job completes", |_, state: &State| state.job == Job::Completed),
            Property::sometimes("a decision arrives when its sender has died", |_, state: &State| {
                state.arrived_late
            }),
            Property::sometimes("a writer is fenced off", |_, state: &State| state.was_fenced),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.claims <= MOST_CLAIMS
    }
}

#[test]
fn in_every_order_of_claims_deaths_and_decisions_the_rules_hold() {
    let checked = HOUSE.checker().spawn_bfs().join();
    checked.assert_properties();
    assert!(checked.unique_state_count() > 10_000, "{}", checked.unique_state_count());
}

#[test]
fn without_any_of_what_is_compared_a_rule_is_broken() {
    for (rules, broken) in [
        (Rules { compares_epochs: false, compares_places: false, ..HOUSE }, invariants::FENCED),
        (Rules { compares_places: false, ..HOUSE }, invariants::ONE_DECISION),
        (Rules { announces: false, ..HOUSE }, invariants::ACTS_ONCE),
        (Rules { arms: false, ..HOUSE }, "a job that is decided goes on"),
        (Rules { looks_again: false, ..HOUSE }, "a job that is decided goes on"),
    ] {
        let found = HasDiscoveries::AnyOf([broken].into());
        let checked = rules.checker().finish_when(found).target_state_count(MOST_STATES).spawn_bfs().join();
        assert!(checked.discovery(broken).is_some(), "{rules:?}");
    }
}
