//! Writes events, all that wait at once. A write that has to be safe on a majority of the servers takes its time
//! whether it is of one event or of a hundred, so those that come while one is under way share the next.

use std::collections::HashMap;

use agent_core::ports::JournalError;
use futures::future::join_all;
use mongodb::Collection;
use mongodb::error::{ErrorKind, InsertManyError};

use super::documents::EventDocument;
use super::error::{QueryError, answer, refusal, store_error};
use crate::group_commit::{Batches, Bounds};

pub(super) const BOUNDS: Bounds = Bounds { waiting: 256, writes: 256, bytes: 8 << 20 };

/// Code of a document whose key is taken.
const DUPLICATE_KEY: i32 = 11_000;

/// What came of an event.
pub(super) type Appended = Result<(), JournalError>;

/// Writes what the runs append.
#[derive(Debug)]
pub(super) struct MongoWriter {
    events: Collection<EventDocument>,
    appends: Batches<EventDocument, Appended>,
}

impl MongoWriter {
    pub(super) fn new(events: Collection<EventDocument>, appends: Batches<EventDocument, Appended>) -> Self {
        Self { events, appends }
    }

    /// Writes until the last clone of the runs is gone and everything they appended is answered.
    pub(super) async fn run(&self) {
        let mut reader = self.appends.reader().await;
        while let Some(batch) = reader.next().await {
            let answers = self.write(&batch.writes).await;
            batch.answer(answers);
        }
    }

    /// Writes them and says of each, in their order, what became of it.
    async fn write(&self, documents: &[EventDocument]) -> Vec<Appended> {
        // Unordered, so that one that cannot be written does not hold up those behind it.
        match answer(self.events.insert_many(documents).ordered(false).into_future()).await {
            Ok(_inserted) => vec![Ok(()); documents.len()],
            Err(error) => match partial(&error) {
                Some(refused) => self.sort_out(documents, refused).await,
                None => vec![Err(error.into()); documents.len()],
            },
        }
    }

    /// After a write that failed in part: who was refused, and why.
    async fn sort_out(&self, documents: &[EventDocument], refused: &InsertManyError) -> Vec<Appended> {
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

    /// A process that did not hear the answer appends again: what stands under the key is then its own event. An equal
    /// one of another process is a conflict, or two workers could begin one run.
    async fn compare(&self, document: &EventDocument) -> Appended {
        let there = answer(self.events.find_one(document.key()).into_future()).await?;
        if there.as_ref() == Some(document) { Ok(()) } else { Err(document.conflict()) }
    }
}

/// Says which documents were refused, if the server has written the others and made them safe.
fn partial(error: &QueryError) -> Option<&InsertManyError> {
    let QueryError::Driver(error) = error else { return None };
    match &*error.kind {
        ErrorKind::InsertMany(refused) if refused.write_concern_error.is_none() => Some(refused),
        _ => None,
    }
}
