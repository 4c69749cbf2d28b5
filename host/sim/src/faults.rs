//! Which faults there are, and which the seed places at which call of a port.
//!
//! A call has a number. Whether a fault hits it is a function of seed and number, so that what hit a
//! simulation is a list, and the simulation can be made again with a part of that list ([`Schedule`]).

pub mod gate;
pub mod mutation;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::deployment::Deployment;

/// What may happen to a call of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    /// How long it lasts, or how far a clock jumps; 0 where there is nothing to be long.
    pub millis: i32,
}

/// What goes wrong at a call, without how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The call fails and nothing is done.
    Refused,
    /// The call is carried out and its caller is told that it failed.
    LostAnswer,
    /// The call takes so much longer before it is carried out.
    Late,
    /// A delay afterwards: until then other readers may see a part of what was written at once.
    SlowAnswer,
    /// The replica dies, and the call was not carried out.
    CrashBefore,
    /// The replica dies, and the call was carried out.
    CrashBehind,
    /// The replica reaches nothing for a while.
    Partition,
    /// The replica's wall clock jumps.
    ClockJump,
    /// The server is restarted, and has lost what it acknowledged within its last second. It hits none that
    /// keeps everything.
    Forgets,
    /// The server's disk is full for a while: it refuses what writes and answers what reads.
    DiskFull,
    /// The first of several things that are written at once is stored, the others are refused. It hits no
    /// store that has all of them or none.
    HalfRefused,
    /// The network has forgotten the connection of the replica to this store for a while: a call has no
    /// answer until its time is up.
    Forgotten,
    /// The statement is carried out later, whatever has become of its caller by then: that one is told of an
    /// error, waits in vain or dies.
    Detached,
    /// Nobody ever answers, and nothing is done: the caller waits as long as it waits for anything.
    Hangs,
    /// The server answers no replica for a while.
    Outage,
}

/// Every kind, and how many milliseconds it lasts at most when it is not one of the rare long ones.
pub const KINDS: [(Kind, i32); 15] = [
    (Kind::Refused, 0),
    (Kind::LostAnswer, 0),
    (Kind::Late, 2_000),
    (Kind::SlowAnswer, 500),
    (Kind::CrashBefore, 0),
    (Kind::CrashBehind, 0),
    (Kind::Partition, 5_000),
    (Kind::ClockJump, 20_000),
    (Kind::Forgets, 0),
    (Kind::DiskFull, 1_500),
    (Kind::HalfRefused, 0),
    (Kind::Forgotten, 8_000),
    (Kind::Detached, 8_000),
    (Kind::Hangs, 0),
    (Kind::Outage, 4_000),
];

impl Fault {
    /// How long the fault lasts, whichever way a clock jumps.
    pub fn length(self) -> Duration {
        Duration::from_millis(self.millis.unsigned_abs().into())
    }
}

/// Faults by the numbers of the calls that they hit.
pub type Schedule = BTreeMap<u64, Fault>;

#[derive(Debug, Clone)]
pub enum Faults {
    Seeded(Profile),
    /// The listed ones and no others.
    Given(Schedule),
}

/// How often which faults hit, drawn for each seed: a simulation with few kinds of faults gets further into
/// what those bring about than one with all of them.
#[derive(Debug, Clone)]
pub struct Profile {
    seed: u64,
    rate: u64,
    weights: [u64; KINDS.len()],
}

/// What a call is for: those that only look are made far more often, and faults there show less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    Poll,
    Step,
    /// Made once or twice in a run: a fault there is worth more.
    Rare,
    /// By a client, whose replica does not die of it.
    Client,
}

/// Which server a call of a port asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    Database,
    /// MongoDB, where a deployment has one.
    Documents,
    Redis,
    /// No store: the provider, the tools, receivers of webhooks.
    Peer,
}

