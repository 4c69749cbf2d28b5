//! Which faults there are, and which the seed places at which call of a port.
//!
//! A call has a number. Whether a fault hits it is a function of seed and number, so that what hit a
//! simulation is a list, and the simulation can be made again with a part of that list ([`Schedule`]).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::deployment::Deployment;

/// How many kinds of faults there are.
pub const KINDS: usize = 15;

/// What may happen to a call of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The call fails and nothing is done.
    Refused,
    /// The call is carried out and its caller is told that it failed.
    LostAnswer,
    /// The call takes so many milliseconds longer before it is carried out.
    Late(u32),
    /// A delay afterwards: until then other readers may see a part of what was written at once.
    SlowAnswer(u32),
    /// The replica dies, and the call was not carried out.
    CrashBefore,
    /// The replica dies, and the call was carried out.
    CrashBehind,
    /// The replica reaches nothing for so many milliseconds.
    Partition(u32),
    /// The replica's wall clock jumps by so many milliseconds.
    ClockJump(i32),
    /// The server is restarted, and has lost what it acknowledged within its last second. It hits none that
    /// keeps everything.
    Forgets,
    /// The server's disk is full for so many milliseconds: it refuses what writes and answers what reads.
    DiskFull(u32),
    /// The first of several things that are written at once is stored, the others are refused. It hits no
    /// store that has all of them or none.
    HalfRefused,
    /// The network has forgotten the connection of the replica to this store for so many milliseconds: a call
    /// has no answer until its time is up.
    Forgotten(u32),
    /// The statement is carried out so many milliseconds later, whatever has become of its caller by then:
    /// that one is told of an error, waits in vain or dies ([`Parting`]).
    Detached(u32),
    /// Nobody ever answers, and nothing is done: the caller waits as long as it waits for anything.
    Hangs,
    /// The server answers no replica for so many milliseconds.
    Outage(u32),
}

/// What becomes of the caller of a statement that is carried out without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    IsTold,
    Waits,
    Dies,
}

impl Parting {
    /// Of the call of that number.
    pub fn of(call: u64) -> Self {
        match mixed(call, 30) % 3 {
            0 => Self::IsTold,
            1 => Self::Waits,
            _ => Self::Dies,
        }
    }
}

impl Fault {
    pub const KINDS: [&'static str; KINDS] = [
        "refused",
        "lost answer",
        "late",
        "slow answer",
        "crash before",
        "crash behind",
        "partition",
        "clock jump",
        "forgotten second",
        "full disk",
        "half refused",
        "dead connection",
        "detached",
        "hangs",
        "outage",
    ];

    /// Which of [`Self::KINDS`] it is.
    pub fn kind(self) -> usize {
        match self {
            Self::Refused => 0,
            Self::LostAnswer => 1,
            Self::Late(_) => 2,
            Self::SlowAnswer(_) => 3,
            Self::CrashBefore => 4,
            Self::CrashBehind => 5,
            Self::Partition(_) => 6,
            Self::ClockJump(_) => 7,
            Self::Forgets => 8,
            Self::DiskFull(_) => 9,
            Self::HalfRefused => 10,
            Self::Forgotten(_) => 11,
            Self::Detached(_) => 12,
            Self::Hangs => 13,
            Self::Outage(_) => 14,
        }
    }

    /// Whether it does something to more than the call that it hits.
    fn outlasts_call(self) -> bool {
        !matches!(self, Self::Refused | Self::LostAnswer | Self::Late(_) | Self::SlowAnswer(_))
    }

    pub fn name(self) -> &'static str {
        Self::KINDS.get(self.kind()).copied().unwrap_or_default()
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
    weights: [u64; KINDS],
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
        let mut weights = [0_u64; KINDS];
        for (salt, weight) in (2..).zip(&mut weights) {
            *weight = [0, 1, 2, 8].get(index(roll(salt), 4)).copied().unwrap_or(0);
        }
        let deployment = Deployment::of(seed);
        // Deaths are what most seeds are about; in the others replicas live long enough to be late.
        let is_deadly = !seed.is_multiple_of(4) && !deployment.is_talkative;
        for (weight, kind) in weights.iter_mut().zip(Fault::KINDS) {
            *weight = match kind {
                "crash before" | "crash behind" if is_deadly => 3 * *weight + 16,
                "crash before" | "crash behind" => weight.div_ceil(2),
                "forgotten second" if deployment.is_on_redis => *weight + 4,
                "half refused" if deployment.is_on_mongo => *weight + 8,
                "dead connection" | "hangs" | "outage" if deployment.is_talkative => weight.div_ceil(4),
                "detached" => *weight + 6,
                "lost answer" if deployment.is_talkative => *weight + 30,
                // What lasts for seconds hits many calls each time.
                "full disk" | "partition" | "outage" if is_deadly => weight.div_ceil(2),
                "late" | "slow answer" | "partition" if !is_deadly => *weight + 4,
                _ => *weight,
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
        let chosen = self.weights.iter().position(|weight| {
            let is_it = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            is_it
        })?;
        // Long ones are rare, and longer than any lease.
        let long = |most: u32| {
            let most = if roll(12).is_multiple_of(4) { most * 5 } else { most };
            u32::try_from(roll(13) % u64::from(most)).unwrap_or(most) + 1
        };
        let fault = match chosen {
            0 => Fault::Refused,
            1 => Fault::LostAnswer,
            2 => Fault::Late(long(2_000)),
            3 => Fault::SlowAnswer(long(500)),
            4 => Fault::CrashBefore,
            5 => Fault::CrashBehind,
            6 => Fault::Partition(long(5_000)),
            7 => Fault::ClockJump(i32::try_from(roll(14) % 40_000).unwrap_or(0) - 20_000),
            8 => Fault::Forgets,
            9 => Fault::DiskFull(long(1_500)),
            10 => Fault::HalfRefused,
            11 => Fault::Forgotten(long(8_000)),
            12 => Fault::Detached(long(8_000)),
            13 => Fault::Hangs,
            _ => Fault::Outage(long(4_000)),
        };
        // Whoever asks does not wait for anything behind the answer.
        let may_hit_client = !fault.outlasts_call() && !matches!(fault, Fault::SlowAnswer(_));
        (kind != CallKind::Client || may_hit_client).then_some(fault)
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
