//! Single flight: a caller is answered by an execution that had not ended when it came, and an execution that
//! nobody waits for is dropped.

use std::sync::Arc;

use futures::FutureExt as _;
use shuttle::future::{block_on, spawn, yield_now};

use super::single_flight::SingleFlight;
use crate::Mutex;
use crate::time::{Duration, timeout};

const CALLERS: usize = 3;

/// How many executions have begun, and which have ended.
#[derive(Default)]
struct Executions {
    begun: usize,
    ended: Vec<usize>,
}

pub(crate) fn scenario() {
    block_on(async {
        let flights = Arc::new(SingleFlight::<usize>::default());
        let executions = Arc::new(Mutex::new(Executions::default()));
        let callers: Vec<_> =
            (0..CALLERS).map(|_| spawn(call(flights.clone(), executions.clone()))).collect();
        for caller in callers {
            assert!(caller.await.is_ok());
        }
        assert_eq!(Arc::strong_count(&executions), 1, "no execution is left behind");
    });
}

async fn call(flights: Arc<SingleFlight<usize>>, executions: Arc<Mutex<Executions>>) {
    // Two calls, one after the other.
    for _ in 0..2 {
        let ended_before = executions.lock().ended.clone();
        let work = |executions: Arc<Mutex<Executions>>| execute(executions).boxed();
        let (waiter, _joined) = flights.join_or_begin("key", executions.clone(), work);
        // Who does not wait any more leaves it to the others.
        if let Ok(answer) = timeout(Duration::from_secs(1), waiter).await {
            assert!(!ended_before.contains(&answer), "execution {answer} had ended when this caller came");
        }
    }
}

async fn execute(executions: Arc<Mutex<Executions>>) -> usize {
    let number = {
        let mut all = executions.lock();
        all.begun += 1;
        all.begun
    };
    yield_now().await;
    executions.lock().ended.push(number);
    number
}