impl Profile {
    pub fn of(seed: u64) -> Self {
        let roll = |salt: u64| mixed(seed, salt);
        let rate = [300, 600, 1_200, 2_000].get(index(roll(1), 4)).copied().unwrap_or(300);
        let mut weights = [0_u64; KINDS.len()];
        let deployment = Deployment::of(seed);
        // Deaths are what most seeds are about; in the others replicas live long enough to be late.
        let is_deadly = !seed.is_multiple_of(4) && !deployment.is_talkative;
        for ((salt, (kind, _)), placed) in (2..).zip(KINDS).zip(&mut weights) {
            let weight: u64 = [0, 1, 2, 8].get(index(roll(salt), 4)).copied().unwrap_or(0);
            *placed = match kind {
                Kind::CrashBefore | Kind::CrashBehind if is_deadly => 3 * weight + 16,
                Kind::CrashBefore | Kind::CrashBehind => weight.div_ceil(2),
                Kind::Forgets if deployment.is_on_redis => weight + 4,
                Kind::HalfRefused if deployment.is_on_mongo => weight + 8,
                Kind::Forgotten | Kind::Hangs | Kind::Outage if deployment.is_talkative => weight.div_ceil(4),
                Kind::Detached => weight + 6,
                Kind::LostAnswer if deployment.is_talkative => weight + 30,
                // What lasts for seconds hits many calls each time.
                Kind::DiskFull | Kind::Partition | Kind::Outage if is_deadly => weight.div_ceil(2),
                Kind::Late | Kind::SlowAnswer | Kind::Partition if !is_deadly => weight + 4,
                _ => weight,
            };
        }
        Self { seed, rate, weights }
    }

    fn fault(&self, call: u64, kind: CallKind) -> Option<Fault> {
        let roll = |salt: u64| mixed(self.seed ^ call.wrapping_mul(0x9e37_79b9_7f4a_7c15), salt);
        let rate = match kind {
            CallKind::Poll => self.rate / 10,
            CallKind::Step | CallKind::Client => self.rate,
            CallKind::Rare => self.rate * 3,
        };
        if roll(10) % 10_000 >= rate {
            return None;
        }
        let mut drawn = roll(11) % self.weights.iter().sum::<u64>();
        let (chosen, most) = KINDS.into_iter().zip(self.weights).find_map(|(of_kind, weight)| {
            let is_it = drawn < weight;
            drawn = drawn.saturating_sub(weight);
            is_it.then_some(of_kind)
        })?;
        let millis = |most: i32| i32::try_from(roll(13) % u64::from(most.unsigned_abs())).unwrap_or(0);
        let millis = match chosen {
            Kind::ClockJump => millis(2 * most) - most,
            _ if most == 0 => 0,
            // Long ones are rare, and longer than any lease.
            _ if roll(12).is_multiple_of(4) => millis(5 * most) + 1,
            _ => millis(most) + 1,
        };
        // Whoever asks does not wait for anything behind the answer.
        let may_hit_client = matches!(chosen, Kind::Refused | Kind::LostAnswer | Kind::Late);
        (kind != CallKind::Client || may_hit_client).then_some(Fault { kind: chosen, millis })
    }
}

impl Faults {
    /// What hits the call of that number.
    pub fn fault(&self, call: u64, kind: CallKind) -> Option<Fault> {
        match self {
            Self::Seeded(profile) => profile.fault(call, kind),
            Self::Given(schedule) => schedule.get(&call).copied(),
        }
    }
}

/// How long a call takes when nothing hits it.
pub fn latency(seed: u64, call: u64) -> Duration {
    Duration::from_millis(mixed(seed ^ call.rotate_left(17), 20) % 4)
}

/// A number that looks random, of two others.
pub fn mixed(seed: u64, salt: u64) -> u64 {
    let mut state = seed.wrapping_add(salt.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

fn index(roll: u64, below: u64) -> usize {
    usize::try_from(roll % below).unwrap_or(0)
}
