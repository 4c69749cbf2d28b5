//! The indexes beside those of ids. They only find, so nothing has to be made before the first write: each is
//! made before it is first needed. An earlier release had indexes of the times alone, `finished_at_1` and
//! `updated_at_1`, which stay: it would make them again while it runs beside this one.

use std::sync::Arc;

use mongodb::bson::{Document, doc};
use mongodb::{Collection, IndexModel};
use tokio::sync::OnceCell;

use super::error::{QueryResult, answer};
use super::time_pages;

/// The field of a record that says when its run ended.
pub(super) const ENDED_AT: &str = "finished_at";

/// Up to how many records an index is made while requests wait for it.
const FEW_RECORDS: u64 = 10_000;

/// The order of each user's records, in which a list of theirs is read: however many others have, none of
/// those is looked at.
fn order_of_users() -> Document {
    doc! { "user_id": 1, ENDED_AT: 1, "_id": 1 }
}

/// The indexes of records that requests need. Clones make them once.
#[derive(Debug, Clone, Default)]
pub(super) struct Indexes(Arc<OnceCell<()>>);

impl Indexes {
    /// Makes them if they are not there. Several processes may at once, and writes go on meanwhile. Where
    /// there are many records, an earlier release has made the index of jobs, and retention makes the other
    /// ones, for which no request waits.
    pub(super) async fn ensure<T: Send + Sync>(&self, records: &Collection<T>) -> QueryResult {
        let made = self.0.get_or_try_init(|| async {
            let mut keys = vec![doc! { "job_id": 1 }];
            if answer(records.estimated_document_count().into_future()).await? <= FEW_RECORDS {
                keys.extend([time_pages::order(ENDED_AT), order_of_users()]);
            }
            make(records, keys).await
        });
        made.await.map(drop)
    }
}

/// The indexes in which retention finds what ended first and last, and those of lists. No request waits for
/// them: an earlier release had none of them, so they may be made over many records.
#[derive(Debug, Default)]
pub(super) struct OrderIndexes(OnceCell<()>);

impl OrderIndexes {
    /// Makes them if they are not there.
    pub(super) async fn ensure(&self, records: &Collection<Document>) -> QueryResult {
        let keys = || vec![time_pages::order(ENDED_AT), doc! { "outcome": 1, ENDED_AT: 1 }, order_of_users()];
        self.0.get_or_try_init(|| make(records, keys())).await.map(drop)
    }
}

/// Makes indexes of these keys, but for those that are there.
pub(super) async fn make<T: Send + Sync>(documents: &Collection<T>, keys: Vec<Document>) -> QueryResult {
    let indexes = keys.into_iter().map(|keys| IndexModel::builder().keys(keys).build());
    answer(documents.create_indexes(indexes).into_future()).await.map(drop)
}
