//! Bugs that are put in on purpose, one at a time: a simulation that does not find one of them within a
//! minute has too weak a workload.

use clap::ValueEnum;
use run_service::testing::Bug;

use crate::deployment::Deployment;

/// A seeded bug. Each stands in the way between the service and a reference store, and makes the store break
/// one promise of its port, or the service forget one of its duties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mutation {
    /// The renewal of a job's lease is skipped, and the worker is told that it holds it.
    RenewalSkipped,
    /// The queue gives a job away that somebody holds.
    ClaimGivenTwice,
    /// Every claim has the same epoch.
    EpochStandsStill,
    /// The journal does not compare epochs.
    EpochNotCompared,
    /// A decision is appended although the journal has grown since it was read.
    DecisionNotFenced,
    /// Two decisions that are alike cannot be told apart.
    NonceDropped,
    /// An append that is repeated is appended once more.
    AppendRepeated,
    /// The queue says of every claim that there was none before.
    ClaimsForgotten,
    /// The beginning of a call that must not be repeated is not written.
    StartNotWritten,
    /// A journal is read without its last event.
    ReadBehind,
    /// The end of an attempt is taken from whoever tells it.
    SettleNotFenced,
    /// A job that is resumed stays where it is.
    ResumeLost,
    /// A conversation is written by whoever wants to.
    TurnNotFenced,
    /// A conversation that somebody holds is given to the next one.
    ConversationGivenTwice,
    /// The last events of a run are dropped on their way to the journal.
    LastEventsDropped,
    /// A webhook counts as delivered once it was claimed.
    WebhookDropped,
    /// The webhook of a job that is tried again stays as it was.
    WebhookNotArmed,
    /// A job that is added is forgotten.
    JobDropped,
    /// Each claim of an idempotency key has an id of its own.
    KeyIdChanges,
    /// A server that forgot a claim gives its number to the next one.
    NumbersGivenTwice,
    /// What writes the runs that have ended is told to stop before those who end them.
    FlushedTooSoon,
    // Bugs of the service itself: `Bug` says what they are.
    LostLeaseKept,
    BusyFails,
    EndForgotten,
    EditIgnored,
    StoppedKept,
    CutTaken,
    LimitsForgotten,
}

impl Mutation {
    /// The bug that is put into the service, if it is one of its own.
    pub fn bug(self) -> Option<Bug> {
        Some(match self {
            Self::LostLeaseKept => Bug::LostLeaseKept,
            Self::BusyFails => Bug::BusyFails,
            Self::EndForgotten => Bug::EndForgotten,
            Self::EditIgnored => Bug::EditIgnored,
            Self::StoppedKept => Bug::StoppedKept,
            Self::CutTaken => Bug::CutTaken,
            Self::LimitsForgotten => Bug::LimitsForgotten,
            _ => return None,
        })
    }

    /// Whether it shows where this is deployed: some are about a store or a client that not every seed has.
    pub fn is_about(self, deployment: &Deployment) -> bool {
        match self {
            Self::TurnNotFenced => deployment.is_talkative,
            Self::KeyIdChanges | Self::NonceDropped | Self::WebhookNotArmed => deployment.is_over_http,
            Self::NumbersGivenTwice => deployment.is_on_redis,
            Self::LimitsForgotten => deployment.is_tight,
            _ => true,
        }
    }
}
