//! Group commit: each write is in one batch at most, and is answered by what came of it or told that nobody
//! writes. A writer that breaks off is followed by another one. Who opens the shared queue writes into the
//! same batches.

use std::collections::BTreeSet;
use std::sync::Arc;

use shuttle::future::{block_on, spawn};
use shuttle::rand::{Rng as _, thread_rng};

use super::group_commit::{Batches, Bounds, ByteSize, SharedChannel, Submitter};
use crate::Mutex;

const BOUNDS: Bounds = Bounds { waiting: 2, writes: 2, bytes: 100 };
const WRITES: usize = 2;

struct Write(usize);

impl ByteSize for Write {
    fn bytes(&self) -> usize {
        8
    }
}

type Shared = Arc<SharedChannel<Write, usize>>;

pub(crate) fn scenario() {
    block_on(async {
        let (shared, stored) = (Shared::default(), Arc::new(Mutex::new(Vec::new())));
        let users: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                spawn(async move { shared.open(BOUNDS) })
            })
            .collect();
        let (mut tasks, mut opened) = (vec![], vec![]);
        for (user, open) in users.into_iter().enumerate() {
            let Ok((submitter, batches)) = open.await else { return assert!(opened.len() == 2) };
            for number in 0..WRITES {
                tasks.push(spawn(submit(submitter.clone(), stored.clone(), user * WRITES + number)));
            }
            tasks.push(spawn(write(batches.clone(), stored.clone())));
            // Held until both have opened the queue: without anybody it is made anew.
            opened.push((submitter, batches));
        }
        if let [(_, one), (_, other)] = opened.as_slice() {
            assert!(Arc::ptr_eq(one, other), "they write into the same batches");
        }
        drop(opened);
        for task in tasks {
            assert!(task.await.is_ok());
        }
        let stored = stored.lock();
        let different: BTreeSet<_> = stored.iter().collect();
        assert_eq!(different.len(), stored.len(), "a write is stored once: {stored:?}");
    });
}

async fn submit(submitter: Submitter<Write, usize>, stored: Arc<Mutex<Vec<usize>>>, number: usize) {
    // Without an answer it may be stored or not.
    if let Ok(answer) = submitter.write(Write(number)).await {
        assert_eq!(answer, number, "the answer is that of its own write");
        let times = stored.lock().iter().filter(|stored| **stored == number).count();
        assert_eq!(times, 1, "it is stored once");
    }
}

/// Writes to the end, by one writer after another: each may break off with a batch in its hands.
async fn write(batches: Arc<Batches<Write, usize>>, stored: Arc<Mutex<Vec<usize>>>) {
    loop {
        let mut reader = batches.reader().await;
        let Some(batch) = reader.next().await else { return };
        if thread_rng().gen_bool(0.2) {
            continue;
        }
        let numbers: Vec<_> = batch.writes.iter().map(|write| write.0).collect();
        assert!(numbers.len() <= BOUNDS.writes);
        stored.lock().extend(&numbers);
        batch.answer(numbers);
    }
}
