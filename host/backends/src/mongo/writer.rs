//! Writes events, all that wait at once. A write that has to be safe on a majority of the servers takes its time
//! whether it is of one event or of a hundred, so those that come while one is under way share the next.

use std::collections::HashMap;

use agent_core::ports::JournalError;
use futures::future::join_all;
use mongodb::Collection;
use mongodb::error::{ErrorKind, InsertManyError};
use tokio::sync::{mpsc, oneshot};

use super::documents::EventDocument;
use super::fault::{Fault, answer, refusal, store_error};

/// Most events of one write, and most that wait for the next; who comes then waits for room.
pub(super) const MOST_AT_ONCE: usize = 256;

/// The size at which a write is closed, in bytes, so that long texts do not make one that takes too long.
const ENOUGH_BYTES: usize = 8 << 20;

/// Code of a document whose place is taken.
const DUPLICATE_KEY: i32 = 11_000;

/// An event that waits to be written, and who waits for that.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) document: EventDocument,
    pub(super) done: Done,
}

/// Tells whoever waits for an event what became of it.
type Done = oneshot::Sender<Result<(), JournalError>>;

/// Writes what the runs append.
#[derive(Debug)]
#[must_use = "nothing is written unless it runs"]
pub struct MongoWriter {
    events: Collection<EventDocument>,
    appends: mpsc::Receiver<Append>,
}

impl MongoWriter {
    pub(super) fn new(events: Collection<EventDocument>, appends: mpsc::Receiver<Append>) -> Self {
        Self { events, appends }
    }

    /// Writes until the last clone of the runs is gone and everything they appended is answered.
    pub async fn run(mut self) {
        while let Some(first) = self.appends.recv().await {
            let (documents, waiting) = self.gather(first);
            let answers = self.write(&documents).await;
            for (done, answer) in waiting.into_iter().zip(answers) {
                let _nobody_waits_any_more = done.send(answer);
            }
        }
    }

    /// What waits now, as much as one write takes.
    fn gather(&mut self, first: Append) -> (Vec<EventDocument>, Vec<Done>) {
        let (mut documents, mut waiting) = (Vec::new(), Vec::new());
        let (mut bytes, mut next) = (0, Some(first));
        while let Some(Append { document, done }) = next {
            bytes += document.bytes();
            documents.push(document);
            waiting.push(done);
            let is_full = documents.len() >= MOST_AT_ONCE || bytes >= ENOUGH_BYTES;
            next = if is_full { None } else { self.appends.try_recv().ok() };
        }
        (documents, waiting)
    }

    /// Writes them and says of each, in their order, what became of it.
    async fn write(&self, documents: &[EventDocument]) -> Vec<Result<(), JournalError>> {
        // Unordered, so that one that cannot be written does not hold up those behind it.
        match answer(self.events.insert_many(documents).ordered(false).into_future()).await {
            Ok(_inserted) => vec![Ok(()); documents.len()],
            Err(fault) => match partial(&fault) {
                Some(refused) => self.sort_out(documents, refused).await,
                None => vec![Err(fault.into()); documents.len()],
            },
        }
    }

    /// After a write that failed in part: who was refused, and why.
    async fn sort_out(
        &self,
        documents: &[EventDocument],
        refused: &InsertManyError,
    ) -> Vec<Result<(), JournalError>> {
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

    /// Whoever did not hear the answer appends again; what already stands there is then their own event.
    async fn compare(&self, document: &EventDocument) -> Result<(), JournalError> {
        let there = answer(self.events.find_one(document.place()).into_future()).await?;
        if there.as_ref() == Some(document) { Ok(()) } else { Err(document.conflict()) }
    }
}

/// Says which documents were refused, if the server has written the others and made them safe.
fn partial(fault: &Fault) -> Option<&InsertManyError> {
    let Fault::Driver(error) = fault else { return None };
    match &*error.kind {
        ErrorKind::InsertMany(refused) if refused.write_concern_error.is_none() => Some(refused),
        _ => None,
    }
}
