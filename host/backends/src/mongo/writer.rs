//! Writes events, all that wait at once. A write that has to be safe on a majority of the servers takes its
//! time whether it is of one event or of a hundred, so those that come while one is under way share the next.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};

use agent_core::ports::JournalError;
use futures::future::join_all;
use mongodb::Collection;
use mongodb::error::{ErrorKind, InsertManyError};

use super::documents::EventDocument;
use super::error::{QueryError, answer, refusal, store_error};
use crate::group_commit::{Batches, Bounds, ByteSize};

pub(super) const BOUNDS: Bounds = Bounds { waiting: 256, writes: 256, bytes: 8 << 20 };

/// How many runs are remembered; forgetting them costs one check each.
const MOST_REMEMBERED: usize = 10_000;

/// Code of a document whose key is taken.
const DUPLICATE_KEY: i32 = 11_000;

/// Consecutive events of a run. The first one decides about all of them: journals have no gaps, because none
/// is written whose predecessor is missing, so where its number was free the others' are.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) first: EventDocument,
    pub(super) rest: Vec<EventDocument>,
}

impl ByteSize for Append {
    fn bytes(&self) -> usize {
        self.first.bytes() + self.rest.iter().map(EventDocument::bytes).sum::<usize>()
    }
}

/// What came of an append.
pub(super) type Appended = Result<(), JournalError>;

/// Writes what the runs append.
#[derive(Debug)]
pub(super) struct MongoWriter {
    events: Collection<EventDocument>,
    appends: Batches<Append, Appended>,
    /// Claim and number of the next event of runs that were written to last.
    written: Mutex<HashMap<String, (i64, i64)>>,
}

impl MongoWriter {
    pub(super) fn new(events: Collection<EventDocument>, appends: Batches<Append, Appended>) -> Self {
        Self { events, appends, written: Mutex::default() }
    }

    /// Writes until the last clone of the runs is gone and everything they appended is answered.
    pub(super) async fn run(&self) {
        let mut reader = self.appends.reader().await;
        while let Some(batch) = reader.next().await {
            let mut answers = Vec::with_capacity(batch.writes.len());
            let mut left = &*batch.writes;
            while !left.is_empty() {
                let (together, later) = left.split_at(of_different_runs(left));
                answers.extend(self.write(together).await);
                left = later;
            }
            batch.answer(answers);
        }
    }

    /// Writes appends of different runs and says of each, in their order, what became of it.
    async fn write(&self, appends: &[Append]) -> Vec<Appended> {
        let firsts: Vec<_> = appends.iter().map(|append| &append.first).collect();
        let mut outcomes = join_all(firsts.iter().map(|first| self.check_predecessor(first))).await;
        self.insert(&firsts, &mut outcomes).await;
        // Also of appends that are repeated: what was broken off between the two may lack the rest. Those of
        // all appends together, because each write takes its time whether it is of one event or of a hundred.
        let good =
            appends.iter().enumerate().filter(|(index, _)| outcomes.get(*index).is_some_and(Result::is_ok));
        let rest: Vec<_> =
            good.flat_map(|(index, append)| append.rest.iter().map(move |event| (index, event))).collect();
        let mut written = vec![Ok(()); rest.len()];
        self.insert(&rest.iter().map(|(_, event)| *event).collect::<Vec<_>>(), &mut written).await;
        for ((index, _), outcome) in rest.into_iter().zip(written) {
            if let (Err(error), Some(place)) = (outcome, outcomes.get_mut(index)) {
                *place = Err(error);
            }
        }
        for (append, outcome) in appends.iter().zip(&outcomes) {
            if outcome.is_ok() {
                self.note(append);
            }
        }
        outcomes
    }

