//! What a run does: the steps that its model takes, as a function of a number, which is the run's input.

use crate::deployment::Deployment;
use crate::faults::mixed;

/// The query of the job of a direct call.
pub const CALL: &str = "(calls pay)";

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
        const KINDS: [StepKind; 7] = [
            StepKind::Look,
            StepKind::Act,
            StepKind::Several,
            StepKind::Look,
            StepKind::Act,
            StepKind::Pay,
            StepKind::PayTwice,
        ];
        let roll = |salt| mixed(seed ^ number.rotate_left(32), salt);
        // Who talks much is answered at once.
        let most = if Deployment::of(seed).is_talkative { 1 } else { 4 };
        let steps = (0..roll(0) % most).filter_map(|step| {
            KINDS.get(usize::try_from(roll(step + 1) % KINDS.len() as u64).unwrap_or(0)).copied()
        });
        Self { number, steps: steps.chain([StepKind::Answer]).collect() }
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
