//! Which kills are made: what each job does, and when its worker is killed. The plan is a function of the
//! seed alone.
//!
//! Aims are dealt like cards: each store gets every aim of the deck once, in an order of its own, before it
//! gets any twice. An aim is only that: the worker is killed a random while after the moment that was aimed
//! at was seen from outside, and `place.rs` says from the journal where that was.

use std::collections::BTreeMap;
use std::time::Duration;

use acceptance::Random;

/// How long the model takes for a reply, and a tool for its answer.
pub(super) const REPLY_TIME: Duration = Duration::from_millis(30);
pub(super) const CALL_TIME: Duration = Duration::from_millis(30);

/// How many kills of one store are under way at a time: most of the time is spent waiting for leases to end.
pub(super) const LANES_PER_STORE: usize = 2;

/// Most steps with tools before and behind the one that is aimed at.
const MOST_STEPS_BESIDE: u64 = 2;

/// Where jobs, runs and journals are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoreKind {
    /// All in one SQLite file.
    Sqlite,
    /// All in PostgreSQL.
    Postgres,
    /// Jobs on Redis, runs in a SQLite file.
    Redis,
    /// Jobs on Redis, runs in a document store.
    Mongo,
}

/// What a reply of the model asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StepKind {
    /// One call of a tool that is read-only: it may be made again.
    Look,
    /// One call of a tool that acts: it must not be made twice.
    Act,
    /// Three calls at once, of which the second acts.
    Several,
    /// A script that looks and then acts (`run_code`).
    Script,
    /// A tool that asks somebody twice in the middle of its call.
    Ask,
    /// A child run that looks and acts in one reply.
    Child,
    /// Nothing: it is the answer of the run.
    Answer,
}

/// A call of a job: of which reply, which of its calls, and which of those that this one comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallAt {
    pub(crate) step: usize,
    pub(crate) index: usize,
    pub(crate) nested: Option<usize>,
}

/// What is seen from outside before the worker is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The job was accepted.
    Accepted,
    /// The model was asked for the step.
    Asked,
    /// The model replied.
    Replied,
    /// A tool of the step was called.
    Called,
    /// The tool answered.
    Returned,
    /// The job waits for somebody to approve a call of the step.
    Parked,
    /// Two are deciding about a call of the step.
    Decided,
}

/// Who goes on with the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heir {
    /// A process at another address.
    Other,
    /// A process at the killed one's address, started again.
    Restarted,
}

/// Which versions of the service die and go on with the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Versions {
    /// There is one only.
    Same,
    /// The old one dies, the new one goes on: what an upgrade is.
    OldThenNew,
    /// The new one dies, an old one goes on that has been running since before: what half an upgrade is.
    NewThenOld,
}

/// One kill that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedKill {
    /// Number of the kill in the plan, from 0.
    pub(crate) number: usize,
    pub(crate) store: StoreKind,
    pub(crate) heir: Heir,
    pub(crate) versions: Versions,
    /// What the job does; the last step is the answer.
    pub(crate) steps: Vec<StepKind>,
    /// Which of the steps is aimed at.
    pub(crate) target: usize,
    pub(crate) moment: Moment,
    /// How long after that moment.
    pub(crate) delay: Duration,
    /// Whether every call has to be approved.
    pub(crate) waits: bool,
    /// Whether the tools are swapped meanwhile.
    pub(crate) swaps: bool,
}

#[cfg(test)]
impl PlannedKill {
    /// The seventh, of a job with these steps, while its model is asked.
    pub(super) fn of(steps: &[StepKind]) -> Self {
        Self {
            number: 7,
            store: StoreKind::Redis,
            heir: Heir::Other,
            versions: Versions::Same,
            steps: steps.to_vec(),
            target: 0,
            moment: Moment::Asked,
            delay: Duration::ZERO,
            waits: false,
            swaps: false,
        }
    }
}

/// How many kills, of what and by which chance.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) kills: usize,
    pub(crate) seed: u64,
    pub(crate) stores: Vec<StoreKind>,
    pub(crate) heirs: Vec<Heir>,
    /// Versions of the kills of a lane, over and over.
    pub(crate) versions: Vec<Versions>,
    /// Whether every call has to be approved.
    pub(crate) waits: bool,
    /// Whether the tools are swapped meanwhile, which changes nothing about what is planned.
    pub(crate) swaps: bool,
}

type Aim = (StepKind, Moment, Heir);

/// The kills of an order.
pub(crate) fn plan(order: &Order) -> Vec<PlannedKill> {
    let mut random = Random::seeded(order.seed);
    let mut decks = BTreeMap::<_, Vec<Aim>>::new();
    (0..order.kills)
        .map(|number| {
            let store = order.stores[number % order.stores.len()];
            let turn = number / order.stores.len() / LANES_PER_STORE;
            let versions = order.versions[turn % order.versions.len()];
            let deck = decks.entry((store, versions)).or_default();
            if deck.is_empty() {
                *deck = shuffled(every_aim(versions.heirs(&order.heirs), order.waits), &mut random);
            }
            let aim = deck.pop().expect("a deck that was dealt anew");
            let Order { waits, swaps, .. } = *order;
            PlannedKill { waits, swaps, ..planned(number, store, versions, aim, &mut random) }
        })
        .collect()
}

