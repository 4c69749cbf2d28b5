//! An agent that does what a test says, and the service over stores in memory; `nested.rs` is for the fuzz
//! targets.

mod in_memory;
mod nested;
mod planted;

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::testing::{of_one_user, reply};
use agent_core::words::{AgentResult, StopReason, ToolOutcome, ToolReceipt};
use boxed_async::boxed_async;

use crate::layers::{Ask, Invoke, InvokeError, RunAnswer};

pub use in_memory::{flush, run_stores, scripted_agent, streams_of, waiting_calls, work_for, worker_context};
pub use nested::read_nested;
pub(crate) use planted::{has, heard, read};
pub use planted::{Bug, Planted};

/// Does one scripted thing after the other, and the last one for ever. Clones are the same agent.
#[derive(Debug, Clone, Default)]
pub struct ScriptedInvoke(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    script: Mutex<VecDeque<Act>>,
    last: Mutex<Option<Act>>,
    asked: Mutex<Vec<Ask>>,
    under_way: AtomicUsize,
}

#[derive(Debug, Clone)]
enum Act {
    Answer { after: Duration, answer: Box<Result<RunAnswer, InvokeError>> },
    Hang,
    Panic,
}

impl ScriptedInvoke {
    /// Gives these answers in this order, then the last one until there is another.
    pub fn new(script: impl IntoIterator<Item = Result<RunAnswer, InvokeError>>) -> Self {
        let agent = Self::default();
        script.into_iter().for_each(|answer| agent.add(answer));
        agent
    }

    /// Says the same to everybody.
    pub fn answering(text: &str) -> Self {
        Self::new([Ok(Self::answer(text))])
    }

    /// Never answers, unless it is cancelled.
    pub fn hanging() -> Self {
        let agent = Self::default();
        agent.hang();
        agent
    }

    /// A completed run that says this.
    pub fn answer(text: &str) -> RunAnswer {
        Self::ended(text, StopReason::Completed)
    }

    /// A completed run that says this after a call to a tool that can tell users apart.
    pub fn answer_of_one_user(text: &str) -> RunAnswer {
        let mut answer = Self::answer(text);
        let receipt = of_one_user(ToolReceipt::new("recall", ToolOutcome::Ok));
        Arc::make_mut(&mut answer.result).tool_calls.push(receipt);
        answer
    }

    /// A run that ended for this reason.
    pub fn ended(text: &str, stop_reason: StopReason) -> RunAnswer {
        let said = agent_core::testing::result(vec![reply(text)], stop_reason);
        let result = AgentResult { id: "run_scripted".into(), output: text.into(), ..said };
        RunAnswer { result: Arc::new(result), cached: None, is_turn_lost: false }
    }

    /// Then gives this answer.
    pub fn add(&self, answer: Result<RunAnswer, InvokeError>) {
        self.add_after(Duration::ZERO, answer);
    }

    /// Then gives this answer after a while.
    pub fn add_after(&self, after: Duration, answer: Result<RunAnswer, InvokeError>) {
        self.act(Act::Answer { after, answer: Box::new(answer) });
    }

    /// Then never answers, unless it is cancelled.
    pub fn hang(&self) {
        self.act(Act::Hang);
    }

    /// Then panics.
    pub fn panic(&self) {
        self.act(Act::Panic);
    }

    fn act(&self, act: Act) {
        self.0.script.lock().push_back(act);
    }

    pub fn asked(&self) -> Vec<Ask> {
        self.0.asked.lock().clone()
    }

    /// How many runs are under way: neither ended nor dropped.
    pub fn under_way(&self) -> usize {
        self.0.under_way.load(Ordering::SeqCst)
    }

    /// Waits until so many runs are under way.
    pub async fn until_under_way(&self, runs: usize) {
        while self.under_way() != runs {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[boxed_async]
impl Invoke for ScriptedInvoke {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        let (cancel, replied) = (ask.control.cancel.clone(), ask.control.model_replied.clone());
        let cancel = cancel.unwrap_or_default();
        self.0.asked.lock().push(ask);
        let next = self.0.script.lock().pop_front();
        let act = {
            let mut last = self.0.last.lock();
            *last = next.or(last.take());
            last.clone()
        };
        self.0.under_way.fetch_add(1, Ordering::SeqCst);
        let _under_way = UnderWay(&self.0.under_way);
        match act {
            Some(Act::Answer { after, answer }) => {
                tokio::time::sleep(after).await;
                if matches!(&*answer, Ok(answer) if answer.result.iterations > 0) {
                    replied.set();
                }
                *answer
            }
            Some(Act::Hang) => {
                cancel.cancelled().await;
                Ok(Self::ended("", StopReason::Cancelled))
            }
            Some(Act::Panic) => break_off(),
            None => Err(InvokeError::Busy { waited: Duration::ZERO }),
        }
    }
}

#[expect(clippy::panic, reason = "that is what the test wants")]
fn break_off() -> ! {
    panic!("a bug in the agent")
}

struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
