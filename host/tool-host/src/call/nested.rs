//! Calls that a guest makes of the run's other tools, and its questions: carried out by the task that waits
//! for the guest, one after another as the guest asks for them, and dropped with it.

use agent_core::ports::{NestedTools, Question};
use tokio::sync::mpsc;

use crate::capability::nondeterminism::RecordedClock;
use crate::capability::toolbox::{NestedCall, NestedWish, Outer};

/// What serves a guest that calls and asks.
pub(super) struct Served<'a> {
    pub(super) tools: &'a dyn NestedTools,
    /// Whose code asks, as `component@sha256:…`.
    pub(super) component: &'a str,
    /// The guest's clock, where that moves with its answers.
    pub(super) clock: Option<&'a RecordedClock>,
}

/// The guest's end and the host's end of a call that may call tools.
pub(super) fn open(tools: &dyn NestedTools) -> (Outer, mpsc::Receiver<NestedCall>) {
    // A guest waits for each answer before it asks again.
    let (calls, asked) = mpsc::channel(1);
    (Outer { names: tools.names(), calls }, asked)
}

/// What `call` comes to, while the calls are made that its guest asks for.
pub(super) async fn serve<T>(
    call: impl Future<Output = T>,
    served: Served<'_>,
    mut asked: mpsc::Receiver<NestedCall>,
) -> T {
    let answer_all = async {
        let Served { tools, component, clock } = served;
        while let Some(NestedCall { wish, answer }) = asked.recv().await {
            let returned = match &wish {
                NestedWish::Call { name, arguments } => tools.call(name, arguments).await,
                NestedWish::Question { text, schema } => {
                    tools.ask(Question { component, text, schema: schema.as_deref() }).await
                }
            };
            if let Some((clock, world)) = clock.zip(tools.recorded()) {
                clock.set(world.now);
            }
            // A guest that was interrupted meanwhile waits no more.
            let _ = answer.send(returned);
        }
        std::future::pending().await
    };
    tokio::select! {
        biased;
        value = call => value,
        never = answer_all => never,
    }
}