/// A deck: every aim once.
fn every_aim(heirs: &[Heir], waits: bool) -> Vec<Aim> {
    use Moment::{Accepted, Asked, Called, Decided, Parked, Replied, Returned};
    use StepKind::{Act, Answer, Ask, Child, Look, Script, Several};
    // What waits in its middle is part of runs that can wait.
    let within: &[StepKind] = if waits { &[Script, Ask, Child] } else { &[] };
    let calling = || [Look, Act, Several].iter().chain(within).copied();
    let of_model = calling().chain([Answer]).flat_map(|kind| [(kind, Asked), (kind, Replied)]);
    let of_tools = calling().filter(|kind| *kind != Ask);
    let of_tools = of_tools.flat_map(|kind| [(kind, Called), (kind, Returned)]);
    let of_waits = calling().flat_map(|kind| [(kind, Parked), (kind, Decided)]).filter(|_| waits);
    let aims: Vec<_> = of_model.chain(of_tools).chain([(Answer, Accepted)]).chain(of_waits).collect();
    heirs.iter().flat_map(|heir| aims.iter().map(|(kind, moment)| (*kind, *moment, *heir))).collect()
}

fn shuffled<T>(mut cards: Vec<T>, random: &mut Random) -> Vec<T> {
    for last in (1..cards.len()).rev() {
        let other = random.below(last as u64 + 1);
        cards.swap(last, usize::try_from(other).expect("an index of the deck"));
    }
    cards
}

fn planned(
    number: usize,
    store: StoreKind,
    versions: Versions,
    (kind, moment, heir): Aim,
    random: &mut Random,
) -> PlannedKill {
    let some_steps = |most: u64, random: &mut Random| -> Vec<StepKind> {
        let kinds = [StepKind::Look, StepKind::Act, StepKind::Several];
        (0..random.below(most + 1)).map(|_| random.pick(&kinds)).collect()
    };
    let mut steps = some_steps(MOST_STEPS_BESIDE, random);
    let target = steps.len();
    if kind != StepKind::Answer {
        steps.push(kind);
        steps.extend(some_steps(MOST_STEPS_BESIDE - 1, random));
    }
    steps.push(StepKind::Answer);
    let delay = Duration::from_micros(random.below(most_delay(moment)));
    PlannedKill { number, store, heir, versions, steps, target, moment, delay, waits: false, swaps: false }
}

/// In microseconds. Longer than the step takes, so that its end and what is written behind it are met as
/// well.
fn most_delay(moment: Moment) -> u64 {
    let time = match moment {
        Moment::Accepted => Duration::from_millis(15),
        Moment::Asked => REPLY_TIME * 6 / 5,
        Moment::Called => CALL_TIME * 6 / 5,
        Moment::Replied | Moment::Returned => Duration::from_millis(8),
        // A decision is three writes, and the claim behind it another one.
        Moment::Parked | Moment::Decided => Duration::from_millis(40),
    };
    u64::try_from(time.as_micros()).expect("some milliseconds")
}

impl StoreKind {
    pub(crate) const ALL: [Self; 4] = [Self::Sqlite, Self::Postgres, Self::Redis, Self::Mongo];

    /// As the command line and the table name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::Mongo => "mongo",
        }
    }
}

impl Versions {
    /// As often one way as the other. Whoever is old has to be started before whoever is new (`beside.rs`),
    /// so that each [`Self::OldThenNew`] is the last kill on its stores: the first here is of a database that
    /// no new one has migrated yet.
    pub(crate) const BOTH_WAYS: [Self; 4] =
        [Self::OldThenNew, Self::NewThenOld, Self::NewThenOld, Self::OldThenNew];

    /// As the table names them.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Same => "same version",
            Self::OldThenNew => "old dies, new ends the job",
            Self::NewThenOld => "new dies, old ends the job",
        }
    }

    /// Of these, those that there can be. An old one may refuse to start on what a new one has migrated: it
    /// has to run already.
    fn heirs(self, heirs: &[Heir]) -> &[Heir] {
        if self == Self::NewThenOld { &[Heir::Other] } else { heirs }
    }
}

impl StepKind {
    /// The tool that each of its calls names, in the reply's order.
    pub(crate) fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Look => &["look"],
            Self::Act => &["act"],
            Self::Several => &["look", "act", "look"],
            Self::Script => &["run_code"],
            Self::Ask => &["order"],
            Self::Child => &["run_agent"],
            Self::Answer => &[],
        }
    }

    /// The tools that such a call comes to: called by its script one after the other, or by its child run.
    pub(crate) fn nested(self) -> &'static [&'static str] {
        match self {
            Self::Script | Self::Child => &["look", "act"],
            Self::Look | Self::Act | Self::Several | Self::Ask | Self::Answer => &[],
        }
    }
}

