//! Workers that look for jobs when there may be one: every job is found, though nobody looks at the table
//! over and over.

use std::sync::Arc;

use shuttle::future::{block_on, spawn};
use shuttle::rand::{Rng as _, thread_rng};

use super::claim_wakeup::ClaimWakeup;
use crate::Mutex;
use crate::locks::point;
use crate::time::Duration;

const JOBS: usize = 3;
const WORKERS: usize = 2;

/// Nobody looks by itself within a scenario.
const INTERVAL: Duration = Duration::from_secs(3_600);

struct Table {
    wakeup: ClaimWakeup,
    jobs: Mutex<Vec<usize>>,
    done: Mutex<usize>,
}

pub(crate) fn scenario() {
    block_on(async {
        let table =
            Arc::new(Table { wakeup: ClaimWakeup::new(), jobs: Mutex::default(), done: Mutex::default() });
        let workers: Vec<_> = (0..WORKERS).map(|_| spawn(work(table.clone()))).collect();
        for job in 0..JOBS {
            // Now and then both workers wait by then.
            while thread_rng().gen_bool(0.9) {
                point();
            }
            table.jobs.lock().push(job);
            table.wakeup.wake();
        }
        for worker in workers {
            assert!(worker.await.is_ok());
        }
        assert!(table.jobs.lock().is_empty());
    });
}

/// As workers of the queue: register, look, wait. Ends when all jobs are done.
async fn work(table: Arc<Table>) {
    loop {
        let woken = table.wakeup.woken();
        if *table.done.lock() == JOBS {
            // The other worker may wait.
            return table.wakeup.wake();
        }
        match table.wakeup.begin(INTERVAL, false) {
            Some(look) => {
                let found = table.jobs.lock().pop();
                match found {
                    Some(_job) => {
                        look.found();
                        *table.done.lock() += 1;
                    }
                    None => look.found_nothing(None),
                }
            }
            None => woken.await,
        }
    }
}
