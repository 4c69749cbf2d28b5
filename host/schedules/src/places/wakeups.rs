//! Wake-ups of those who wait for jobs: whoever waits for a job that ends here, or elsewhere, hears of it;
//! nothing is left of jobs that nobody waits for.

use std::collections::BTreeSet;
use std::sync::Arc;

use shuttle::future::{block_on, spawn};

use super::wakeups::JobSignals;
use crate::Mutex;
use crate::time::{Duration, timeout};

/// Worked on in this process, and in another one.
const HERE: &str = "1";
const ELSEWHERE: &str = "2";

/// Most wake-ups of one that waits: who is woken without a reason would ask the queue over and over.
const MOST_WAKES: u32 = 4;

/// The queue: which jobs have ended.
type Queue = Arc<Mutex<BTreeSet<&'static str>>>;

pub(crate) fn scenario() {
    block_on(async {
        let (signals, queue) = (JobSignals::default(), Queue::default());
        let mut waiting = vec![];
        for job in [HERE, HERE, ELSEWHERE] {
            waiting.push(spawn(wait(signals.clone(), queue.clone(), job)));
        }
        waiting.push(spawn(look_once(signals.clone(), HERE)));
        let work = {
            let (signals, queue) = (signals.clone(), queue.clone());
            spawn(async move {
                let attempt = signals.begin(HERE, "u1");
                queue.lock().insert(HERE);
                drop(attempt);
            })
        };
        // The queue is followed as soon as somebody wants that: then another process ends its job.
        signals.wanted().await;
        queue.lock().insert(ELSEWHERE);
        signals.notify(ELSEWHERE);
        for task in waiting.into_iter().chain([work]) {
            assert!(task.await.is_ok());
        }
        assert_eq!(signals.len(), 0, "nothing is left behind");
    });
}

/// As `Jobs::read`: watched before it is read, so that nothing happens in between.
async fn wait(signals: JobSignals, queue: Queue, job: &'static str) {
    let mut watcher = signals.subscribe(job);
    let mut wakes = 0;
    while !queue.lock().contains(job) {
        assert!(wakes < MOST_WAKES, "woken {wakes} times, and nothing had happened");
        wakes += 1;
        if job == ELSEWHERE {
            watcher.follow();
        }
        watcher.changed().await;
    }
}

/// A caller that does not wait for long.
async fn look_once(signals: JobSignals, job: &'static str) {
    let mut watcher = signals.subscribe(job);
    let _over = timeout(Duration::from_secs(1), watcher.changed()).await;
}
