//! Whether a caller is within its rate limits, found out while the cache is looked at already.

use std::fmt;

use super::{Ask, Invoke, InvokeError, RunAnswer};
use crate::shared_future::SharedFuture;
use boxed_async::boxed_async;

/// A check of the rate limits that is under way. Clones are the same check: it is made once, whoever waits
/// for it.
#[derive(Clone)]
pub struct RateCheck(SharedFuture<bool>);

impl RateCheck {
    /// A check that says whether the caller is within its limits.
    pub fn new(check: impl Future<Output = bool> + Send + 'static) -> Self {
        Self(SharedFuture::new(check))
    }

    /// Waits until it is known whether the caller is within its limits.
    pub async fn passes(self) -> bool {
        self.0.await
    }
}

impl fmt::Debug for RateCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateCheck").field("result", &self.0.peek()).finish()
    }
}

/// Begins nothing for a caller before it is known to be within its limits. An ask without a check passes:
/// whoever made it has waited before.
#[derive(Debug)]
pub struct RateChecked<I>(I);

impl<I: Invoke> RateChecked<I> {
    /// Passes on to `inner`.
    pub fn new(inner: I) -> Self {
        Self(inner)
    }
}

#[boxed_async]
impl<I: Invoke> Invoke for RateChecked<I> {
    async fn invoke(&self, mut ask: Ask) -> Result<RunAnswer, InvokeError> {
        if let Some(check) = ask.rate_check.take()
            && !check.passes().await
        {
            return Err(InvokeError::OverLimit);
        }
        self.0.invoke(ask).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::testing::ScriptedInvoke;

    async fn ask(agent: &ScriptedInvoke, rate_check: Option<RateCheck>) -> Result<RunAnswer, InvokeError> {
        let ask = Ask { rate_check, ..Ask::new("r".into(), "q".into()) };
        RateChecked::new(agent.clone()).invoke(ask).await
    }

    #[tokio::test]
    async fn a_run_begins_when_its_caller_is_known_to_be_within_its_limits() {
        let agent = ScriptedInvoke::answering("4");
        let check = |passes| Some(RateCheck::new(std::future::ready(passes)));
        assert!(ask(&agent, None).await.is_ok());
        assert!(ask(&agent, check(true)).await.is_ok());
        assert!(matches!(ask(&agent, check(false)).await, Err(InvokeError::OverLimit)));
        assert!(ask(&agent, Some(RateCheck::new(std::future::pending()))).now_or_never().is_none());
        assert_eq!(agent.asked().len(), 2);
    }
}
