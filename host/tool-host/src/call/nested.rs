//! Calls that a guest makes of the run's other tools: made by the task that waits for the guest, one after
//! another as the guest asks for them, and dropped with it.

use agent_core::ports::NestedTools;
use tokio::sync::mpsc;

use crate::capability::toolbox::{NestedCall, Outer};

/// The guest's end and the host's end of a call that may call tools.
pub(super) fn open(tools: &dyn NestedTools) -> (Outer, mpsc::Receiver<NestedCall>) {
    // A guest waits for each answer before it asks again.
    let (calls, asked) = mpsc::channel(1);
    (Outer { names: tools.names(), calls }, asked)
}

/// What `call` comes to, while the calls are made that its guest asks for.
pub(super) async fn serve<T>(
    call: impl Future<Output = T>,
    tools: &dyn NestedTools,
    mut asked: mpsc::Receiver<NestedCall>,
) -> T {
    let answer_all = async {
        while let Some(NestedCall { name, arguments, answer }) = asked.recv().await {
            // A guest that was interrupted meanwhile waits no more.
            let _ = answer.send(tools.call(&name, &arguments).await);
        }
        std::future::pending().await
    };
    tokio::select! {
        biased;
        value = call => value,
        never = answer_all => never,
    }
}
