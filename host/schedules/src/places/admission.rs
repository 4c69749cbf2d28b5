//! Permits: never more at once than there are, and all back at their start, also when callers leave while
//! they wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::future::{block_on, spawn};

use super::admission::Admission;
use crate::locks::point;
use crate::time::{Duration, timeout};

const PERMITS: usize = 2;
const CALLERS: usize = 4;

pub(crate) fn scenario() {
    block_on(async {
        let (admission, running) = (Admission::new(PERMITS), Arc::new(AtomicUsize::new(0)));
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (admission, running) = (admission.clone(), running.clone());
                spawn(async move {
                    let Ok(permit) = timeout(Duration::from_secs(5), admission.acquire()).await else {
                        return;
                    };
                    let others = running.fetch_add(1, Ordering::SeqCst);
                    assert!(others < PERMITS, "{} run at once", others + 1);
                    point();
                    running.fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                })
            })
            .collect();
        admission.available().await;
        for caller in callers {
            assert!(caller.await.is_ok());
        }
        assert_eq!((admission.in_use(), admission.waiting()), (0, 0), "nothing is left behind");
        assert!(admission.is_available());
    });
}