impl PlannedKill {
    /// The job's query. No other query of the plan has it as a part.
    pub(crate) fn query(&self) -> String {
        format!("chaos-{:07}", self.number)
    }

    /// The number in such a query, or in a child's task.
    pub(crate) fn number_in(text: &str) -> Option<usize> {
        text.strip_prefix("chaos-")?.split('/').next()?.parse().ok()
    }

    /// The step whose child run has that task, `<query>/<step>`; nothing for the query of a job.
    pub(crate) fn step_in(text: &str) -> Option<usize> {
        text.split_once('/')?.1.parse().ok()
    }

    /// Every call of the job that reaches the outside, in the order of the conversation.
    pub(crate) fn calls(&self) -> impl Iterator<Item = CallAt> {
        let outer = self.steps.iter().enumerate().flat_map(|(step, kind)| {
            (0..kind.tools().len()).map(move |index| (*kind, CallAt { step, index, nested: None }))
        });
        outer.flat_map(|(kind, call)| {
            let nested = (0..kind.nested().len()).map(move |number| CallAt { nested: Some(number), ..call });
            let is_outside = !matches!(kind, StepKind::Script | StepKind::Ask | StepKind::Child);
            nested.chain(is_outside.then_some(call))
        })
    }

    /// Whether that call must not be made twice.
    pub(crate) fn acts(&self, call: CallAt) -> bool {
        let kind = self.steps[call.step];
        let tool = call.nested.map_or_else(|| kind.tools()[call.index], |number| kind.nested()[number]);
        tool == "act"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn order(kills: usize, seed: u64) -> Order {
        let heirs = vec![Heir::Other, Heir::Restarted];
        Order {
            kills,
            seed,
            stores: StoreKind::ALL.to_vec(),
            heirs,
            versions: vec![Versions::Same],
            waits: true,
            swaps: false,
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_one_another() {
        let first = plan(&order(200, 7));
        assert_eq!(first, plan(&order(200, 7)));
        assert_ne!(first, plan(&order(200, 8)));
        assert_eq!(first[..50], plan(&order(50, 7)), "more kills begin with the same ones");
        let swapped = plan(&Order { swaps: true, ..order(200, 7) });
        assert!(
            first.iter().zip(swapped).all(|(kill, other)| *kill == PlannedKill { swaps: false, ..other })
        );
    }

    #[test]
    fn every_aim_is_taken_at_every_store_before_any_is_taken_twice() {
        let per_store = every_aim(&order(0, 0).heirs, true).len();
        let kills = plan(&order(per_store * 4, 3));
        for store in StoreKind::ALL {
            let of_store = kills.iter().filter(|kill| kill.store == store);
            let aims: BTreeSet<_> = of_store
                .map(|kill| format!("{:?} {:?} {:?}", kill.steps[kill.target], kill.moment, kill.heir))
                .collect();
            assert_eq!(aims.len(), per_store, "{store:?}: {aims:#?}");
        }
    }

    /// The lanes of a store get its kills in turn.
    #[test]
    fn versions_take_turns_in_each_lane_and_the_old_one_is_never_started_again() {
        let both_ways = Order { versions: Versions::BOTH_WAYS.to_vec(), ..order(16 * 8, 5) };
        let kills = plan(&both_ways);
        for (store, lane) in StoreKind::ALL.into_iter().flat_map(|store| [(store, 0), (store, 1)]) {
            let of_store = kills.iter().filter(|kill| kill.store == store);
            let of_lane: Vec<_> = of_store.skip(lane).step_by(LANES_PER_STORE).collect();
            assert_eq!(of_lane.len(), 16);
            for four in of_lane.chunks(4) {
                let versions: Vec<_> = four.iter().map(|kill| kill.versions).collect();
                assert_eq!(versions, Versions::BOTH_WAYS);
                assert_eq!([four[1].heir, four[2].heir], [Heir::Other; 2]);
            }
        }
        let in_place = |kill: &&PlannedKill| kill.heir == Heir::Restarted;
        assert!(kills.iter().filter(in_place).count() > 5, "upgrades at the same address are among them");
    }

    #[test]
    fn a_job_ends_with_an_answer_and_is_known_by_its_query() {
        for kill in plan(&order(100, 1)) {
            let answers = kill.steps.iter().filter(|kind| **kind == StepKind::Answer).count();
            assert_eq!((answers, kill.steps.last()), (1, Some(&StepKind::Answer)));
            assert!(kill.target < kill.steps.len());
            assert_eq!(PlannedKill::number_in(&kill.query()), Some(kill.number));
        }
    }
}
