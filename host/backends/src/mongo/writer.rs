//! Writes events, all that wait at once. A write that has to be safe on a majority of the servers takes its
//! time whether it is of one event or of a hundred, so those that come while one is under way share the next.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::iter;

use agent_core::ports::JournalError;
use futures::TryStreamExt as _;
use futures::future::{join, join_all};
use mongodb::Collection;
use mongodb::bson::doc;
use mongodb::error::{ErrorKind, InsertManyError};

use super::documents::EventDocument;
use super::error::{QueryError, answer, refusal, store_error};
use crate::group_commit::{Batches, Bounds, ByteSize};

pub(super) const BOUNDS: Bounds = Bounds { waiting: 256, writes: 256, bytes: 8 << 20 };

/// How many runs are remembered; forgetting them costs one check each.
const MOST_REMEMBERED: usize = 10_000;

/// Code of a document whose key is taken.
const DUPLICATE_KEY: i32 = 11_000;

/// Consecutive events of a run.
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
        let checks = appends.iter().map(|append| self.check_predecessor(&append.first));
        let mut outcomes = join_all(checks).await;
        let good = appends.iter().zip(outcomes.iter_mut()).filter(|(_, outcome)| outcome.is_ok());
        let (singles, several): (Vec<_>, Vec<_>) = good.partition(|(append, _)| append.rest.is_empty());
        let several = several.into_iter().map(|(append, outcome)| async move {
            *outcome = self.insert_in_order(append).await;
        });
        join(self.insert_singles(singles), join_all(several)).await;
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

    /// Inserts the events of appends of one each, all together: each write takes its time whether it is of
    /// one event or of a hundred.
    async fn insert_singles(&self, singles: Vec<(&Append, &mut Appended)>) {
        let (documents, slots): (Vec<_>, Vec<_>) =
            singles.into_iter().map(|(append, slot)| (&append.first, slot)).unzip();
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

    /// Inserts the events of one append with one command, in their order: the server writes none whose
    /// predecessor it did not write. So an append that arrives late ends where a later claim has begun, and
    /// this process cannot die in the middle of it. Events that an earlier try has stored are passed over.
    async fn insert_in_order(&self, append: &Append) -> Appended {
        let documents: Vec<_> = iter::once(&append.first).chain(&append.rest).collect();
        let mut left = documents.as_slice();
        while !left.is_empty() {
            let inserted = answer(self.events.insert_many(left.iter().copied()).into_future()).await;
            let Err(error) = inserted else { return Ok(()) };
            let first = partial(&error).and_then(|refused| refused.write_errors.as_ref()?.first());
            let Some((index, code)) = first.map(|first| (first.index, first.code)) else {
                return Err(error.into());
            };
            if code != DUPLICATE_KEY {
                return Err(store_error(refusal(code)));
            }
            let Some(refused @ [taken, ..]) = left.get(index..) else { return Err(error.into()) };
            let own = match self.count_stored(refused).await? {
                0 => {
                    self.compare(taken).await?;
                    1
                }
                own => own,
            };
            left = refused.get(own..).unwrap_or_default();
        }
        Ok(())
    }

    /// How many of these consecutive events, counted from the first, stand in the journal.
    async fn count_stored(&self, documents: &[&EventDocument]) -> Result<usize, JournalError> {
        let [first, .., last] = documents else { return Ok(0) };
        let reading = async {
            let found = self.events.find(first.range_to(last)).sort(doc! { "_id": 1 }).await?;
            found.try_collect::<Vec<_>>().await
        };
        let found = answer(reading).await?;
        Ok(found.iter().zip(documents).take_while(|(found, document)| found == *document).count())
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
    /// An equal one of another claim is a conflict, or two workers could begin one run. An event that nobody
    /// reads, because it stands behind one of a later claim (`documents.rs`), gives its place to this one.
    async fn compare(&self, document: &EventDocument) -> Appended {
        match answer(self.events.find_one(document.key()).into_future()).await? {
            Some(there) if there == *document => Ok(()),
            Some(there) if there.is_later_than(document) => Err(document.fenced()),
            Some(there) if document.is_later_than(&there) => self.replace_left_over(&there, document).await,
            Some(_) | None => Err(document.conflict()),
        }
    }

    /// Puts a document in the place of one of an earlier claim, if the event before that is of a later claim
    /// than it: a worker that was replaced wrote it too late. Only an earlier claim's is replaced, whoever
    /// else writes there meanwhile.
    async fn replace_left_over(&self, there: &EventDocument, document: &EventDocument) -> Appended {
        let Some(predecessor) = document.predecessor() else { return Err(document.conflict()) };
        let last = answer(self.events.find_one(predecessor).into_future()).await?;
        let Some(last) = last.filter(|last| last.is_later_than(there)) else {
            return Err(document.conflict());
        };
        if last.is_later_than(document) {
            return Err(document.fenced());
        }
        let replaced = self.events.replace_one(document.key_of_earlier(), document);
        match answer(replaced.into_future()).await?.matched_count {
            0 => Err(document.conflict()),
            _ => Ok(()),
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
