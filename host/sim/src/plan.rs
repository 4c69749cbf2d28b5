//! What a run does: the steps that its model takes, as a function of a number, which is the run's input.

use agent_core::agent_loop::RUN_AGENT;

use crate::deployment::Deployment;
use crate::faults::mixed;

/// The query of the job of a direct call.
pub const CALL: &str = "(calls pay)";

/// How deep its run is stands in the number of a plan from this bit on.
const DEPTH_AT: u32 = 48;

/// What a reply of the model asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// A call that may be repeated.
    Look,
    /// A call that must not be.
    Act,
    /// Three calls at once, of which the second must not be repeated.
    Several,
    /// A call that somebody has to approve, and that must not be repeated.
    Pay,
    /// Two of those at once.
    PayTwice,
    /// A run of its own.
    Child,
    /// Two of those, and between them a call that must not be repeated.
    Children,
    /// A time that has to come.
    Nap,
    /// A question to the user.
    Question,
    /// Nothing: it is the answer.
    Answer,
}

impl StepKind {
    /// The tools of its calls.
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Look => &["look"],
            Self::Act => &["act"],
            Self::Several => &["look", "act", "look"],
            Self::Pay => &["pay"],
            Self::PayTwice => &["pay", "pay"],
            Self::Child => &[RUN_AGENT],
            Self::Children => &[RUN_AGENT, "act", RUN_AGENT],
            Self::Nap => &["wait_until"],
            Self::Question => &["ask_user"],
            Self::Answer => &[],
        }
    }
}

/// The steps of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub number: u64,
    pub steps: Vec<StepKind>,
}

impl Plan {
    pub fn of(seed: u64, number: u64) -> Self {
        let roll = |salt| mixed(seed ^ number.rotate_left(32), salt);
        let deployment = Deployment::of(seed);
        // Who talks much is answered at once.
        let most = if deployment.is_talkative { 1 } else { 4 };
        let of_family = |roll: u64| match roll % 4 {
            // A child of a child begins none.
            0 if number >> DEPTH_AT < 2 => StepKind::Child,
            1 if number >> DEPTH_AT < 2 => StepKind::Children,
            2 => StepKind::Question,
            _ => StepKind::Nap,
        };
        let of_all = |roll: u64| match roll % 7 {
            0 | 3 => StepKind::Look,
            1 | 4 => StepKind::Act,
            2 => StepKind::Several,
            5 => StepKind::Pay,
            _ => StepKind::PayTwice,
        };
        let steps = (0..roll(0) % most).map(|step| match roll(step + 20) % 3 {
            0 if deployment.has_families => of_family(roll(step + 1)),
            _ => of_all(roll(step + 1)),
        });
        Self { number, steps: steps.chain([StepKind::Answer]).collect() }
    }

    /// The plan of the run that a call begins.
    pub fn child(&self, step: usize, index: usize) -> u64 {
        let depth = (self.number >> DEPTH_AT) + 1;
        let drawn = mixed(self.number, 100 * step as u64 + index as u64);
        (depth << DEPTH_AT) | (drawn & ((1 << DEPTH_AT) - 1))
    }

    /// The input of its run.
    pub fn input(&self) -> String {
        format!("plan {}", self.number)
    }

    /// The plan whose input this is.
    pub fn read(seed: u64, input: &str) -> Option<Self> {
        Some(Self::of(seed, input.strip_prefix("plan ")?.parse().ok()?))
    }

    /// The step of that number; behind the last one nothing is asked for.
    pub fn step(&self, number: usize) -> StepKind {
        self.steps.get(number).copied().unwrap_or(StepKind::Answer)
    }

    /// The answer of the run begins with this.
    pub fn answer(&self) -> String {
        format!("done {}.", self.number)
    }
}
