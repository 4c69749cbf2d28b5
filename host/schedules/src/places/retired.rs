//! A swap of the tool set: a run that began with a version finds it afterwards, as what serves or as what is
//! kept.

use std::sync::Arc;

use shuttle::future::{block_on, spawn};

use super::retired::Swapped;
use crate::component::Component;

const SWAPS: usize = 3;

type Served = Swapped<Vec<Arc<Component>>>;

fn version(number: usize) -> Vec<Arc<Component>> {
    let id = format!("adder@{number}");
    vec![Arc::new(Component { digest: id.clone(), id, name: "adder".to_owned() })]
}

pub(crate) fn scenario() {
    block_on(async {
        let served = Arc::new(Served::new(version(0)));
        let runs: Vec<_> = (0..2).map(|_| spawn(take_up(served.clone()))).collect();
        for number in 1..=SWAPS {
            served.swap(version(number), |components| components);
        }
        for run in runs {
            assert!(run.await.is_ok());
        }
    });
}

/// Begins with the version that serves, and is taken up twice.
async fn take_up(served: Arc<Served>) {
    let digest_of = |components: &[Arc<Component>]| components.first().map(|one| one.digest.clone());
    let Some(began) = digest_of(&served.load()) else { return assert!(digest_of(&served.load()).is_some()) };
    for _ in 0..2 {
        let serves = digest_of(&served.load()).as_ref() == Some(&began);
        let kept = || served.retired().get("adder", &began);
        assert!(serves || kept().is_some(), "{began} serves no longer and is not kept");
    }
}
