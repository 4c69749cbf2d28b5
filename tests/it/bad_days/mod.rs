//! The days on which everything breaks: processes are killed, stores and the provider go away and come back,
//! disks fill up. Promises for them:
//! host/docs/interface/decisions-runs.md#durability and host/docs/interface/errors-and-limits.md#errors. What
//! holds on every other day is in `variant_b/`.

/// Runs one check over several stores, each as a test of its own name.
macro_rules! on_each {
    ($check:ident: $($name:ident = $stores:expr;)+) => {
        $(#[tokio::test]
        async fn $name() {
            $check($stores).await;
        })+
    };
}

mod backlog;
mod boundaries;
mod child_runs;
mod clock;
mod conversations;
mod crowd;
mod disk;
mod history;
mod idempotency;
mod load;
mod network;
mod outages;
mod poison;
mod replicas;
mod sentinel;
mod stopped;
mod streams;
mod succession;
mod takeover;
pub(crate) mod waits;
mod waits_within;
