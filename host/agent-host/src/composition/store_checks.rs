//! The checks of the stores' settings: made when the service starts, or as soon as a store is there, and
//! again now and then, because settings can be changed and names can lead to another server.

use std::sync::Arc;
use std::time::Duration;

use agent_core::backoff::Backoff;
use agent_core::ports::{StoreCheck, StoreCheckError, StoreFindings};
use futures::future::join_all;
use tokio::time::sleep;

use super::error::WireError;

/// How long to wait before a store that was away is asked again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long to wait after a check that could not be passed, which only an operator can mend.
const UNFIT_PAUSE: Duration = Duration::from_secs(10);

/// How long what was found counts.
const FOUND_PAUSE: Duration = Duration::from_secs(300);

/// The checks, and what they found last. Clones are the same.
#[derive(Clone)]
pub(crate) struct StoreChecks {
    checks: Vec<Arc<dyn StoreCheck>>,
    findings: StoreFindings,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Went {
    Found,
    Away,
    Unfit,
}

impl StoreChecks {
    pub(crate) fn new(checks: Vec<Arc<dyn StoreCheck>>) -> Self {
        Self { checks, findings: StoreFindings::default() }
    }

    /// What was found last.
    pub(crate) fn findings(&self) -> StoreFindings {
        self.findings.clone()
    }

    /// Makes each check once, side by side. A store that is away is left to [`Self::keep_checking`]; one that
    /// must not be used is an error of the start.
    pub(crate) async fn begin(&self) -> Result<(), WireError> {
        let checked =
            join_all(self.checks.iter().map(async |check| (check.store(), check.check().await))).await;
        for (store, found) in checked {
            match found {
                Ok(warnings) => self.findings.set(store, Ok(warnings)),
                Err(StoreCheckError::Away { detail }) => {
                    tracing::warn!(store, detail, "the settings of the store are checked when it answers");
                }
                Err(StoreCheckError::Unfit { problem }) => {
                    return Err(WireError::UnfitStore { store, problem });
                }
            }
        }
        Ok(())
    }

    /// Goes on for ever, with each store at its own pace.
    pub(crate) async fn keep_checking(&self) {
        join_all(self.checks.iter().map(|check| self.keep_checking_one(&**check))).await;
    }

    async fn keep_checking_one(&self, check: &dyn StoreCheck) {
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let pause = match self.check(check).await {
                Went::Found => FOUND_PAUSE,
                Went::Unfit => UNFIT_PAUSE,
                Went::Away => pauses.next(),
            };
            if pause >= UNFIT_PAUSE {
                pauses.reset();
            }
            sleep(pause).await;
        }
    }

    /// What was found before a store went away still holds.
    async fn check(&self, check: &dyn StoreCheck) -> Went {
        match check.check().await {
            Ok(warnings) => {
                self.findings.set(check.store(), Ok(warnings));
                Went::Found
            }
            Err(StoreCheckError::Unfit { problem }) => {
                self.findings.set(check.store(), Err(problem));
                Went::Unfit
            }
            Err(error @ StoreCheckError::Away { .. }) => {
                tracing::debug!(store = check.store(), %error, "a store is not checked yet");
                Went::Away
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::collections::VecDeque;

    use agent_core::ports::StoreWarning;
    use boxed_async::boxed_async;
    use tokio::time::Instant;

    use super::*;

    type Answer = Result<Vec<StoreWarning>, StoreCheckError>;

    /// Gives these answers in their order, then passes.
    struct Scripted(Mutex<VecDeque<Answer>>);

    #[boxed_async]
    impl StoreCheck for Scripted {
        fn store(&self) -> &'static str {
            "redis"
        }

        async fn check(&self) -> Answer {
            self.0.lock().pop_front().unwrap_or(Ok(vec![]))
        }
    }

    fn checks(answers: impl IntoIterator<Item = Answer>) -> StoreChecks {
        StoreChecks::new(vec![Arc::new(Scripted(Mutex::new(answers.into_iter().collect())))])
    }

    fn away() -> Answer {
        Err(StoreCheckError::Away { detail: "connection refused".into() })
    }

    fn unfit() -> Answer {
        Err(StoreCheckError::Unfit { problem: "it evicts".into() })
    }

    fn weak() -> StoreWarning {
        StoreWarning { store: "redis", setting: "appendfsync", problem: "weak".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_must_not_be_used_keeps_the_service_from_starting_and_one_that_is_away_does_not() {
        let error = checks([unfit()]).begin().await.unwrap_err();
        assert_eq!(error.to_string(), "redis: it evicts");
        let checks = checks([away()]);
        checks.begin().await.unwrap();
        assert!(checks.findings().warnings().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_was_away_is_checked_when_it_is_there_and_again_later() {
        let checks = checks([away(), away(), unfit(), Ok(vec![weak()]), away(), Ok(vec![])]);
        checks.begin().await.unwrap();
        let findings = checks.findings();
        let began = Instant::now();
        let watch = async {
            for (until, warnings, unfit) in [
                (FIRST_PAUSE * 4, 0, 1),
                (UNFIT_PAUSE + FIRST_PAUSE * 8, 1, 0),
                (UNFIT_PAUSE + FOUND_PAUSE + FIRST_PAUSE, 1, 0),
                (UNFIT_PAUSE + FOUND_PAUSE * 2, 0, 0),
            ] {
                tokio::time::sleep_until(began + until).await;
                assert_eq!(
                    (findings.warnings().len(), findings.unfit().len()),
                    (warnings, unfit),
                    "{until:?}"
                );
            }
        };
        tokio::select! {
            () = checks.keep_checking() => unreachable!("it goes on for ever"),
            () = watch => {}
        }
    }
}
