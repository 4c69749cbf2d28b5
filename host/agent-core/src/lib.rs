//! The words, the ports and the pure agent run that the rest of agent-host is built around.
//!
//! - [`words`]: plain data, below everything else: messages, replies, tools, events, jobs, results.
//! - [`agent_loop`]: the agent loop as a value. No async, no clock, no I/O.
//! - [`runs`]: a run's life: one owner task, any number of readers.
//! - [`loop_driver`]: carries a run's steps out with a model and a tool set, journaling as it goes.
//! - [`ports`]: one trait and its error per file: what the core needs from the outside.
//! - [`layers`]: the one entry to an agent run, and the wrappers around it.
//! - [`health`]: runs probes side by side and collects a report.
//! - [`backoff`]: the pauses between tries, for the whole workspace.
//! - [`circuit_breaker`]: a circuit breaker as a value, and one that many calls pass through.
//! - [`conversations`]: what was said in earlier runs of a user, put in front of the next one.
//! - [`direct_calls`]: calls of tools that belong to no run.
//! - [`journal`]: how the journals of runs get to their store.
//! - [`usage_meter`]: what a run has cost so far, also one that ends without a result.
//! - [`event_stream`]: server-sent events, read.
//! - [`nearest_word`](mod@nearest_word): which word was meant.
//! - [`rates`]: rate windows that go on counting when their store fails.
//! - [`retention`]: removes what has ended and is older than it is to be kept.
//! - [`held_lease`]: the holder's side of a lease: renewed while work goes on, given back when it ends.
//! - [`jobs`]: what callers do with jobs, and the worker that works them off.
//! - [`shared_future`]: a future that several wait for, and that runs once.
//! - [`shutdown`]: the phases in which a service stops.
//! - [`secret`]: a text that cannot be printed by accident.
//! - [`observe`]: what the core tells whoever counts.
//! - [`trace`]: which trace a request, a job and each step belong to; `gen_ai`: the spans of a run.
//! - `testing`: scripted fakes behind the feature of that name.
//!
//! What does not belong here: HTTP, WebAssembly, databases, environment variables, status codes.

pub mod agent_loop;
pub mod backoff;
pub mod circuit_breaker;
pub mod conversations;
pub mod direct_calls;
pub mod error_chain;
pub mod event_stream;
pub mod health;
pub mod held_lease;
pub mod jobs;
pub mod journal;
pub mod layers;
pub mod live;
pub mod loop_driver;
pub mod nearest_word;
pub mod observe;
mod outage;
pub mod ports;
pub mod progress;
pub mod rates;
pub mod retention;
pub mod runs;
pub mod secret;
pub mod shared_future;
pub mod shutdown;
pub mod streams;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trace;
pub mod usage_meter;
pub mod webhooks;
pub mod words;