    /// Refuses a writer that was replaced by a later claim, and one that would write behind a hole: it may
    /// have read an event that a failover has taken back since. Epochs never fall along a journal and it has
    /// no gaps, so where the place of an event is free, the event before it has the highest epoch; where it
    /// is taken, [`Self::compare`] finds out. Only an event whose `_id` is known is asked for: a search among
    /// all of a run takes long.
    async fn check_predecessor(&self, document: &EventDocument) -> Appended {
        let Some(predecessor) = document.predecessor().filter(|_| !self.is_noted(document)) else {
            return Ok(());
        };
        match answer(self.events.find_one(predecessor).into_future()).await? {
            Some(last) if last.is_later_than(document) => Err(document.fenced()),
            Some(_) => Ok(()),
            None => Err(document.conflict()),
        }
    }

    /// Remembers where the run goes on, so that the event before the next append need not be asked for.
    fn note(&self, append: &Append) {
        let mut written = self.written.lock();
        if written.len() >= MOST_REMEMBERED {
            written.clear();
        }
        let (epoch, first) = append.first.position();
        let events = i64::try_from(append.rest.len()).unwrap_or(i64::MAX).saturating_add(1);
        written.insert(append.first.run().to_owned(), (epoch, first.saturating_add(events)));
    }

    /// Whether the event before this one is what this process wrote last to the run, under the same claim: a
    /// majority has it, so no failover takes it back. Should a later claim have appended meanwhile, the
    /// event's key is taken, and [`Self::compare`] refuses it.
    fn is_noted(&self, document: &EventDocument) -> bool {
        self.written.lock().get(document.run()) == Some(&document.position())
    }

    /// Inserts those whose outcome is good so far, and says what became of them.
    async fn insert(&self, documents: &[&EventDocument], outcomes: &mut [Appended]) {
        let good = documents.iter().zip(outcomes.iter_mut()).filter(|(_, outcome)| outcome.is_ok());
        let (documents, slots): (Vec<_>, Vec<_>) =
            good.map(|(document, outcome)| (*document, outcome)).unzip();
        if documents.is_empty() {
            return;
        }
        // Unordered, so that one that cannot be written does not hold up those behind it.
        let inserted =
            answer(self.events.insert_many(documents.iter().copied()).ordered(false).into_future()).await;
        let written = match inserted {
            Ok(_inserted) => return,
            Err(error) => match partial(&error) {
                Some(refused) => self.sort_out(&documents, refused).await,
                None => vec![Err(error.into()); documents.len()],
            },
        };
        for (slot, outcome) in slots.into_iter().zip(written) {
            *slot = outcome;
        }
    }

    /// After a write that failed in part: who was refused, and why.
    async fn sort_out(&self, documents: &[&EventDocument], refused: &InsertManyError) -> Vec<Appended> {
        let refused = refused.write_errors.iter().flatten();
        let codes: HashMap<_, _> = refused.map(|error| (error.index, error.code)).collect();
        let sorted_out =
            documents.iter().enumerate().map(async |(index, document)| match codes.get(&index) {
                None => Ok(()),
                Some(&DUPLICATE_KEY) => self.compare(document).await,
                Some(&code) => Err(store_error(refusal(code))),
            });
        join_all(sorted_out).await
    }

    /// A process that did not hear the answer appends again: what stands under the key is then its own event.
    /// An equal one of another claim is a conflict, or two workers could begin one run.
    async fn compare(&self, document: &EventDocument) -> Appended {
        let there = answer(self.events.find_one(document.key()).into_future()).await?;
        match there {
            Some(there) if there == *document => Ok(()),
            Some(there) if there.is_later_than(document) => Err(document.fenced()),
            Some(_) | None => Err(document.conflict()),
        }
    }
}

/// How many of the first ones are of different runs. The next append of a run is written behind them: its
/// predecessor may be among them.
fn of_different_runs(appends: &[Append]) -> usize {
    let mut runs = HashSet::new();
    appends.iter().take_while(|append| runs.insert(append.first.run())).count()
}

/// Says which documents were refused, if the server has written the others and made them safe.
fn partial(error: &QueryError) -> Option<&InsertManyError> {
    let QueryError::Driver(error) = error else { return None };
    match &*error.kind {
        ErrorKind::InsertMany(refused) if refused.write_concern_error.is_none() => Some(refused),
        _ => None,
    }
}
