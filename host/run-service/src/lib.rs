//! A run's life: what carries it out, what stands around it, and what is kept of it. It knows the outside by
//! the ports of `agent-core` only.
//!
//! - [`layers`]: the one entry to an agent run, and the wrappers around it.
//! - [`loop_driver`]: carries a run's steps out with a model and a tool set, journaling as it goes; `gen_ai`:
//!   the spans of a run.
//! - [`runs`]: one owner task of each run, any number of readers.
//! - [`jobs`]: what callers do with jobs, and the worker that works them off; `job_pages`: their lists.
//! - [`journal`]: how the journals of runs get to their store.
//! - [`live`], [`streams`]: runs under way as this process watches them, and as a client reads them.
//! - [`conversations`]: what was said in earlier runs of a user, put in front of the next one.
//! - [`latest_progress`]: the reports of one tool call on their way to whoever watches it.
//! - [`direct_calls`]: calls of tools that belong to no run.
//! - [`waits`]: what runs wait for, shown and decided.
//! - [`webhooks`]: clients told of their jobs' ends.
//! - [`retention`]: removes what has ended and is older than it is to be kept.
//! - [`rates`]: rate windows that go on counting when their store fails.
//! - [`held_lease`]: the holder's side of a lease: renewed while work goes on, given back when it ends.
//! - [`health`]: runs probes side by side and collects a report.
//! - [`output_check`]: outputs that a caller wants as JSON, held against their schema.
//! - `clock`: the wall clock and new ids, which a simulation decides.
//! - [`invariants`]: what never happens, as pure functions that tests and simulations ask.
//! - [`usage_meter`]: what a run has cost so far, also one that ends without a result.
//! - [`shared_future`]: a future that several wait for, and that runs once.
//! - [`shutdown`]: the phases in which a service stops.
//! - `testing`: a scripted agent behind the feature of that name.
//!
//! What does not belong here: what follows from an event, which `agent-core` decides; HTTP, WebAssembly,
//! databases, environment variables, status codes.

mod clock;
pub mod conversations;
pub mod direct_calls;
pub mod health;
pub mod held_lease;
pub mod invariants;
mod job_pages;
pub mod jobs;
pub mod journal;
pub mod latest_progress;
pub mod layers;
pub mod live;
pub mod loop_driver;
mod outage;
pub mod output_check;
pub mod rates;
pub mod retention;
pub mod runs;
pub mod shared_future;
pub mod shutdown;
pub mod streams;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod usage_meter;
pub mod waits;
pub mod webhooks;
