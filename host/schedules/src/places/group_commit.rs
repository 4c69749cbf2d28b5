//! Group commit: each write is in one batch at most, and is answered by what came of it or told that nobody writes.
//! A writer that breaks off is followed by another one. Who opens the shared queue writes into the same batches.

use std::sync::Arc;

use shuttle::future::{block_on, spawn};
use shuttle::rand::{Rng as _, thread_rng};

use super::group_commit::{Batches, Bounds, ByteSize, SharedChannel, Submitter, WriterEnded};
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
        // Those that open it at the same time, each with its writes and a writer that goes on with all.
        let users: Vec<_> = (0..2).map(|user| spawn(open(shared.clone(), stored.clone(), user))).collect();
        let mut opened = vec![];
        for user in users {
            opened.extend(user.await);
        }
        let [one, other] = opened.as_slice() else { return assert_eq!(opened.len(), 2) };
        assert!(Arc::ptr_eq(one, other), "they write into the same batches");
    });
}

async fn open(shared: Shared, stored: Arc<Mutex<Vec<usize>>>, user: usize) -> Arc<Batches<Write, usize>> {
    let (submitter, batches) = shared.open(BOUNDS);
    let writers: Vec<_> = (0..WRITES)
        .map(|write| spawn(submit(submitter.clone(), stored.clone(), user * WRITES + write)))
        .collect();
    drop(submitter);
    let writing = spawn(write(batches.clone(), stored));
    for writer in writers {
        assert!(writer.await.is_ok());
    }
    assert!(writing.await.is_ok());
    batches
}

async fn submit(submitter: Submitter<Write, usize>, stored: Arc<Mutex<Vec<usize>>>, number: usize) {
    match submitter.write(Write(number)).await {
        Ok(answer) => {
            assert_eq!(answer, number, "the answer is that of its own write");
            let times = stored.lock().iter().filter(|stored| **stored == number).count();
            assert_eq!(times, 1, "it is stored once");
        }
        Err(WriterEnded) => {}
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
