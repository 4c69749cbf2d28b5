//! A claimed conversation: renewed while its run goes on, given back whatever becomes of that.

use std::sync::Arc;
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::ports::conversations::LEASE;
use agent_core::ports::{
    ClaimResult, ClaimTerms, ConversationClaim, ConversationError, ConversationStore, Renewal, Spawn,
    TurnsResult,
};
use agent_core::words::{ConversationKey, Turn};
use boxed_async::boxed_async;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::refusal::ConversationRefusal;
use super::turns::appended;
use crate::held_lease::{HeldLease, LeaseClaim, RenewalTerms};
use crate::invariants;

/// Three renewals fit into a lease, however slow they are. A run goes on when its lease is lost: it is paid
/// for, and its turn is refused if somebody else has appended one.
const TERMS: RenewalTerms =
    RenewalTerms { lease: LEASE, every: Duration::from_secs(5), in_step_since: None, stop_before: None };

/// How long one write of a turn may take.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// How often a turn is written while the store fails: its run is paid for already.
const WRITES: u32 = 5;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// A conversation that a run holds. Dropped, it gives the claim back in a task of its own.
pub struct Held {
    lease: HeldLease<Claim>,
    /// What was said until the claim, the oldest turn first.
    pub(super) turns: Vec<Turn>,
}

/// A conversation of a user, as one owner claims it.
pub(super) struct Claim {
    pub(super) store: Arc<dyn ConversationStore>,
    pub(super) user_id: String,
    pub(super) id: String,
    pub(super) owner: String,
}

impl Claim {
    fn key(&self) -> ConversationKey<'_> {
        ConversationKey::conversation(&self.user_id, &self.id)
    }

    pub(super) async fn claim(&self) -> ClaimResult {
        self.store.claim(self.key(), &self.owner, ClaimTerms::default()).await
    }

    async fn settle(&self, turns: &[Turn]) -> TurnsResult<bool> {
        let settled = timeout(CALL_LIMIT, self.store.settle(self.key(), &self.owner, turns)).await;
        settled.unwrap_or_else(|_elapsed| Err(ConversationError::Store("no answer".into())))
    }
}

#[boxed_async]
impl LeaseClaim for Claim {
    const WHAT: &'static str = "conversation";
    type Error = ConversationError;

    async fn renew(&self) -> TurnsResult<Renewal> {
        self.store.renew(self.key(), &self.owner, LEASE).await
    }

    async fn release(&self) -> TurnsResult {
        self.store.release(self.key(), &self.owner).await
    }
}

impl Held {
    /// The conversation that the store is going to be asked for.
    pub(super) fn new(claim: Claim, spawn: Arc<dyn Spawn>) -> Self {
        Self { lease: HeldLease::new(claim, TERMS, spawn), turns: Vec::new() }
    }

    pub(super) fn claim(&self) -> &Claim {
        self.lease.claim()
    }

    /// The claim was never made.
    pub(super) fn forget(&mut self) {
        self.lease.ended();
    }

    /// What was said until the claim, the oldest turn first.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// What was said before the turn of that id. It is there already when it was appended and its process
    /// died before anybody knew.
    pub fn turns_before(&self, turn_id: &str) -> &[Turn] {
        let end = self.turns.iter().position(|turn| turn.id == turn_id).unwrap_or(self.turns.len());
        self.turns.get(..end).unwrap_or_default()
    }

    /// The claim is renewed until `run` ends.
    pub async fn while_running<T>(&self, run: impl Future<Output = T>) -> T {
        self.lease.while_running(run).await
    }

    /// Appends a turn, unless one of its id is there, and ends the claim in the same step.
    pub async fn append(mut self, turn: Turn) -> Result<(), ConversationRefusal> {
        if self.turns.iter().any(|kept| kept.id == turn.id) {
            self.release().await;
            return Ok(());
        }
        let turn_id = turn.id.clone();
        let was_empty = self.turns.is_empty();
        let turns = appended(std::mem::take(&mut self.turns), turn);
        debug_assert_eq!(invariants::turns(&turns), Ok(()));
        let mut pause = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
        for attempt in 1.. {
            let claim = self.lease.claim();
            match claim.settle(&turns).await {
                Ok(true) => break,
                // The claim was lost, or an attempt was carried out whose answer was.
                Ok(false) => match claim.store.read(claim.key()).await? {
                    Some(kept) if kept.turns.iter().any(|turn| turn.id == turn_id) => break,
                    Some(_) => return Err(ConversationRefusal::Changed),
                    None if was_empty && attempt < WRITES => begin_again(claim).await?,
                    None if was_empty => return Err(ConversationRefusal::Changed),
                    None => {
                        let conversation = &claim.id;
                        info!(
                            conversation,
                            "a turn is not kept: its conversation was deleted during the run"
                        );
                        return Ok(());
                    }
                },
                Err(error) if attempt >= WRITES => {
                    warn!(%error, "a turn of a conversation could not be kept");
                    return Err(error.into());
                }
                Err(error) => debug!(%error, "a turn of a conversation is written again"),
            }
            sleep(pause.next()).await;
        }
        self.lease.ended();
        Ok(())
    }

    /// Writes these turns in place of all that are there, and ends the claim in the same step.
    pub async fn replace(mut self, turns: &[Turn]) -> Result<(), ConversationRefusal> {
        let settled = self.lease.claim().settle(turns).await?;
        self.lease.ended();
        if settled { Ok(()) } else { Err(ConversationRefusal::Changed) }
    }

    /// Gives the claim back as it was.
    pub async fn release(self) {
        self.lease.release().await;
    }
}

/// Claims a conversation once more whose first run this is: what has no turns is removed once its lease has
/// ended.
async fn begin_again(claim: &Claim) -> Result<(), ConversationRefusal> {
    match claim.claim().await? {
        ConversationClaim::Claimed(turns) if turns.is_empty() => Ok(()),
        ConversationClaim::Claimed(_) => Err(ConversationRefusal::Changed),
        ConversationClaim::Busy => Err(ConversationRefusal::Busy),
        ConversationClaim::TooMany => Err(ConversationRefusal::TooMany),
    }
}
