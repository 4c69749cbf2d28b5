//! A claimed conversation: renewed while its run goes on, given back whatever becomes of that.

use std::sync::Arc;
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::ports::conversations::LEASE;
use agent_core::ports::{ClaimTerms, ConversationClaim, ConversationError, ConversationStore, Spawn};
use agent_core::words::{ConversationKey, Turn};
use futures::FutureExt as _;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::refusal::ConversationRefusal;
use super::turns::appended;

/// How often a claim is renewed, counted from before the store is asked. Three renewals fit into a lease,
/// however slow they are.
const RENEWAL: Duration = Duration::from_secs(5);

/// How long one renewal may take: less than until the next one.
const RENEWAL_LIMIT: Duration = Duration::from_secs(3);

/// How long any other call of the store may take.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// How often a turn is written while the store fails: its run is paid for already.
const WRITES: u32 = 5;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// A conversation that a run holds. Dropped, it gives the claim back in a task of its own.
pub struct Held {
    store: Arc<dyn ConversationStore>,
    spawn: Arc<dyn Spawn>,
    /// Absent once the claim is given back.
    claim: Option<Claim>,
    /// When the store was asked for the claim: its lease began then or later.
    asked_at: Instant,
    /// What was said until the claim, the oldest turn first.
    pub(super) turns: Vec<Turn>,
}

#[derive(Clone)]
struct Claim {
    user_id: String,
    id: String,
    owner: String,
}

impl Claim {
    fn key(&self) -> ConversationKey<'_> {
        ConversationKey::conversation(&self.user_id, &self.id)
    }
}

impl Held {
    pub(super) fn new(
        store: Arc<dyn ConversationStore>,
        spawn: Arc<dyn Spawn>,
        (user_id, id): (&str, &str),
        owner: &str,
    ) -> Self {
        let claim = Claim { user_id: user_id.to_owned(), id: id.to_owned(), owner: owner.to_owned() };
        Self { store, spawn, claim: Some(claim), asked_at: Instant::now(), turns: Vec::new() }
    }

    /// The claim was never made.
    pub(super) fn forget(&mut self) {
        self.claim = None;
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

    /// The claim is renewed until `run` ends. A renewal that fails costs nothing until the lease ends.
    pub async fn while_running<T>(&self, run: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            ended = run => ended,
            never = self.renew() => match never {},
        }
    }

    async fn renew(&self) -> std::convert::Infallible {
        let mut asked_at = self.asked_at;
        loop {
            sleep_until(asked_at + RENEWAL).await;
            asked_at = Instant::now();
            let Some(claim) = &self.claim else { continue };
            match timeout(RENEWAL_LIMIT, self.store.renew(claim.key(), &claim.owner, LEASE)).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => debug!(conversation = claim.id, "a run has lost its conversation"),
                Ok(Err(error)) => debug!(%error, "the claim of a conversation could not be renewed"),
                Err(_elapsed) => debug!("the claim of a conversation could not be renewed in time"),
            }
        }
    }

    /// Appends a turn, unless one of its id is there, and gives the claim back in the same step.
    pub async fn append(mut self, turn: Turn) -> Result<(), ConversationRefusal> {
        if self.turns.iter().any(|kept| kept.id == turn.id) {
            self.release().await;
            return Ok(());
        }
        let Some(claim) = self.claim.clone() else { return Ok(()) };
        let turn_id = turn.id.clone();
        let was_empty = self.turns.is_empty();
        let turns = appended(std::mem::take(&mut self.turns), turn);
        let mut pause = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
        for attempt in 1.. {
            match self.settle(&claim, &turns).await {
                Ok(true) => {
                    self.claim = None;
                    return Ok(());
                }
                // The claim was lost, or an attempt was carried out whose answer was.
                Ok(false) => match self.store.read(claim.key()).await? {
                    Some(kept) if kept.turns.iter().any(|turn| turn.id == turn_id) => {
                        self.claim = None;
                        return Ok(());
                    }
                    Some(_) => return Err(ConversationRefusal::Changed),
                    None if was_empty && attempt < WRITES => self.begin_again(&claim).await?,
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
        Ok(())
    }

    async fn settle(&self, claim: &Claim, turns: &[Turn]) -> Result<bool, ConversationError> {
        let settled = timeout(CALL_LIMIT, self.store.settle(claim.key(), &claim.owner, turns)).await;
        settled.unwrap_or_else(|_elapsed| Err(ConversationError("no answer".into())))
    }

    /// Claims a conversation once more whose first run this is: what has no turns is removed once its lease
    /// has ended.
    async fn begin_again(&self, claim: &Claim) -> Result<(), ConversationRefusal> {
        match self.store.claim(claim.key(), &claim.owner, ClaimTerms::default()).await? {
            ConversationClaim::Claimed(turns) if turns.is_empty() => Ok(()),
            ConversationClaim::Claimed(_) => Err(ConversationRefusal::Changed),
            ConversationClaim::Busy => Err(ConversationRefusal::Busy),
            ConversationClaim::TooMany => Err(ConversationRefusal::TooMany),
        }
    }

    /// Gives the claim back as it was.
    pub async fn release(mut self) {
        let Some(claim) = self.claim.take() else { return };
        // Dropped from here on, the rest is made by a task.
        let guard = Self {
            claim: Some(claim.clone()),
            store: self.store.clone(),
            spawn: self.spawn.clone(),
            asked_at: self.asked_at,
            turns: vec![],
        };
        release(&*self.store, &claim).await;
        guard.done();
    }

    fn done(mut self) {
        self.claim = None;
    }
}

async fn release(store: &dyn ConversationStore, claim: &Claim) {
    match timeout(CALL_LIMIT, store.release(claim.key(), &claim.owner)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "the claim of a conversation ends with its lease"),
        Err(_elapsed) => debug!("the claim of a conversation ends with its lease"),
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(claim) = self.claim.take() else { return };
        let store = self.store.clone();
        let work = async move { release(&*store, &claim).await };
        self.spawn.spawn("conversation-release", work.boxed());
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("turns", &self.turns.len()).finish_non_exhaustive()
    }
}
